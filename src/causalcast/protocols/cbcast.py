"""CBCAST: a vector clock per group.

K. Birman, A. Schiper, P. Stephenson, "Lightweight causal and atomic group multicast", 1991; the
baseline of "Santos and Rodrigues, Localized reliable causal multicast", 2019.

For every group a node counts how many publications of each node to that group are in its past. A
publication to a group carries all these counts, of all groups, and goes to the members of its group
only. A member waits until, of every group *it* is in, it has delivered what is named. The counts of
groups it is not in it cannot check; it keeps them and passes them on, for somebody else can. So
what is carried grows with nodes and with groups.

Timestamps are compressed as in the paper: a publication names only the counts that changed since
its sender's last publication to the same group, whose members have all delivered that one before.

Where we differ from the paper, and why
- The paper assumes reliable FIFO channels and changes groups by a flush of all members.
  `parts/reliable_links.py` makes the channels, over loss and crashes. Here groups change by
  messages in the group of everybody (`parts/member_lists.py`): nobody stops. A new member learns
  from each node's welcome which of its publications to the group were not meant for him, and counts
  them as done; the next timestamp to a group that somebody joined is whole.
- Anybody may publish to any group, member or not.
- A sender that is a member delivers its own publication at once.
"""

from causalcast.core import (
    GroupId,
    LinkId,
    Message,
    Multicast,
    Needs,
    NodeId,
    Outbox,
    ProtocolSpec,
    Publication,
    Setup,
    Wire,
)
from causalcast.parts import member_lists, reliable_links
from causalcast.parts.member_lists import Joined, Left, MemberLists, Welcome
from causalcast.parts.reliable_links import ReliableLinks, Sent, Taken
from causalcast.parts.vector_clock import VectorClock

Clocks = dict[GroupId, VectorClock]
LEFT = "cbcast.left"
EVERYBODY = GroupId((1 << 31) - 1)  # no group of an application: all nodes, for joins and leaves


class Published(Message):
    """A publication, for the members of its group."""

    wire = Wire("cbcast.published", publication=Publication)

    def __init__(self, publication: Publication) -> None:
        self.publication = publication


class Timestamped(Message):
    """Deliver it when you have what is named of your groups; it is itself the last of its slot."""

    wire = Wire(
        "cbcast.timestamped",
        group=GroupId,
        number=int,
        clocks=dict[GroupId, dict[NodeId, int]],
        content=Message,
    )

    def __init__(self, group: GroupId, number: int, clocks: Clocks, content: Message) -> None:
        self.group = group
        self.number = number  # of its sender's messages to this group
        self.clocks = clocks
        self.content = content


class Tables(Message):
    """Record of a snapshot: what is in the past, and what was delivered of the own groups."""

    wire = Wire(
        "cbcast.tables",
        past=dict[GroupId, dict[NodeId, int]],
        done=dict[GroupId, dict[NodeId, int]],
    )

    def __init__(self, past: Clocks, done: Clocks) -> None:
        self.past = past
        self.done = done


class Freed(Message):
    """Record: after a leave, what waits was looked at again."""

    wire = Wire("cbcast.freed", waiting=int)

    def __init__(self, waiting: int) -> None:
        self.waiting = waiting


class Waiting(Message):
    """Record of a snapshot: a message that has to wait."""

    wire = Wire("cbcast.waiting", sender=NodeId, message=Message)

    def __init__(self, sender: NodeId, message: Message) -> None:
        self.sender = sender
        self.message = message


class Cbcast(Multicast):
    """Counts per group, and messages that wait for what they name."""

    def __init__(self, setup: Setup) -> None:
        self.me = setup.me
        self.everybody = setup.topology.everybody()
        self.links = ReliableLinks(setup)
        self.lists = MemberLists(setup.me, setup.groups, self.everybody)
        self.past: Clocks = {}  # all that a publication of this node follows, of all groups
        self.done: Clocks = {}  # delivered here, or never meant for this node; of its own groups
        self.told: dict[GroupId, Clocks] = {}  # per group: the past that its members were told
        self.waiting: list[tuple[NodeId, Timestamped]] = []

    # What the node is told

    def on_publish(self, publication: Publication, out: Outbox) -> None:
        group = publication.group
        self._multicast(group, Published(publication), self.lists.of(group), out)
        if self.lists.has(group, self.me):
            out.deliver(publication)

    def on_join_group(self, group: GroupId, out: Outbox) -> None:
        self._begin_membership(group)
        self._multicast(EVERYBODY, self.lists.join(group), self.everybody, out)

    def on_leave_group(self, group: GroupId, out: Outbox) -> None:
        self._forget_waiting(group)
        self._multicast(EVERYBODY, self.lists.leave(group), self.everybody, out)
        # What waited for a publication to the group need not wait any more, but must not be
        # delivered as long as this node counts as a member: that is to the end of this step.
        out.start_timer(LEFT, 0)

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        for content in self.links.on_message(sender, message, out):
            if isinstance(content, Welcome):
                self._on_welcome(sender, content)
                self._pass_on(out)
            elif isinstance(content, Timestamped):
                self._arrive(sender, content, out)
            else:
                out.note("cbcast.stray", sender)

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        if name == LEFT:
            out.persist(Freed(len(self.waiting)))
            self._pass_on(out)
        else:
            self.links.on_timer(name, subject, out)

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        self.links.on_neighbour_up(peer, out)

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        self.links.on_neighbour_down(peer, out)

    def on_recover(self, records: list[Message], out: Outbox) -> None:
        # Deliveries and welcomes stand in the same entries, so nothing is said again here.
        for record in records:
            self.links.restore(record)
            self.lists.restore(record)
            if isinstance(record, Sent):
                self._restore_sent(record.content)
            elif isinstance(record, Taken):
                self._restore_taken(record)
            elif isinstance(record, Tables):
                self.past = {group: dict(clock) for group, clock in record.past.items()}
                self.done = {group: dict(clock) for group, clock in record.done.items()}
            elif isinstance(record, Waiting) and isinstance(record.message, Timestamped):
                self.waiting.append((record.sender, record.message))
            elif isinstance(record, Freed):
                self._pass_ready()
        if self.waiting:
            out.start_timer(LEFT, 0)  # the crash may have come before what a leave had freed

    def snapshot(self) -> list[Message]:
        tables = Tables(_copy(self.past), _copy(self.done))
        waiting: list[Message] = [Waiting(sender, message) for sender, message in self.waiting]
        return [tables, *waiting, *self.lists.snapshot(), *self.links.snapshot()]

    def state_size(self) -> int:
        counts = sum(len(clock) for clock in self.past.values())
        counts += sum(len(clock) for clock in self.done.values())
        return counts + len(self.waiting) + self.lists.size() + self.links.size()

    # Sending

    def _multicast(self, group: GroupId, content: Message, to: list[NodeId], out: Outbox) -> None:
        number = self.past.get(group, {}).get(self.me, 0) + 1
        message = Timestamped(group, number, self._changed_for(group), content)
        self._count_sent(message)
        self.links.send(to, message, out)

    def _changed_for(self, group: GroupId) -> Clocks:
        """The counts that the members of a group have not been told by this node.

        A join or leave follows earlier joins and leaves only: two new members that waited for each
        other's publications would never welcome each other.
        """
        told = self.told.get(group, {})
        changed: Clocks = {}
        for other, clock in self.past.items():
            if group == EVERYBODY and other != EVERYBODY:
                continue
            before = told.get(other, {})
            news = {node: count for node, count in clock.items() if count != before.get(node, 0)}
            if other == group:
                news.pop(self.me, None)  # the message's number says it
            if news:
                changed[other] = news
        return changed

    def _count_sent(self, message: Timestamped) -> None:
        group = message.group
        self.past.setdefault(group, {})[self.me] = message.number
        self.done.setdefault(group, {})[self.me] = message.number
        self.told[group] = _copy(self.past)

    # Delivering

    def _arrive(self, sender: NodeId, message: Timestamped, out: Outbox) -> None:
        if not self._is_meant(sender, message):
            out.note("cbcast.not_meant", sender)
            return
        self.waiting.append((sender, message))
        arrived = message.content
        self._pass_on(out, arrived)
        if isinstance(arrived, Published) and (sender, message) in self.waiting:
            out.hold(arrived.publication.id, arrived.publication.id)

    def _pass_on(self, out: Outbox, arrived: Message | None = None) -> None:
        """Deliver whatever waits for nothing any more, and welcome who joined."""
        for sender, message in self._pass_ready():
            content = message.content
            if isinstance(content, Published):
                if content is not arrived:
                    out.release(content.publication.id)
                out.deliver(content.publication)
            elif isinstance(content, Joined):
                published = self.past.get(content.group, {}).get(self.me, 0)
                welcome = Welcome(content.group, content.time, published)
                self.links.send([sender], welcome, out)

    def _pass_ready(self) -> list[tuple[NodeId, Timestamped]]:
        passed: list[tuple[NodeId, Timestamped]] = []
        found = True
        while found:
            found = False
            for entry in self.waiting:
                if self._is_ready(entry[0], entry[1]):
                    self.waiting.remove(entry)
                    self._pass(entry[0], entry[1])
                    passed.append(entry)
                    found = True
                    break
        return passed

    def _is_ready(self, sender: NodeId, message: Timestamped) -> bool:
        group, number = message.group, message.number
        if self.done.get(group, {}).get(sender, 0) < number - 1:
            return False
        for other, clock in message.clocks.items():
            if other != EVERYBODY and not self.lists.has(other, self.me):
                continue
            done = self.done.get(other, {})
            for node, count in clock.items():
                if done.get(node, 0) < count:
                    return False
                if other != EVERYBODY and not self.lists.is_meant(other, node):
                    return False  # what it had sent before it knew of us is not known yet
        return True

    def _pass(self, sender: NodeId, message: Timestamped) -> None:
        self.done.setdefault(message.group, {})[sender] = message.number
        self.past.setdefault(message.group, {})[sender] = message.number
        for group, clock in message.clocks.items():
            past = self.past.setdefault(group, {})
            for node, count in clock.items():
                past[node] = max(count, past.get(node, 0))
        content = message.content
        if isinstance(content, Joined):
            self.lists.on_joined(sender, content)
            self.told.pop(content.group, None)  # the new member was told nothing
        elif isinstance(content, Left):
            self.lists.on_left(sender, content)

    def _is_meant(self, sender: NodeId, message: Timestamped) -> bool:
        return message.group == EVERYBODY or self.lists.is_meant(message.group, sender)

    def _on_welcome(self, sender: NodeId, welcome: Welcome) -> None:
        if self.lists.on_welcome(sender, welcome):
            self.done.setdefault(welcome.group, {})[sender] = welcome.published

    def _begin_membership(self, group: GroupId) -> None:
        """Of others nothing is done until they welcome this node; of its own, everything."""
        self.done[group] = {self.me: self.past.get(group, {}).get(self.me, 0)}

    def _forget_waiting(self, group: GroupId) -> None:
        self.waiting = [entry for entry in self.waiting if entry[1].group != group]

    # After a restart

    def _restore_sent(self, content: Message) -> None:
        if not isinstance(content, Timestamped):
            return
        inner = content.content
        if isinstance(inner, Joined):
            self._begin_membership(inner.group)
            self.lists.join(inner.group)
        elif isinstance(inner, Left):
            self._forget_waiting(inner.group)
            self.lists.leave(inner.group)
        self._count_sent(content)

    def _restore_taken(self, record: Taken) -> None:
        content = record.content
        if isinstance(content, Welcome):
            self._on_welcome(record.sender, content)
            self._pass_ready()
        elif isinstance(content, Timestamped) and self._is_meant(record.sender, content):
            self.waiting.append((record.sender, content))
            self._pass_ready()


def _copy(clocks: Clocks) -> Clocks:
    return {group: dict(clock) for group, clock in clocks.items()}


def build(setup: Setup) -> Cbcast:
    return Cbcast(setup)


def tolerates(down: list[NodeId], setup: Setup) -> bool:
    return True  # any number may be away; they catch up when they are back


def nothing_waits(multicast: Multicast) -> bool:
    assert isinstance(multicast, Cbcast)
    return not multicast.waiting


def nothing_is_kept(multicast: Multicast) -> bool:
    assert isinstance(multicast, Cbcast)
    return multicast.links.kept() == 0


SPEC = ProtocolSpec(
    name="cbcast",
    summary="A vector clock per group, timestamps compressed (CBCAST of 1991).",
    build=build,
    messages=[
        Published,
        Timestamped,
        Tables,
        Freed,
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
    at_rest=[nothing_waits, nothing_is_kept],
    rare=[*reliable_links.RARE, "cbcast.not_meant"],
    cost="per group one entry per publisher that was heard of since the last one to that group",
)
