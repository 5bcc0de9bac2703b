"""Reliable links from every node to every other: once, in order, over crashes (sub-automaton).

The channel that the papers on group multicast take for granted. Each direction between two nodes
numbers its parcels. A parcel is persisted before it is sent, kept until it is acknowledged, and
repeated; the receiver takes parcels in their order and persists each with what it leads to. So what
was sent to several nodes in one step reaches all of them, whatever crashes, once all are back.
"""

from collections.abc import Callable
from typing import Final, final

from causalcast.core.ids import NodeId
from causalcast.core.message import Message, Wire
from causalcast.core.outbox import Outbox
from causalcast.core.spec import Setup
from causalcast.parts.broadcast import reliable_sending
from causalcast.parts.kept_weight import SharedWeight

REPEAT: Final = "reliable_links.repeat"
ACKNOWLEDGE: Final = "reliable_links.acknowledge"


class Parcel(Message):
    """The `number`-th message on this direction: take it if it is the next, else when it is."""

    wire = Wire("reliable_links.parcel", number=int, content=Message)

    def __init__(self, number: int, content: Message) -> None:
        self.number = number
        self.content = content


class Got(Message):
    """All up to `count` arrived here: forget them. With `answer`, tell the same."""

    wire = Wire("reliable_links.got", count=int, answer=bool)

    def __init__(self, count: int, answer: bool) -> None:
        self.count = count
        self.answer = answer


class Sent(Message):
    """Record: this went to these nodes, as the next parcel of each."""

    wire = Wire("reliable_links.sent", to=list[NodeId], content=Message)

    def __init__(self, to: list[NodeId], content: Message) -> None:
        self.to = to
        self.content = content


class Taken(Message):
    """Record: the next parcel of this node was taken, and this was in it."""

    wire = Wire("reliable_links.taken", sender=NodeId, content=Message)

    def __init__(self, sender: NodeId, content: Message) -> None:
        self.sender = sender
        self.content = content


class Counts(Message):
    """Record of a snapshot: parcels sent to, acknowledged by, and taken from each node."""

    wire = Wire(
        "reliable_links.counts",
        sent=dict[NodeId, int],
        acknowledged=dict[NodeId, int],
        taken=dict[NodeId, int],
    )

    def __init__(
        self, sent: dict[NodeId, int], acknowledged: dict[NodeId, int], taken: dict[NodeId, int]
    ) -> None:
        self.sent = sent
        self.acknowledged = acknowledged
        self.taken = taken


class Unacknowledged(Message):
    """Record of a snapshot: a parcel to this node that it has not acknowledged."""

    wire = Wire("reliable_links.unacknowledged", to=NodeId, number=int, content=Message)

    def __init__(self, to: NodeId, number: int, content: Message) -> None:
        self.to = to
        self.number = number
        self.content = content


class Nothing(Message):
    """In the place of what was given up: take it, and do nothing."""

    wire = Wire("reliable_links.nothing")


class GivenUp(Message):
    """Record: what these nodes have not acknowledged is not for them any more."""

    wire = Wire("reliable_links.given_up", to=list[NodeId])

    def __init__(self, to: list[NodeId]) -> None:
        self.to = to


# What people who run nodes want to hear of.
EVENTS: Final[dict[str, str]] = {
    "reliable_links.forgot": "a neighbour has forgotten messages that it had taken: nobody can "
    "bring them again, and it waits for them for ever",
    "reliable_links.took_more": "a neighbour has taken messages that this node does not know to "
    "have sent: this node has forgotten them, and what it sends now is taken for those",
}
NOTHING: Final = Nothing()
MESSAGES: Final = [Parcel, Got, Sent, Taken, Counts, Unacknowledged, Nothing, GivenUp]
RARE: Final = ["reliable_links.repeated", "reliable_links.resumed", "reliable_links.early"]

OPTIONS: Final = [
    option for option in reliable_sending.OPTIONS if option.name not in ("spread", "hand_over")
]


@final
class Direction:
    """What one peer and this node have said to each other."""

    def __init__(self) -> None:
        self.up = False
        self.heard = False  # since the link came up: did it tell what it got
        self.sent = 0  # parcels so far
        self.acknowledged = 0
        self.under_way = 0  # the highest number that was sent on this link
        self.watched = 0  # if it is not acknowledged when the timer runs out, all is repeated
        self.kept: dict[int, Message] = {}  # not acknowledged; what lacks was given up
        self.taken = 0
        self.early: dict[int, Message] = {}  # came before an earlier one
        self.owes = False  # an acknowledgement

    def is_owed(self) -> bool:
        """Whether the peer has not acknowledged everything, also of what was given up."""
        return self.sent > self.acknowledged


@final
class ReliableLinks:
    """Both directions to every peer."""

    def __init__(
        self,
        setup: Setup,
        peers: list[NodeId] | None = None,
        body_bytes: Callable[[Message], int] | None = None,
    ) -> None:
        """To everybody, or only to these `peers`; `body_bytes` says how large the bodies in what is
        sent are."""
        self.me = setup.me
        self.repeat_after = setup.number("repeat_after")
        self.acknowledge_after = setup.number("acknowledge_after")
        self.window = setup.number("window")
        others = setup.topology.everybody() if peers is None else peers
        self.peers = {peer: Direction() for peer in others if peer != setup.me}
        self._weight = SharedWeight(body_bytes)  # of what was not acknowledged

    # What the owner calls

    def send(self, to: list[NodeId], content: Message, out: Outbox) -> None:
        """Bring `content` to all of these, each once and behind what it was sent before."""
        others = [peer for peer in to if peer != self.me]
        out.persist(Sent(others, content))
        for peer in others:
            direction = self.peers[peer]
            direction.sent += 1
            self._keep(direction, direction.sent, content)
            self._send_waiting(peer, direction, out)

    def give_up(self, to: list[NodeId], out: Outbox) -> None:
        """Forget what these have not acknowledged; its numbers are used, for nothing."""
        out.persist(GivenUp(to))
        self._forget(to)

    def _forget(self, peers: list[NodeId]) -> None:
        for peer in peers:
            direction = self.peers[peer]
            for number in list(direction.kept):
                self._drop(direction, number)

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> list[Message]:
        """What can be taken now, in its order; each is persisted."""
        direction = self.peers.get(sender)
        if direction is None:
            out.note("reliable_links.stray", sender)
            return []
        if isinstance(message, Got):
            self._on_got(sender, direction, message, out)
            return []
        if not isinstance(message, Parcel):
            out.note("reliable_links.stray", sender)
            return []
        self._acknowledge_later(sender, direction, out)
        if message.number <= direction.taken or message.number > direction.taken + self.window:
            return []
        if message.number > direction.taken + 1:
            out.note("reliable_links.early", sender)
        direction.early[message.number] = message.content
        taken = []
        while direction.taken + 1 in direction.early:
            direction.taken += 1
            content = direction.early.pop(direction.taken)
            out.persist(Taken(sender, content))
            if not isinstance(content, Nothing):
                taken.append(content)
        return taken

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        """Repeat what was not acknowledged, or acknowledge."""
        peer = NodeId(subject)
        direction = self.peers[peer]
        if name == ACKNOWLEDGE:
            direction.owes = False
            out.send(peer, Got(direction.taken, False))
            return
        assert name == REPEAT
        if peer in out.world.congested:
            pass  # a link that takes nothing more has not lost what it was given
        elif not direction.heard:
            out.send(peer, Got(direction.taken, True))
        elif direction.acknowledged < direction.watched:
            out.note("reliable_links.repeated", peer)
            direction.under_way = direction.acknowledged
            self._send_waiting(peer, direction, out)
        if direction.is_owed() or not direction.heard:
            self._watch(peer, direction, out)

    def on_neighbour_up(self, peer: NodeId, out: Outbox) -> None:
        """Tell what came from there so far, and expect the same."""
        direction = self.peers.get(peer)
        if direction is not None:
            direction.up = True
            direction.heard = False
            direction.owes = False
            out.send(peer, Got(direction.taken, True))
            self._watch(peer, direction, out)

    def on_neighbour_down(self, peer: NodeId, out: Outbox) -> None:
        """Send nothing more for now."""
        direction = self.peers.get(peer)
        if direction is not None:
            direction.up = False
            direction.heard = False
            direction.early = {}
            out.cancel_timer(REPEAT, peer)
            out.cancel_timer(ACKNOWLEDGE, peer)

    def restore(self, record: Message) -> Message:
        """Take in one record after a restart; it comes back for the owner to look at."""
        if isinstance(record, Sent):
            for peer in record.to:
                direction = self.peers[peer]
                direction.sent += 1
                self._keep(direction, direction.sent, record.content)
        elif isinstance(record, Taken):
            self.peers[record.sender].taken += 1
        elif isinstance(record, Counts):
            for peer, direction in self.peers.items():
                direction.sent = record.sent.get(peer, 0)
                direction.acknowledged = record.acknowledged.get(peer, 0)
                direction.taken = record.taken.get(peer, 0)
        elif isinstance(record, GivenUp):
            self._forget(record.to)
        elif isinstance(record, Unacknowledged):
            self._keep(self.peers[record.to], record.number, record.content)
        return record

    def snapshot(self) -> list[Message]:
        """Records for a restart."""
        peers = self.peers.items()
        records: list[Message] = [
            Counts(
                {peer: direction.sent for peer, direction in peers},
                {peer: direction.acknowledged for peer, direction in peers},
                {peer: direction.taken for peer, direction in peers},
            )
        ]
        for peer, direction in peers:
            for number, content in direction.kept.items():
                records.append(Unacknowledged(peer, number, content))
        return records

    def sent_to(self, peer: NodeId) -> int:
        """How many parcels were sent to a peer so far."""
        return self.peers[peer].sent

    def is_up(self, peer: NodeId) -> bool:
        """Whether there is a link to a peer."""
        return self.peers[peer].up

    def has_taken(self, peer: NodeId, number: int) -> bool:
        """Whether a peer said that it has the parcel of this number, and all before."""
        return self.peers[peer].acknowledged >= number

    def kept(self) -> int:
        """Parcels that were not acknowledged."""
        return sum(len(direction.kept) for direction in self.peers.values())

    def kept_for(self) -> dict[NodeId, int]:
        """The same by peer."""
        return {peer: len(direction.kept) for peer, direction in self.peers.items()}

    def kept_bytes(self) -> int:
        """What these take, roughly."""
        return self._weight.bytes

    def size(self) -> int:
        """Entries kept."""
        early = sum(len(direction.early) for direction in self.peers.values())
        return 3 * len(self.peers) + self.kept() + early

    # Small things

    def _keep(self, direction: Direction, number: int, content: Message) -> None:
        direction.kept[number] = content
        self._weight.keep(content)

    def _drop(self, direction: Direction, number: int) -> None:
        content = direction.kept.pop(number, None)
        if content is not None:
            self._weight.drop(content)

    def _on_got(self, peer: NodeId, direction: Direction, got: Got, out: Outbox) -> None:
        acknowledged = direction.acknowledged
        for number in range(acknowledged + 1, min(got.count, direction.sent) + 1):
            self._drop(direction, number)
            direction.acknowledged = number
        if got.answer:
            out.send(peer, Got(direction.taken, False))
        if not direction.heard:
            # Where messages can overtake one another, a count may be an old one.
            if out.world.links_lose_nothing and got.count < acknowledged:
                out.note("reliable_links.forgot", peer)
            if out.world.links_lose_nothing and got.count > direction.sent:
                out.note("reliable_links.took_more", peer)
            direction.heard = True
            direction.under_way = direction.acknowledged
            if direction.is_owed():
                out.note("reliable_links.resumed", peer)
                self._watch(peer, direction, out)
        self._send_waiting(peer, direction, out)

    def _send_waiting(self, peer: NodeId, direction: Direction, out: Outbox) -> None:
        """Send what was not sent on this link, as far as the window allows."""
        if not direction.up or not direction.heard:
            return
        if direction.under_way == direction.acknowledged and direction.is_owed():
            self._watch(peer, direction, out)
        last = min(direction.sent, direction.acknowledged + self.window)
        for number in range(max(direction.under_way, direction.acknowledged) + 1, last + 1):
            out.send(peer, Parcel(number, direction.kept.get(number, NOTHING)))
            direction.under_way = number

    def _watch(self, peer: NodeId, direction: Direction, out: Outbox) -> None:
        """Look in a while whether what is the oldest now has arrived."""
        direction.watched = direction.acknowledged + 1
        out.start_timer(REPEAT, self.repeat_after, peer)

    def _acknowledge_later(self, peer: NodeId, direction: Direction, out: Outbox) -> None:
        if not direction.owes:
            direction.owes = True
            out.start_timer(ACKNOWLEDGE, self.acknowledge_after, peer)
