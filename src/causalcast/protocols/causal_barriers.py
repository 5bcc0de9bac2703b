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
- The paper assumes reliable channels. `parts/reliable_links.py` makes them, over loss and crashes.
- Groups change: `parts/member_lists.py` tells everybody of joins and leaves by messages that are
  themselves ordered by barriers.
- A sender's own copy needs no barrier: it delivers at once.
"""

from causalcast.core import (
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
from causalcast.parts import member_lists, reliable_links
from causalcast.parts.member_lists import Joined, Left, MemberLists, Welcome
from causalcast.parts.reliable_links import ReliableLinks, Sent, Taken

Barrier = dict[NodeId, int]  # sender -> number of the last message that must come before


class Published(Message):
    """A publication, for the members of its group."""

    wire = Wire("causal_barriers.published", publication=Publication)

    def __init__(self, publication: Publication) -> None:
        self.publication = publication


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
        barriers=dict[NodeId, dict[NodeId, int]],
    )

    def __init__(self, sent: int, delivered: Barrier, barriers: dict[NodeId, Barrier]) -> None:
        self.sent = sent
        self.delivered = delivered
        self.barriers = barriers


class Waiting(Message):
    """Record of a snapshot: a message that has to wait."""

    wire = Wire("causal_barriers.waiting", sender=NodeId, message=Message)

    def __init__(self, sender: NodeId, message: Message) -> None:
        self.sender = sender
        self.message = message


class CausalBarriers(Multicast):
    """Barriers for everybody, and messages that wait behind the one for this node."""

    def __init__(self, setup: Setup) -> None:
        self.me = setup.me
        self.everybody = setup.topology.everybody()
        self.links = ReliableLinks(setup)
        self.lists = MemberLists(setup.me, setup.groups, self.everybody)
        self.sent = 0
        self.delivered: Barrier = {}
        self.barriers: dict[NodeId, Barrier] = {}
        self.waiting: list[tuple[NodeId, Barred]] = []

    # What the node is told

    def on_publish(self, publication: Publication, out: Outbox) -> None:
        self._multicast(Published(publication), self.lists.of(publication.group), out)
        if self.lists.has(publication.group, self.me):
            out.deliver(publication)

    def on_join_group(self, group: GroupId, out: Outbox) -> None:
        self._multicast(self.lists.join(group), self.everybody, out)

    def on_leave_group(self, group: GroupId, out: Outbox) -> None:
        self._multicast(self.lists.leave(group), self.everybody, out)

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        for content in self.links.on_message(sender, message, out):
            if isinstance(content, Welcome):
                self.lists.on_welcome(sender, content)
            elif isinstance(content, Barred):
                self._arrive(sender, content, out)
            else:
                out.note("causal_barriers.stray", sender)

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        self.links.on_timer(name, subject, out)

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        self.links.on_neighbour_up(peer, out)

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        self.links.on_neighbour_down(peer, out)

    def on_recover(self, records: list[Message], out: Outbox) -> None:
        for record in records:
            self.links.restore(record)
            self.lists.restore(record)
            if isinstance(record, Sent):
                self._restore_sent(record.content)
            elif isinstance(record, Taken) and isinstance(record.content, Welcome):
                self.lists.on_welcome(record.sender, record.content)
            elif isinstance(record, Taken) and isinstance(record.content, Barred):
                self.waiting.append((record.sender, record.content))
                self._pass_ready()  # its deliveries stand in the same entries
            elif isinstance(record, Standing):
                self.sent = record.sent
                self.delivered = dict(record.delivered)
                self.barriers = {node: dict(b) for node, b in record.barriers.items()}
            elif isinstance(record, Waiting) and isinstance(record.message, Barred):
                self.waiting.append((record.sender, record.message))

    def snapshot(self) -> list[Message]:
        barriers = {node: dict(barrier) for node, barrier in self.barriers.items()}
        standing = Standing(self.sent, dict(self.delivered), barriers)
        waiting: list[Message] = [Waiting(sender, message) for sender, message in self.waiting]
        return [standing, *waiting, *self.lists.snapshot(), *self.links.snapshot()]

    def explain(self, message: MessageId) -> list[MessageId]:
        for _, barred in self.waiting:
            if _id_of(barred) == message:
                return [message_id(sender, number) for sender, number in self._missing(barred)]
        return []

    def state_size(self) -> int:
        barriers = sum(len(barrier) for barrier in self.barriers.values())
        return barriers + len(self.waiting) + self.lists.size() + self.links.size()

    # Sending

    def _multicast(self, content: Message, to: list[NodeId], out: Outbox) -> None:
        barriers = {node: dict(barrier) for node, barrier in self.barriers.items() if barrier}
        barred = Barred(self.sent + 1, to, barriers, content)
        self._count_sent(barred)
        self.links.send(to, barred, out)

    def _count_sent(self, barred: Barred) -> None:
        self.sent = barred.number
        self.delivered[self.me] = barred.number
        for node in barred.to:
            if node != self.me:
                self.barriers[node] = {self.me: barred.number}

    def _restore_sent(self, content: Message) -> None:
        if isinstance(content, Barred):
            self._count_sent(content)
            if isinstance(content.content, Joined):
                self.lists.join(content.content.group)
            elif isinstance(content.content, Left):
                self.lists.leave(content.content.group)

    # Delivering

    def _arrive(self, sender: NodeId, barred: Barred, out: Outbox) -> None:
        arrived = _id_of(barred)
        self.waiting.append((sender, barred))
        ready = self._pass_ready()
        missing = self._missing(barred)
        if missing and arrived is not None:
            out.hold(arrived, message_id(missing[0][0], missing[0][1]))
        for origin, passed, meant in ready:
            content = passed.content
            if isinstance(content, Published) and meant:
                if content.publication.id != arrived:
                    out.release(content.publication.id)
                out.deliver(content.publication)
            elif isinstance(content, Joined):
                self.links.send([origin], Welcome(content.group, content.time, 0), out)

    def _pass_ready(self) -> list[tuple[NodeId, Barred, bool]]:
        """Let pass whatever waits for nothing; with each, whether it is meant for us."""
        passed: list[tuple[NodeId, Barred, bool]] = []
        found = True
        while found:
            found = False
            for entry in self.waiting:
                sender, barred = entry
                if not self._missing(barred):
                    self.waiting.remove(entry)
                    passed.append((sender, barred, self._pass(sender, barred)))
                    found = True
                    break
        return passed

    def _missing(self, barred: Barred) -> list[tuple[NodeId, int]]:
        barrier = barred.barriers.get(self.me, {})
        return [
            (sender, number)
            for sender, number in barrier.items()
            if self.delivered.get(sender, 0) < number
        ]

    def _pass(self, sender: NodeId, barred: Barred) -> bool:
        """Count a message as delivered and change the barriers; whether it is for this node."""
        self.delivered[sender] = barred.number
        for node in barred.to:
            if node not in (self.me, sender):
                implied = barred.barriers.get(node, {})
                barrier = self.barriers.get(node, {})
                kept = {who: n for who, n in barrier.items() if n > implied.get(who, 0)}
                kept[sender] = barred.number
                self.barriers[node] = kept
        for node, named in barred.barriers.items():
            if node not in barred.to and node != self.me:
                barrier = self.barriers.setdefault(node, {})
                for who, number in named.items():
                    barrier[who] = max(number, barrier.get(who, 0))
        content = barred.content
        if isinstance(content, Joined):
            self.lists.on_joined(sender, content)
        elif isinstance(content, Left):
            self.lists.on_left(sender, content)
        elif isinstance(content, Published):
            return self.lists.is_meant(content.publication.group, sender)
        return False


def _id_of(barred: Barred) -> MessageId | None:
    content = barred.content
    return content.publication.id if isinstance(content, Published) else None


def build(setup: Setup) -> CausalBarriers:
    return CausalBarriers(setup)


def tolerates(down: list[NodeId], setup: Setup) -> bool:
    return True  # any number may be away; they catch up when they are back


def nothing_waits(multicast: Multicast) -> bool:
    assert isinstance(multicast, CausalBarriers)
    return not multicast.waiting


def nothing_is_kept(multicast: Multicast) -> bool:
    assert isinstance(multicast, CausalBarriers)
    return multicast.links.kept() == 0


def no_barrier_for_myself(multicast: Multicast) -> bool:
    """What this node must deliver first is no matter of its barriers, but of what arrives."""
    assert isinstance(multicast, CausalBarriers)
    return multicast.me not in multicast.barriers


SPEC = ProtocolSpec(
    name="causal_barriers",
    summary="Direct dependencies per destination (Prakash, Raynal, Singhal 1997).",
    build=build,
    messages=[
        Published,
        Barred,
        Standing,
        Waiting,
        *member_lists.MESSAGES,
        *reliable_links.MESSAGES,
    ],
    guarantees=[
        "no_creation",
        "no_duplication",
        "validity",
        "agreement_after_recovery",
        "fifo_order",
        "causal_order",
    ],
    options=reliable_links.OPTIONS,
    needs=Needs(overlay="mesh"),
    restart="resume",
    tolerates=tolerates,
    invariants=[no_barrier_for_myself],
    at_rest=[nothing_waits, nothing_is_kept],
    rare=reliable_links.RARE,
    cost="per destination one entry per concurrent direct predecessor: up to n * n entries",
    offers=["explain"],
)
