"""A neighbour that told it has a message is not sent it, and never asked to acknowledge it."""

from causalcast.core import Groups, NodeId, Outbox, Publication, Send, Setup, message_id
from causalcast.core.ids import GroupId
from causalcast.core.topology import Surroundings, Topology
from causalcast.parts.reliable_sending import OPTIONS, REPEAT, Have, ReliableSending
from causalcast.parts.stamped_broadcast import Stamped, id_of

LEFT, ME, RIGHT = NodeId(1), NodeId(2), NodeId(3)
ORIGIN = NodeId(9)


def stamped(number: int) -> Stamped:
    return Stamped(Publication(message_id(ORIGIN, number), GroupId(0), b"x"), {})


def line_of_three(out: Outbox) -> ReliableSending:
    """The middle one of three, with both neighbours up and heard."""
    groups = Groups({"all": [LEFT, ME, RIGHT]})
    graph = Topology({LEFT: [ME], ME: [LEFT, RIGHT], RIGHT: [ME]})
    options = {option.name: option.default for option in OPTIONS}
    around = Surroundings(ME, graph, groups)

    def no_inner(*_: object) -> None:
        raise AssertionError

    setup = Setup(ME, "seed", options, groups, around, no_inner)  # type: ignore[arg-type]
    sending = ReliableSending(setup, id_of)
    for peer in (LEFT, RIGHT):
        sending.on_neighbour_up(peer, out)
    return sending


def test_what_a_neighbour_has_already_is_neither_sent_nor_repeated() -> None:
    """The right one got 1 and 2 on another way and says so; then they come from the left."""
    out = Outbox()
    sending = line_of_three(out)
    sending.on_message(LEFT, Have({}, [], True, False), out)
    sending.on_message(RIGHT, Have({ORIGIN: 2}, [], True, False), out)
    out.effects.clear()

    for number in (1, 2):
        sending.accept(stamped(number), LEFT, out)
    assert [e.to for e in out.effects if isinstance(e, Send)] == []

    # The left one acknowledges both, so everybody has them and they are forgotten. Repeating
    # must not look for them.
    sending.on_message(LEFT, Have({ORIGIN: 2}, [], False, False), out)
    assert sending.kept() == 0
    out.effects.clear()
    out.now += 10_000_000
    sending.on_timer(REPEAT, RIGHT, out)
    assert [e.to for e in out.effects if isinstance(e, Send)] == []
