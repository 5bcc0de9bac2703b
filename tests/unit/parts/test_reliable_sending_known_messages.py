"""A neighbour that told it has a message is not sent it, and never asked to acknowledge it."""

from causalcast.core import Groups, NodeId, Outbox, Publication, Send, Setup, message_id
from causalcast.core.ids import GroupId
from causalcast.core.topology import Surroundings, Topology
from causalcast.parts.broadcast.reliable_sending import OPTIONS, REPEAT, Have, ReliableSending
from causalcast.parts.broadcast.stamped_broadcast import Stamped, id_of

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


def repeated(sending: ReliableSending, after: int, out: Outbox) -> int:
    """How many copies leave for the right one when its timer runs out."""
    out.now += after
    out.effects.clear()
    sending.on_timer(REPEAT, RIGHT, out)
    return sum(isinstance(effect, Send) for effect in out.effects)


def test_on_links_that_lose_nothing_a_late_answer_is_waited_for() -> None:
    """Its last acknowledgement took 0.3 s, so four times that is waited, and then twice as long;
    where links lose messages the option alone counts."""
    counts = []
    for lose_nothing in (True, False):
        out = Outbox()
        out.world.links_lose_nothing = lose_nothing
        sending = line_of_three(out)
        for peer in (LEFT, RIGHT):
            sending.on_message(peer, Have({}, [], True, False), out)
        sending.accept(stamped(1), LEFT, out)
        out.now += 300_000
        sending.on_message(RIGHT, Have({ORIGIN: 1}, [], False, False), out)
        sending.accept(stamped(2), LEFT, out)
        waits = (300_000, 890_000, 20_000, 1_200_000, 1_190_000, 20_000)
        counts.append([repeated(sending, wait, out) for wait in waits])
    assert counts == [[0, 0, 1, 0, 0, 1], [1, 1, 0, 1, 1, 0]]


def test_a_congested_link_gets_no_repetitions() -> None:
    out = Outbox()
    sending = line_of_three(out)
    sending.on_message(RIGHT, Have({}, [], True, False), out)
    sending.accept(stamped(1), LEFT, out)
    out.world.congested = {RIGHT: None}
    assert repeated(sending, 300_000, out) == 0
    out.world.congested = {}
    assert repeated(sending, 300_000, out) == 1
