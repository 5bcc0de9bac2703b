"""Who is a member of which group, kept up by causal messages to everybody.

Whoever joins or leaves a group tells all nodes through the causal protocol itself. A publisher
addresses the members it knows of; so a publication that follows somebody's join reaches him, and
none that follows his leave does.

Copies that were addressed to an earlier membership may still be on their way when a node joins
again. So everybody who hears of a join answers with a welcome on its own link, in order with
everything else it sends there; what came before the welcome was not meant for this membership.

A publication says whom it was addressed to, as what changed since the group was founded: so others
than its origin know who is to have it, and a member that was never welcomed by an origin that died
knows what was meant for it.
"""

from typing import final

from causalcast.core.groups import Groups
from causalcast.core.ids import GroupId, NodeId
from causalcast.core.message import Membership, Message, Wire


class Joined(Message):
    """Its sender is a member of the group from now on, for the `time`-th time: welcome it."""

    wire = Wire("member_lists.joined", group=GroupId, time=int)

    def __init__(self, group: GroupId, time: int) -> None:
        self.group = group
        self.time = time

    def joins(self, sender: NodeId) -> list[Membership]:
        return [(sender, self.group)]


class Left(Message):
    """Its sender is no member of the group any more."""

    wire = Wire("member_lists.left", group=GroupId)

    def __init__(self, group: GroupId) -> None:
        self.group = group


class Welcome(Message):
    """The receiver's `time`-th membership of the group is known: what follows is meant for it.

    `published` is how many publications its sender had sent to the group before.
    """

    wire = Wire("member_lists.welcome", group=GroupId, time=int, published=int)

    def __init__(self, group: GroupId, time: int, published: int) -> None:
        self.group = group
        self.time = time
        self.published = published


class Memberships(Message):
    """Record of a snapshot: one group as this node knows it."""

    wire = Wire(
        "member_lists.memberships",
        group=GroupId,
        members=list[NodeId],
        time=int,
        welcomed_by=list[NodeId],
        times=list[int],
    )

    def __init__(
        self,
        group: GroupId,
        members: list[NodeId],
        time: int,
        welcomed_by: list[NodeId],
        times: list[int],
    ) -> None:
        self.group = group
        self.members = members
        self.times = times  # which membership of each of them it is, counting from 1
        self.time = time
        self.welcomed_by = welcomed_by


class Addressed(Message):
    """Something for the founders of a group without those that left, and for those that joined.

    `times` says which membership it is of each of those that joined, counting from 1.
    """

    def __init__(self, joined: list[NodeId], times: list[int], left: list[NodeId]) -> None:
        self.joined = joined
        self.times = times
        self.left = left


MESSAGES = [Joined, Left, Welcome, Memberships]
NOT_ADDRESSED = -1


@final
class MemberLists:
    """The members of all groups, and who knows of this node's own memberships."""

    def __init__(self, me: NodeId, groups: Groups, everybody: list[NodeId]) -> None:
        self.me = me
        self._everybody = everybody
        numbers = [GroupId(number) for number in range(len(groups.names))]
        self._founders = {group: dict.fromkeys(groups.members_of(group)) for group in numbers}
        # Which membership of each member it is; founders have never joined.
        self._members = {group: dict.fromkeys(f, 0) for group, f in self._founders.items()}
        self._time = dict.fromkeys(numbers, 0)  # how often this node joined
        self._welcomed = {group: dict.fromkeys(everybody) for group in numbers}

    def of(self, group: GroupId) -> list[NodeId]:
        """The members, as far as is known here."""
        return list(self._members.setdefault(group, {}))

    def has(self, group: GroupId, node: NodeId) -> bool:
        """Whether `node` is a member, as far as is known here."""
        return node in self._members.setdefault(group, {})

    def time_of(self, group: GroupId, node: NodeId) -> int:
        """Which membership of `node` this is, counting from 1, as far as is known here."""
        return self._members.setdefault(group, {}).get(node, NOT_ADDRESSED)

    def joined(self, group: GroupId) -> dict[NodeId, int]:
        """The members that are no founders or came again, and which membership of theirs it is."""
        members = self._members.setdefault(group, {})
        return {node: time for node, time in members.items() if time > 0}

    def left(self, group: GroupId) -> list[NodeId]:
        """The founders that are no members any more."""
        members = self._members.setdefault(group, {})
        return [node for node in self._founders.get(group, {}) if node not in members]

    def addressees(self, group: GroupId, sent: Addressed) -> list[NodeId]:
        """Everybody that something to a group is for."""
        changed = dict.fromkeys([*sent.left, *sent.joined])
        stayed = [node for node in self._founders.get(group, {}) if node not in changed]
        return [*stayed, *sent.joined]

    def time_addressed(self, group: GroupId, sent: Addressed, node: NodeId) -> int:
        """Which membership of `node` it is for."""
        for joined, time in zip(sent.joined, sent.times, strict=False):
            if joined == node:
                return time
        is_founder = node in self._founders.get(group, {})
        return 0 if is_founder and node not in sent.left else NOT_ADDRESSED

    def is_meant(self, group: GroupId, sent: Addressed) -> bool:
        """Whether it is meant for this node's present membership."""
        mine = self.time_of(group, self.me)
        return mine != NOT_ADDRESSED and self.time_addressed(group, sent, self.me) == mine

    def is_welcomed(self, group: GroupId, sender: NodeId) -> bool:
        """Whether `sender` knows of this node's present membership."""
        return self.has(group, self.me) and sender in self._welcomed[group]

    def join(self, group: GroupId) -> Joined:
        """This node becomes a member: what everybody must be told."""
        self._time[group] = self._time.get(group, 0) + 1
        self._members.setdefault(group, {})[self.me] = self._time[group]
        self._welcomed[group] = {self.me: None}
        return Joined(group, self._time[group])

    def leave(self, group: GroupId) -> Left:
        """This node is no member any more: what everybody must be told."""
        self._members.setdefault(group, {}).pop(self.me, None)
        self._welcomed[group] = {}
        return Left(group)

    def on_joined(self, node: NodeId, joined: Joined) -> None:
        """Somebody became a member."""
        self._members.setdefault(joined.group, {})[node] = joined.time

    def on_left(self, node: NodeId, left: Left) -> None:
        """Somebody is no member any more."""
        self._members.setdefault(left.group, {}).pop(node, None)

    def on_welcome(self, sender: NodeId, welcome: Welcome) -> bool:
        """Whether this welcomes the present membership."""
        if welcome.time != self._time.get(welcome.group, 0) or not self.has(welcome.group, self.me):
            return False
        self.welcome_by(welcome.group, sender)
        return True

    def welcome_by(self, group: GroupId, sender: NodeId) -> None:
        """`sender` knows of this node's present membership."""
        self._welcomed[group][sender] = None

    def restore(self, record: Message) -> None:
        """Take in a record of a snapshot."""
        if isinstance(record, Memberships):
            times = zip(record.members, record.times, strict=True)
            self._members[record.group] = dict(times)
            self._time[record.group] = record.time
            self._welcomed[record.group] = dict.fromkeys(record.welcomed_by)

    def snapshot(self) -> list[Message]:
        """Records for a restart."""
        return [
            Memberships(
                group,
                list(members),
                self._time.get(group, 0),
                list(self._welcomed.get(group, {})),
                list(members.values()),
            )
            for group, members in self._members.items()
        ]

    def size(self) -> int:
        """Entries kept."""
        return sum(len(members) for members in self._members.values())
