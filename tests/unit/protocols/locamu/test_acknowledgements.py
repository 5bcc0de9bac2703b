"""What is acknowledged to whom, in one message, and what is understood of such a message."""

from line_of_five import N0, N1, N2, N3, copy_from_1, publication, state_of

from causalcast.core import NodeId, Outbox
from causalcast.protocols.locamu.acknowledgements import FLUSH_ACKS, Acknowledgements
from causalcast.protocols.locamu.message_log import Record
from causalcast.protocols.locamu.messages import Ack, Copy
from causalcast.protocols.locamu.node_state import NodeState

AFTER = 10


def processed(state: NodeState, number: int, issuers: list[NodeId]) -> Record:
    """A message of node 0 is here, at node 2, with the numbers of these issuers."""
    numbers = {issuer: {N2: number, N3: number} for issuer in issuers}
    record = Record(Copy(publication(number), b""), N0, 0, N1, numbers, 0)
    for issuer in issuers:
        state.past.arrive(issuer, number)
    state.log.add(record)
    return record


def sent(out: Outbox) -> dict[NodeId, Ack]:
    return {e.to: e.message for e in out.effects if hasattr(e, "to")}  # type: ignore[misc]


def test_everybody_who_numbered_a_message_hears_that_it_is_here_once_a_while() -> None:
    state, out = state_of(N2), Outbox()
    acknowledgements = Acknowledgements(state, AFTER)
    for number in (1, 2):
        acknowledgements.acknowledge(processed(state, number, [N0, N1]), out)
    timers = [(e.name, e.subject) for e in out.effects]  # type: ignore[attr-defined]
    assert timers == [(FLUSH_ACKS, N0), (FLUSH_ACKS, N1)]
    out.effects.clear()
    acknowledgements.flush(N0, out)
    acknowledgements.flush(N1, out)
    assert {node: ack.complete_to for node, ack in sent(out).items()} == {N0: 2, N1: 2}


def test_a_message_is_complete_when_all_its_numbers_are_known() -> None:
    state, out = state_of(N2), Outbox()
    acknowledgements = Acknowledgements(state, AFTER)
    record = processed(state, 1, [N1])  # the publisher's own numbers are not known
    acknowledgements.acknowledge(record, out)
    acknowledgements.flush(N1, out)
    assert sent(out)[N1].complete_to == 0
    assert sent(out)[N1].partial == {1: [N1]}
    state.log.learn(record, N0, {N0: {N2: 1}})
    assert acknowledgements.watch_complete(record)


def test_what_waits_no_longer_is_not_said_to_be_held() -> None:
    state, out = state_of(N2), Outbox()
    acknowledgements = Acknowledgements(state, AFTER)
    state.holdback.put((N1, NodeId(4)), copy_from_1(4, {}))
    acknowledgements.say_held(N1, 4, out)
    acknowledgements.say_held(N1, 5, out)
    acknowledgements.flush(N1, out)
    assert sent(out)[N1].held == [4]


def test_a_number_is_newly_complete_once() -> None:
    state = state_of(N2)
    acknowledgements = Acknowledgements(state, AFTER)
    for _ in range(3):
        processed(state, state.past.count_for(N3), [N1])
    assert acknowledgements.newly_complete(N3, Ack(2, [3], {}, [])) == [1, 2, 3]
    assert acknowledgements.newly_complete(N3, Ack(2, [], {}, [])) == []
    assert acknowledgements.newly_complete(N3, Ack(9, [], {}, [])) == [3]  # no more were given
