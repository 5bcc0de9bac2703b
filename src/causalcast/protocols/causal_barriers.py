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
  kept and handed over (`addressed_multicast`).
- A sender's own copy needs no barrier: it delivers at once.
"""

from causalcast.core import (
    CAUSAL_WITHOUT_THE_DEAD,
    GroupId,
    Message,
    MessageId,
    Multicast,
    Needs,
    NodeId,
    ProtocolSpec,
    Setup,
    Wire,
    message_id,
)
from causalcast.core.ids import NO_MESSAGE
from causalcast.parts.addressed import addressed_multicast
from causalcast.parts.addressed.addressed_multicast import AddressedMulticast, Published
from causalcast.parts.addressed.waiting_room import Lack
from causalcast.parts.safe_keeping import Name

EVERYBODY = GroupId((1 << 31) - 1)  # no group of an application: all nodes, for joins and leaves
Barrier = dict[NodeId, int]  # sender -> number of the last message that must come before


class Barred(Message):
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
        self.number = number
        self.to = to
        self.barriers = barriers
        self.content = content


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


class CausalBarriers(AddressedMulticast):
    """Barriers for everybody, and messages that wait behind the one for this node."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.sent = 0
        self.delivered: Barrier = {}
        self.unpublished: Barrier = {}  # per sender: delivered messages that were joins and leaves
        self.barriers: dict[NodeId, Barrier] = {}

    def wrap(self, group: GroupId | None, to: list[NodeId], content: Message) -> Message:
        barriers = {node: dict(barrier) for node, barrier in self.barriers.items() if barrier}
        return Barred(self.sent + 1, to, barriers, content)

    def content_of(self, message: Message) -> Message | None:
        return message.content if isinstance(message, Barred) else None

    def name_of(self, message: Message) -> Name:
        assert isinstance(message, Barred)
        # The number is name enough. With the group, who stays away from one holds up one alone.
        content = message.content
        group = content.publication.group if isinstance(content, Published) else EVERYBODY
        return group, message.number

    def is_old(self, sender: NodeId, name: Name) -> bool:
        return self.delivered.get(sender, 0) >= name[1]

    def is_for_me(self, sender: NodeId, message: Message) -> bool:
        assert isinstance(message, Barred)
        return self.me in message.to

    def _behind(self, message: Message) -> Barrier:
        """What the barrier for this node names and was not delivered."""
        assert isinstance(message, Barred)
        return {
            before: number
            for before, number in message.barriers.get(self.me, {}).items()
            if self.delivered.get(before, 0) < number
        }

    def lack(self, sender: NodeId, message: Message) -> Lack | None:
        return next(((0, before) for before in self._behind(message)), None)

    def missing(self, sender: NodeId, message: Message) -> list[MessageId]:
        return [self._id_of(before, number) for before, number in self._behind(message).items()]

    def count_sent(self, message: Message) -> None:
        assert isinstance(message, Barred)
        self.sent = message.number
        self.delivered[self.me] = message.number
        for node in message.to:
            if node != self.me:
                self.barriers[node] = {self.me: message.number}

    def count(self, sender: NodeId, message: Message) -> Lack:
        assert isinstance(message, Barred)
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
        return 0, sender

    def restore(self, record: Message) -> None:
        if isinstance(record, Standing):
            self.sent = record.sent
            self.delivered = dict(record.delivered)
            self.unpublished = dict(record.unpublished)
            self.barriers = {node: dict(barrier) for node, barrier in record.barriers.items()}
        else:
            super().restore(record)

    def snapshot(self) -> list[Message]:
        barriers = {node: dict(barrier) for node, barrier in self.barriers.items()}
        delivered, unpublished = dict(self.delivered), dict(self.unpublished)
        return [Standing(self.sent, delivered, unpublished, barriers), *self.shared_snapshot()]

    def state_size(self) -> int:
        return sum(len(barrier) for barrier in self.barriers.values()) + super().state_size()

    def _id_of(self, sender: NodeId, number: int) -> MessageId:
        """The publication with this number, if no join or leave that is still missing counts."""
        published = number - self.unpublished.get(sender, 0)
        return message_id(sender, published) if published > 0 else NO_MESSAGE


def build(setup: Setup) -> CausalBarriers:
    return CausalBarriers(setup)


def no_barrier_for_myself(multicast: Multicast) -> bool:
    """What this node must deliver first is no matter of its barriers, but of what arrives."""
    assert isinstance(multicast, CausalBarriers)
    return multicast.me not in multicast.barriers


SPEC = ProtocolSpec(
    name="causal_barriers",
    summary="Direct dependencies per destination (Prakash, Raynal, Singhal 1997).",
    build=build,
    messages=[Barred, Standing, *addressed_multicast.MESSAGES],
    guarantees=CAUSAL_WITHOUT_THE_DEAD,
    options=addressed_multicast.OPTIONS,
    needs=Needs(overlay="mesh"),
    restart="resume",
    tolerates=addressed_multicast.tolerates,
    invariants=[no_barrier_for_myself],
    at_rest=[addressed_multicast.nothing_waits, addressed_multicast.nothing_is_kept],
    rare=addressed_multicast.RARE,
    events=addressed_multicast.EVENTS,
    cost="one entry per destination and concurrent direct predecessor: 0 to n * n of 2 to 10 "
    "bytes; 3 bytes and one entry per member that joined or left",
    offers=["explain"],
)
