"""Which messages others numbered how: what is remembered, asked, told, and forgotten."""

from line_of_five import N0, N1, N2, N3, N4, copy_from_1, publication, state_of

from causalcast.core import Outbox
from causalcast.core.effects import Send
from causalcast.protocols.locamu.message_log import Record
from causalcast.protocols.locamu.messages import AskNames, Copy, Named, Names, key_of
from causalcast.protocols.locamu.names import MOST_HOPS, KnownNames

FIRST = key_of(Copy(publication(1), b""))
SECOND = key_of(Copy(publication(2), b""))


def sent(out: Outbox) -> list[tuple[int, object]]:
    return [(effect.to, effect.message) for effect in out.effects if isinstance(effect, Send)]


def test_a_name_for_this_node_counts_for_nothing_before_its_message_is_here() -> None:
    state = state_of(N2)
    names = KnownNames(state)
    assert names.learn(N1, {FIRST: {N2: 1}}, Outbox()) == [FIRST]
    assert not state.past.has_arrived(N1, 1)
    assert names.own_number(FIRST, N1) == 1 and names.own_number(SECOND, N1) == 0
    assert names.take_mine(FIRST) == {N1: 1} and names.mine == {}
    state.past.arrive(N1, 1)
    assert names.learn(N1, {FIRST: {N2: 1}}, Outbox()) == []


def test_what_is_settled_is_forgotten_and_not_taken_again() -> None:
    names = KnownNames(state_of(N2))
    names.learn(N1, {FIRST: {N0: 1, N3: 1}, SECOND: {N0: 2}}, Outbox())
    assert names.size() == 3 and list(names.issuers()) == [N1]
    names.settle(N1, {N0: 1, N3: 1})
    assert names.size() == 1
    names.learn(N1, {FIRST: {N0: 1}}, Outbox())
    assert names.size() == 1
    names.settle(N1, {N0: 2})
    assert names.is_empty()


def test_who_asks_is_told_what_is_known_and_others_are_asked_for_the_rest() -> None:
    """1 seems to be down; 0 asks 2, which asks 3 in turn, as that is within two hops of 1 too."""
    state = state_of(N2)
    state.peers.suspected[N1] = None
    names = KnownNames(state)
    names.learn(N1, {FIRST: {N0: 1}}, Outbox())
    out = Outbox()
    names.on_ask(N0, AskNames(N1, N0, [1, 2], MOST_HOPS - 1), out)
    (to, told), (on, asked) = sent(out)
    assert isinstance(told, Names) and isinstance(asked, AskNames)
    assert (to, told.keys) == (N0, {1: list(FIRST)})
    assert (on, asked.numbers, asked.hops) == (N3, [2], MOST_HOPS - 2)
    out = Outbox()
    names.on_ask(N0, AskNames(N1, N0, [2], 0), out)
    assert sent(out) == []


def test_what_stands_in_records_and_held_copies_is_known_too() -> None:
    state = state_of(N2)
    names = KnownNames(state)
    copy = copy_from_1(1, {})
    state.holdback.put((N1, N2), copy)
    assert names._key(N1, N3, 1) == FIRST
    state.holdback.take((N1, N2))
    assert names._key(N1, N3, 1) is None
    state.log.add(Record(copy.message, N0, 0, N1, copy.numbers, 0))
    assert names._key(N1, N3, 1) == FIRST


def test_a_message_that_is_forgotten_leaves_the_names_of_those_who_sent_it() -> None:
    names = KnownNames(state_of(N2))
    copy = copy_from_1(1, {})
    record = Record(copy.message, N0, 0, N1, {**copy.numbers, N2: {N4: 1}}, 0)
    record.targets = {N4: 1}
    assert names.take_over(record) == []
    record.heard_from[N1] = None
    (named,) = names.take_over(record)
    assert (named.issuer, named.keys) == (N1, {N3: {1: list(FIRST)}})
    assert names.take_over(record) == []  # known already


def test_a_snapshot_has_all_of_it() -> None:
    names = KnownNames(state_of(N2))
    names.learn(N1, {FIRST: {N0: 1, N2: 1}}, Outbox())
    again = KnownNames(state_of(N2))
    for named in names.snapshot():
        assert isinstance(named, Named)
        again.restore(named)
    assert again.size() == 1 and again.own_number(FIRST, N1) == 1
    again.forget_gone(N1)
    assert again.is_empty() and again.mine == {}
