"""Causal barriers: a message names, per destination, what must be delivered there before.

R. Prakash, M. Raynal, M. Singhal, "An adaptive causal ordering algorithm suited to mobile computing
environments", 1997. None of our sources prints the algorithm; this is it from what is generally
known of it, and the swarm has judged it.

Each node keeps a barrier for every other node: the messages, by sender and number, that must be
delivered there before anything it sends there from now on, and of these only those that no other of
them implies. A message carries all its sender's barriers. Whoever gets one waits until it has
delivered what the barrier for itself names. Delivering it then changes the barriers: for those it
was sent to, it alone stands for everything its own barrier named; for the others its barriers are
added. So messages go to the members of their group and to nobody else, groups do not matter to the
order, and what is carried depends on how much is concurrent: nothing on a chain, up to n entries
for each of n destinations.

Where we differ from the paper, and why
- The paper assumes reliable channels. `reliable_links` makes them, over loss and crashes.
- Groups change: `member_lists` tells everybody of joins and leaves by messages that are
  themselves ordered by barriers.
- All correct destinations of a message get it or none does, whatever dies: unstable messages are
  kept and handed over (`addressed_sending`).
- A sender's own copy needs no barrier: it delivers at once.
"""

from causalcast.core import (
    CAUSAL_WITHOUT_THE_DEAD,
    GroupId,
    LinkId,
    Message,
    MessageId,
    Multicast,
    Needs,
    NodeId,
    Outbox,
    ProtocolSpec,
    Publication,
    Setup,
    Wire,
    message_id,
)
from causalcast.core.ids import NO_MESSAGE
from causalcast.parts.addressed import addressed_sending
from causalcast.parts.addressed.addressed_messages import (
    Numbered,
    Published,
    group_of,
    unwrapped,
)
from causalcast.parts.addressed.addressed_sending import AddressedSending
from causalcast.parts.addressed.member_lists import Joined, Left, MemberLists, Welcome
from causalcast.parts.addressed.reliable_links import Sent, Taken
from causalcast.parts.addressed.waiting_room import Entry, WaitingRoom
from causalcast.parts.safe_keeping import Name

Barrier = dict[NodeId, int]  # sender -> number of the last message that must come before


class Barred(Numbered):
    """The sender's `number`-th message: deliver it when everything the barrier for you names was.

    `to` are all its destinations, `barriers` those of its sender, before it was sent.
    """

    wire = Wire(
        "causal_barriers.barred",
        number=int,
        to=list[NodeId],
        barriers=dict[NodeId, dict[NodeId, int]],
        content=Message,
    )

    def __init__(
        self, number: int, to: list[NodeId], barriers: dict[NodeId, Barrier], content: Message
    ) -> None:
        # The number is name enough. With the group, who stays away from one holds up one alone.
        super().__init__(group_of(content), number, content)
        self.to = to
        self.barriers = barriers


class Standing(Message):
    """Record of a snapshot: what was sent and delivered, and the barriers."""

    wire = Wire(
        "causal_barriers.standing",
        sent=int,
        delivered=dict[NodeId, int],
        unpublished=dict[NodeId, int],
        barriers=dict[NodeId, dict[NodeId, int]],
    )

    def __init__(
        self,
        sent: int,
        delivered: Barrier,
        unpublished: Barrier,
        barriers: dict[NodeId, Barrier],
    ) -> None:
        self.sent = sent
        self.delivered = delivered
        self.unpublished = unpublished
        self.barriers = barriers


class CausalBarriers(Multicast):
    """Barriers for everybody, and messages that wait behind the one for this node."""

    def __init__(self, setup: Setup) -> None:
        self.me = setup.me
        self.everybody = setup.topology.everybody()
        self.sent = 0
        self.delivered: Barrier = {}
        self.unpublished: Barrier = {}  # per sender: delivered messages that were joins and leaves
        self.barriers: dict[NodeId, Barrier] = {}
        self.waiting = WaitingRoom()
        self.lists = MemberLists(setup.me, setup.groups, self.everybody)
        self.sending = AddressedSending(setup, self.lists, self._has, who_left_needs=True)

    # Sending

    def on_publish(self, publication: Publication, out: Outbox) -> None:
        # Sending; its lines are not in the papers at hand. It carries all barriers, and is the
        # barrier of its destinations from now on.
        group = publication.group
        joined, left = self.lists.joined(group), self.lists.left(group)
        published = Published(publication, list(joined), list(joined.values()), left)
        self._send(self.lists.of(group), published, out)
        if self.lists.has(group, self.me):
            out.deliver(publication)

    def on_join_group(self, group: GroupId, out: Outbox) -> None:
        # Not in the paper, whose groups are given: everybody is told, in causal order.
        self._send(self.everybody, self.lists.join(group), out)

    def on_leave_group(self, group: GroupId, out: Outbox) -> None:
        # Not in the paper, whose groups are given: the same.
        self._send(self.everybody, self.lists.leave(group), out)

    def _send(self, to: list[NodeId], content: Message, out: Outbox) -> None:
        barriers = {node: dict(barrier) for node, barrier in self.barriers.items() if barrier}
        message = Barred(self.sent + 1, to, barriers, content)
        self._count_sent(message)
        self.sending.send(to, message, out)

    def _count_sent(self, message: Barred) -> None:
        self.sent = message.number
        self.delivered[self.me] = message.number
        for node in message.to:
            if node != self.me:
                self.barriers[node] = {self.me: message.number}

    # Receiving

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        # Receiving; its lines are not in the papers at hand. It waits behind the barrier for this
        # node.
        if self.sending.on_message(sender, message, out):
            return
        for taken in self.sending.arrived(sender, message, out):
            arrived = self._take(sender, taken, out)
            self._deliver_ready(arrived, out)
            if arrived is not None:
                self._tell_if_held(arrived, out)
        self.sending.tend(out)

    def _take(self, sender: NodeId, taken: Message, out: Outbox | None) -> Entry | None:
        """Look at what arrived; if it may have to wait, it comes back. Without `out` it was taken
        before a restart."""
        origin, message = unwrapped(sender, taken)
        if isinstance(message, Barred):
            if origin in self.sending.links.peers:  # what was published here is kept here
                return self._on_barred(sender, taken, origin, message, out)
        elif isinstance(taken, Welcome):
            self.lists.on_welcome(sender, taken)
        elif out is not None:
            out.note("addressed_multicast.stray", sender)
        return None

    def _on_barred(
        self, sender: NodeId, taken: Message, origin: NodeId, message: Barred, out: Outbox | None
    ) -> Entry | None:
        # Receiving a message. Not in the paper: others may bring it, and it may be kept for them.
        if self.me not in message.to:
            self.sending.keep(sender, taken, out)
            return None
        if self._has(origin, message.name):
            if out is not None:
                out.note("addressed_multicast.had_already", sender)
            return None
        self.waiting.enter(origin, message)
        return origin, message

    def _has(self, origin: NodeId, name: Name) -> bool:
        return self.delivered.get(origin, 0) >= name[1] or self.waiting.has(origin, name)

    # Delivering

    def _deliver_ready(self, arrived: Entry | None, out: Outbox) -> None:
        """Deliver whatever waits behind no barrier any more, and welcome who joined."""
        for sender, message in self._ready():
            content = message.content
            if isinstance(content, Published):
                if self.lists.is_meant(content.publication.group, content):
                    if arrived is None or message is not arrived[1]:
                        out.release(content.publication.id)
                    out.deliver(content.publication)
            elif isinstance(content, Joined):
                self.sending.tell([sender], Welcome(content.group, content.time, 0), out)

    def _ready(self) -> list[Entry]:
        """Count whatever waits behind no barrier any more, causes before effects."""
        ready: list[Entry] = []
        while True:
            entry = self.waiting.next()
            if entry is None:
                return ready
            sender, message = entry
            assert isinstance(message, Barred)
            missing = self._missing(message)
            if missing:
                self.waiting.wait((0, next(iter(missing))), entry)
            else:
                self._count(sender, message)
                self.sending.counted(sender, message)
                self.waiting.wake((0, sender))
                ready.append(entry)

    def _missing(self, message: Barred) -> Barrier:
        """What the barrier for this node names and was not delivered."""
        return {
            before: number
            for before, number in message.barriers.get(self.me, {}).items()
            if self.delivered.get(before, 0) < number
        }

    def _count(self, sender: NodeId, message: Barred) -> None:
        """It is delivered: it stands for what its barriers named, for those it was sent to; for
        all others its barriers are added."""
        self.delivered[sender] = message.number
        if not isinstance(message.content, Published):
            self.unpublished[sender] = self.unpublished.get(sender, 0) + 1
        for node in message.to:
            if node not in (self.me, sender):
                implied = message.barriers.get(node, {})
                barrier = self.barriers.get(node, {})
                kept = {who: n for who, n in barrier.items() if n > implied.get(who, 0)}
                kept[sender] = message.number
                self.barriers[node] = kept
        for node, named in message.barriers.items():
            if node not in message.to and node != self.me:
                barrier = self.barriers.setdefault(node, {})
                for who, number in named.items():
                    barrier[who] = max(number, barrier.get(who, 0))

    def _ids_of_missing(self, message: Barred) -> list[MessageId]:
        return [self._id_of(before, number) for before, number in self._missing(message).items()]

    def _id_of(self, sender: NodeId, number: int) -> MessageId:
        """The publication with this number, if no join or leave that is still missing counts."""
        published = number - self.unpublished.get(sender, 0)
        return message_id(sender, published) if published > 0 else NO_MESSAGE

    def _tell_if_held(self, arrived: Entry, out: Outbox) -> None:
        sender, message = arrived
        content = message.content
        if isinstance(content, Published) and self.waiting.has(sender, message.name):
            assert isinstance(message, Barred)
            cause = self._ids_of_missing(message)[0]
            reason = "a welcome or an earlier message" if cause == NO_MESSAGE else ""
            out.hold(content.publication.id, cause, reason)

    def explain(self, message: MessageId) -> list[MessageId]:
        entry = self.waiting.with_publication(message)
        if entry is None:
            return []
        assert isinstance(entry[1], Barred)
        return [cause for cause in self._ids_of_missing(entry[1]) if cause != NO_MESSAGE]

    # Time and neighbours

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        # Not in the paper, whose channels are reliable.
        self.sending.on_timer(name, subject, out)

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        # Not in the paper, whose channels are reliable.
        self.sending.on_neighbour_up(peer, out)

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        # Not in the paper, whose channels are reliable.
        self.sending.on_neighbour_down(peer, out)

    def on_suspect(self, peer: NodeId, out: Outbox) -> None:
        # Not in the paper, in which nobody dies.
        self.sending.on_suspect(peer, out)

    def on_trust(self, peer: NodeId, out: Outbox) -> None:
        # Not in the paper, in which nobody dies.
        self.sending.on_trust(peer, out)

    # After a restart. Deliveries and welcomes stand in the same entries as what led to them, so
    # nothing is said again.

    def on_recover(self, records: list[Message], out: Outbox) -> None:
        # Not in the paper, in which nobody dies.
        for record in records:
            self._restore(record)

    def _restore(self, record: Message) -> None:
        self.lists.restore(record)
        self.sending.restore(record)
        self.waiting.restore(record)
        if isinstance(record, Standing):
            self.sent = record.sent
            self.delivered = dict(record.delivered)
            self.unpublished = dict(record.unpublished)
            self.barriers = {node: dict(barrier) for node, barrier in record.barriers.items()}
        elif isinstance(record, Sent) and isinstance(record.content, Barred):
            self._restore_sent(record.content)
        elif isinstance(record, Taken):
            self._take(record.sender, record.content, None)
            self._ready()

    def _restore_sent(self, message: Barred) -> None:
        content = message.content
        if isinstance(content, Joined):
            self.lists.join(content.group)
        elif isinstance(content, Left):
            self.lists.leave(content.group)
        self._count_sent(message)

    def snapshot(self) -> list[Message]:
        barriers = {node: dict(barrier) for node, barrier in self.barriers.items()}
        delivered, unpublished = dict(self.delivered), dict(self.unpublished)
        return [
            Standing(self.sent, delivered, unpublished, barriers),
            *self.waiting.snapshot(),
            *self.lists.snapshot(),
            *self.sending.snapshot(),
        ]

    def kept_bytes(self) -> int:
        return self.sending.kept_bytes()

    def kept_for(self) -> dict[NodeId, int]:
        return self.sending.links.kept_for()

    def state_size(self) -> int:
        barriers = sum(len(barrier) for barrier in self.barriers.values())
        return barriers + self.waiting.size() + self.lists.size() + self.sending.size()


def build(setup: Setup) -> CausalBarriers:
    return CausalBarriers(setup)


def no_barrier_for_myself(multicast: Multicast) -> bool:
    """What this node must deliver first is no matter of its barriers, but of what arrives."""
    assert isinstance(multicast, CausalBarriers)
    return multicast.me not in multicast.barriers


def nothing_waits(multicast: Multicast) -> bool:
    assert isinstance(multicast, CausalBarriers)
    return multicast.waiting.size() == 0


def nothing_is_kept(multicast: Multicast) -> bool:
    assert isinstance(multicast, CausalBarriers)
    return multicast.sending.kept() == 0


SPEC = ProtocolSpec(
    name="causal_barriers",
    summary="Direct dependencies per destination (Prakash, Raynal, Singhal 1997).",
    build=build,
    messages=[Barred, Standing, *addressed_sending.MESSAGES],
    guarantees=CAUSAL_WITHOUT_THE_DEAD,
    options=addressed_sending.OPTIONS,
    needs=Needs(overlay="mesh"),
    restart="resume",
    tolerates=addressed_sending.tolerates,
    invariants=[no_barrier_for_myself],
    at_rest=[nothing_waits, nothing_is_kept],
    rare=addressed_sending.RARE,
    events=addressed_sending.EVENTS,
    cost="one entry per destination and concurrent direct predecessor: 0 to n * n of 2 to 10 "
    "bytes; 3 bytes and one entry per member that joined or left",
    offers=["explain", "new_groups"],
)
