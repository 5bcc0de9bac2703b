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
- A slot is not the number of publications to the group but the last one's own number, and a
  publication says which one to the group came before it. So what is missing has a name.
- A sender that is a member delivers its own publication at once.
"""

from collections.abc import Iterator

from causalcast.core import (
    CAUSAL_WITHOUT_THE_DEAD,
    GroupId,
    Message,
    MessageId,
    Needs,
    NodeId,
    Outbox,
    ProtocolSpec,
    Setup,
    Wire,
    message_id,
    number_of,
)
from causalcast.core.ids import NO_MESSAGE
from causalcast.parts import addressed_multicast, reliable_links
from causalcast.parts.addressed_multicast import AddressedMulticast, Published
from causalcast.parts.member_lists import Joined, Welcome
from causalcast.parts.safe_keeping import Name
from causalcast.parts.vector_clock import VectorClock
from causalcast.parts.waiting_room import Lack

Clocks = dict[GroupId, VectorClock]
EVERYBODY = GroupId((1 << 31) - 1)  # no group of an application: all nodes, for joins and leaves
LEFT = "cbcast.left"


class Timestamped(Message):
    """Deliver it when you have what is named of your groups; it is itself the last of its slot."""

    wire = Wire(
        "cbcast.timestamped",
        group=GroupId,
        number=int,
        before=int,
        clocks=dict[GroupId, dict[NodeId, int]],
        content=Message,
    )

    def __init__(
        self, group: GroupId, number: int, before: int, clocks: Clocks, content: Message
    ) -> None:
        self.group = group
        self.number = number  # of the publication; joins and leaves have numbers of their own
        self.before = before  # the number of its sender's last one to this group
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


class Cbcast(AddressedMulticast):
    """Counts per group, and messages that wait for what they name."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.past: Clocks = {}  # all that a publication of this node follows, of all groups
        self.done: Clocks = {}  # delivered here, or never meant for this node; of its own groups
        self.told: dict[GroupId, Clocks] = {}  # per group: the past that its members were told

    # Sending

    def wrap(self, group: GroupId | None, to: list[NodeId], content: Message) -> Message:
        where = EVERYBODY if group is None else group
        before = self.past.get(where, {}).get(self.me, 0)
        number = before + 1
        if isinstance(content, Published):
            number = number_of(content.publication.id)
        return Timestamped(where, number, before, self._changed_for(where), content)

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

    def count_sent(self, message: Message) -> None:
        assert isinstance(message, Timestamped)
        group = message.group
        self.past.setdefault(group, {})[self.me] = message.number
        self.done.setdefault(group, {})[self.me] = message.number
        self.told[group] = _copy(self.past)

    def published_to(self, group: GroupId) -> int:
        return self.past.get(group, {}).get(self.me, 0)

    # Delivering

    def content_of(self, message: Message) -> Message | None:
        return message.content if isinstance(message, Timestamped) else None

    def name_of(self, message: Message) -> Name:
        assert isinstance(message, Timestamped)
        return message.group, message.number

    def is_old(self, sender: NodeId, name: Name) -> bool:
        return self.done.get(name[0], {}).get(sender, 0) >= name[1]

    def is_for_me(self, sender: NodeId, message: Message) -> bool:
        assert isinstance(message, Timestamped)
        content = message.content
        return not isinstance(content, Published) or self.is_meant(content)

    def takes(self, sender: NodeId, message: Message) -> None:
        """If its sender died before its welcome, the first one that is meant for us says it all."""
        assert isinstance(message, Timestamped)
        group = message.group
        if group != EVERYBODY and not self.lists.is_welcomed(group, sender):
            self.lists.welcome_by(group, sender)
            self._not_meant(group, sender, message.before)

    def lack(self, sender: NodeId, message: Message) -> Lack | None:
        return next(((group, node) for group, node, _ in self._lacks(sender, message)), None)

    def missing(self, sender: NodeId, message: Message) -> list[MessageId]:
        return [
            message_id(node, number) if number > 0 else NO_MESSAGE
            for _, node, number in self._lacks(sender, message)
        ]

    def _lacks(self, sender: NodeId, message: Message) -> Iterator[tuple[GroupId, NodeId, int]]:
        """Group, node and number of what it waits for; no number where it is no publication."""
        assert isinstance(message, Timestamped)
        if self.done.get(message.group, {}).get(sender, 0) < message.before:
            yield message.group, sender, 0 if message.group == EVERYBODY else message.before
        for group, clock in message.clocks.items():
            if group != EVERYBODY and not self.lists.has(group, self.me):
                continue
            done = self.done.get(group, {})
            for node, number in clock.items():
                if done.get(node, 0) >= number:
                    continue
                # What a node had sent before it knew of us is not known before its welcome.
                is_known = group != EVERYBODY and self.lists.is_welcomed(group, node)
                yield group, node, number if is_known else 0

    def count(self, sender: NodeId, message: Message) -> Lack:
        assert isinstance(message, Timestamped)
        self.done.setdefault(message.group, {})[sender] = message.number
        self.past.setdefault(message.group, {})[sender] = message.number
        for group, clock in message.clocks.items():
            past = self.past.setdefault(group, {})
            for node, count in clock.items():
                past[node] = max(count, past.get(node, 0))
        if isinstance(message.content, Joined):
            self.told.pop(message.content.group, None)  # the new member was told nothing
        return message.group, sender

    # Memberships of this node

    def begin_membership(self, group: GroupId) -> None:
        """Of others nothing is done until they welcome this node; of its own, everything."""
        self.done[group] = {self.me: self.past.get(group, {}).get(self.me, 0)}
        self.waiting.wake_all()  # what lacked nothing of the group may lack something now

    def welcomed(self, sender: NodeId, welcome: Welcome) -> None:
        self._not_meant(welcome.group, sender, welcome.published)

    def _not_meant(self, group: GroupId, sender: NodeId, published: int) -> None:
        """What a node had published so far to a group need not be waited for."""
        done = self.done.setdefault(group, {})
        done[sender] = max(published, done.get(sender, 0))
        self.waiting.wake((group, sender))

    def end_membership(self, group: GroupId) -> None:
        self.leave_waiting_only(
            [
                entry
                for entry in self.waiting.entries()
                if not isinstance(entry[1], Timestamped) or entry[1].group != group
            ]
        )

    def on_leave_group(self, group: GroupId, out: Outbox) -> None:
        super().on_leave_group(group, out)
        # What waited for a publication to the group need not wait any more, but must not be
        # delivered as long as this node counts as a member: that is to the end of this step.
        out.start_timer(LEFT, 0)

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        if name == LEFT:
            out.persist(Freed(self.waiting.size()))
            self.pass_on(out)
            self.safe.tend(out)
        else:
            super().on_timer(name, subject, out)

    # After a restart

    def on_recover(self, records: list[Message], out: Outbox) -> None:
        super().on_recover(records, out)
        if self.waiting.size() > 0:
            out.start_timer(LEFT, 0)  # the crash may have come before what a leave had freed

    def restore(self, record: Message) -> None:
        if isinstance(record, Tables):
            self.past, self.done = _copy(record.past), _copy(record.done)
        elif isinstance(record, Freed):
            self.pass_ready()
        else:
            super().restore(record)

    def snapshot(self) -> list[Message]:
        return [Tables(_copy(self.past), _copy(self.done)), *self.shared_snapshot()]

    def state_size(self) -> int:
        counts = sum(len(clock) for clock in self.past.values())
        counts += sum(len(clock) for clock in self.done.values())
        return counts + super().state_size()


def _copy(clocks: Clocks) -> Clocks:
    return {group: dict(clock) for group, clock in clocks.items()}


def build(setup: Setup) -> Cbcast:
    return Cbcast(setup)


SPEC = ProtocolSpec(
    name="cbcast",
    summary="A vector clock per group, timestamps compressed (CBCAST of 1991).",
    build=build,
    messages=[Timestamped, Tables, Freed, *addressed_multicast.MESSAGES],
    guarantees=CAUSAL_WITHOUT_THE_DEAD,
    options=reliable_links.OPTIONS,
    needs=Needs(overlay="mesh"),
    restart="resume",
    tolerates=addressed_multicast.tolerates,
    at_rest=[addressed_multicast.nothing_waits, addressed_multicast.nothing_is_kept],
    rare=[*addressed_multicast.RARE, "addressed_multicast.not_meant"],
    cost="one entry per group and publisher heard of since: 0 to groups * n of 2 to 10 bytes",
    offers=["explain"],
)
