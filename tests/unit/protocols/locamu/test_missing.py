"""Which causes of a copy are missing, and what is asked for."""

from line_of_five import N0, N1, N2, copy_from_1, state_of

from causalcast.protocols.locamu.missing import MOST_WANTED, Missing
from causalcast.protocols.locamu.names import KnownNames

SOON, LATE = 5, 10


def test_the_first_number_that_did_not_arrive_is_missing() -> None:
    state = state_of(N2)
    copy = copy_from_1(3, {(N1, N2): 2, (N0, N2): 3})
    missing = Missing(state, KnownNames(state))
    assert missing.first_for(copy) == (N1, 1)
    state.past.arrive(N1, 1)
    state.past.arrive(N1, 2)
    assert missing.first_for(copy) == (N0, 1)
    state.past.arrive(N0, 1)
    state.past.arrive(N0, 2)
    assert missing.first_for(copy) is None  # its own number is no cause of it


def test_of_a_node_that_was_given_up_only_what_is_held_is_missing() -> None:
    state = state_of(N2)
    copy = copy_from_1(3, {(N1, N2): 2})
    state.departures.declare(N1)
    state.departures.give_up(N1, [])
    missing = Missing(state, KnownNames(state))
    assert missing.first_for(copy) is None
    state.holdback.put((N1, N2), copy_from_1(2, {}))
    assert missing.first_for(copy) == (N1, 2)


def test_what_is_missing_for_long_is_asked_for_and_what_is_held_is_not() -> None:
    state = state_of(N2)
    missing = Missing(state, KnownNames(state))
    state.holdback.put((N1, N2), copy_from_1(2, {(N1, N2): 1}))
    state.holdback.put((N1, N0), copy_from_1(4, {(N1, N2): 3}))
    assert missing.to_ask_for(SOON, LATE) == {}
    assert missing.to_ask_for(LATE, LATE) == {N1: [1, 3]}


def test_what_others_asked_after_is_asked_for_once() -> None:
    state = state_of(N2)
    missing = Missing(state, KnownNames(state))
    for number in range(1, 2 * MOST_WANTED.value):
        missing.take_probe(N1, number)
    state.past.arrive(N1, 1)
    asked = missing.to_ask_for(SOON, LATE)
    assert asked == {N1: list(range(2, MOST_WANTED.value + 2))}
    assert missing.to_ask_for(SOON, LATE) == {}
