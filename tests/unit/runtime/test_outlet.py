"""What leaves on a link is what was sent on it, in order, and is encoded once for all links."""

from causalcast.core import ANY_LINK, GroupId, LinkId, Message, NodeId, Publication, message_id
from causalcast.parts.broadcast.stamped_broadcast import Stamped
from causalcast.runtime.links.outlet import Outlet, Outlets

LEFT, RIGHT = NodeId(2), NodeId(3)


def stamped(number: int) -> Stamped:
    return Stamped(Publication(message_id(NodeId(1), number), GroupId(0), b""), {})


class Desk:
    """Two links, and what was written to each."""

    def __init__(self) -> None:
        self.encoded: list[list[str]] = []
        self.written: dict[NodeId, list[bytes]] = {LEFT: [], RIGHT: []}
        self.outlets = Outlets(self._encode)
        for peer in (LEFT, RIGHT):
            self._open(peer)

    def _open(self, peer: NodeId) -> None:
        def flush() -> None:
            self.written[peer] += self.outlets.take(outlet)

        outlet = Outlet(LinkId(peer), flush)
        self.outlets.of_peer[peer] = outlet

    def _encode(self, run: list[Message]) -> bytes:
        self.encoded.append([str(m.publication) for m in run if isinstance(m, Stamped)])
        return " ".join(self.encoded[-1]).encode()


def test_links_that_carry_the_same_share_its_bytes() -> None:
    desk = Desk()
    for number in (1, 2, 4):
        message = stamped(number)
        for peer in (LEFT, RIGHT):
            assert desk.outlets.put(peer, message, ANY_LINK)
    desk.outlets.flush()
    assert desk.written == {LEFT: [b"1.1 1.2", b"1.4"], RIGHT: [b"1.1 1.2", b"1.4"]}
    assert desk.encoded == [["1.1", "1.2"], ["1.4"]]


def test_links_that_carry_other_things_do_not() -> None:
    desk = Desk()
    desk.outlets.put(LEFT, stamped(1), ANY_LINK)
    desk.outlets.put(RIGHT, stamped(5), ANY_LINK)
    desk.outlets.flush()
    desk.outlets.put(LEFT, stamped(2), ANY_LINK)
    desk.outlets.flush()
    assert desk.written == {LEFT: [b"1.1", b"1.2"], RIGHT: [b"1.5"]}


def test_bytes_do_not_overtake_messages_and_links_are_told_apart() -> None:
    desk = Desk()
    assert desk.outlets.put(LEFT, stamped(1), LinkId(LEFT))
    assert desk.outlets.put_encoded(LEFT, b"bytes", ANY_LINK)
    assert desk.outlets.put(LEFT, stamped(2), ANY_LINK)
    assert not desk.outlets.put(LEFT, stamped(3), LinkId(99))
    assert not desk.outlets.put_encoded(NodeId(7), b"nobody", ANY_LINK)
    desk.outlets.flush()
    assert desk.written[LEFT] == [b"1.1", b"bytes", b"1.2"]
    assert desk.outlets.queued_bytes == 11


def test_it_is_told_what_leaves_on_which_link_before_it_does() -> None:
    desk = Desk()
    told: list[tuple[NodeId, list[str], int]] = []

    def hear(outlet: Outlet, run: list[Message], size: int) -> None:
        assert not desk.written[outlet.peer]
        told.append(
            (outlet.peer, [str(m.publication) for m in run if isinstance(m, Stamped)], size)
        )

    desk.outlets.on_encoded = hear
    for number in (1, 2, 4):
        message = stamped(number)
        for peer in (LEFT, RIGHT):
            desk.outlets.of_peer[peer].peer = peer
            desk.outlets.put(peer, message, ANY_LINK)
    desk.outlets.encode()
    both = [(["1.1", "1.2"], 7), (["1.4"], 3)]
    assert told == [(peer, *one) for peer in (LEFT, RIGHT) for one in both]
    desk.outlets.flush()
    assert len(told) == 4, "once is enough"
    assert desk.written == {LEFT: [b"1.1 1.2", b"1.4"], RIGHT: [b"1.1 1.2", b"1.4"]}
