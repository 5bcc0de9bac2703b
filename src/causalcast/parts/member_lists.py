"""Who is a member of which group, kept up by causal messages to everybody.

Whoever joins or leaves a group tells all nodes through the causal protocol itself. A publisher
addresses the members it knows of; so a publication that follows somebody's join reaches him, and
none that follows his leave does.

Copies that were addressed to an earlier membership may still be on their way when a node joins
again. So everybody who hears of a join answers with a welcome on its own link, in order with
everything else it sends there; what came before the welcome was not meant for this membership.
"""

from typing import final

from causalcast.core.groups import Groups
from causalcast.core.ids import GroupId, NodeId
from causalcast.core.message import Message, Wire


class Joined(Message):
    """Its sender is a member of the group from now on, for the `time`-th time: welcome it."""

    wire = Wire("member_lists.joined", group=GroupId, time=int)

    def __init__(self, group: GroupId, time: int) -> None:
        self.group = group
        self.time = time


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
    )

    def __init__(
        self, group: GroupId, members: list[NodeId], time: int, welcomed_by: list[NodeId]
    ) -> None:
        self.group = group
        self.members = members
        self.time = time
        self.welcomed_by = welcomed_by


MESSAGES = [Joined, Left, Welcome, Memberships]


@final
class MemberLists:
    """The members of all groups, and who knows of this node's own memberships."""

    def __init__(self, me: NodeId, groups: Groups, everybody: list[NodeId]) -> None:
        self.me = me
        self._everybody = everybody
        numbers = [GroupId(number) for number in range(len(groups.names))]
        self._members = {group: dict.fromkeys(groups.members_of(group)) for group in numbers}
        self._time = dict.fromkeys(numbers, 0)  # how often this node joined
        self._welcomed = {group: dict.fromkeys(everybody) for group in numbers}

    def of(self, group: GroupId) -> list[NodeId]:
        """The members, as far as is known here."""
        return list(self._members.setdefault(group, {}))

    def has(self, group: GroupId, node: NodeId) -> bool:
        """Whether `node` is a member, as far as is known here."""
        return node in self._members.setdefault(group, {})

    def is_meant(self, group: GroupId, sender: NodeId) -> bool:
        """Whether what `sender` sends to `group` is meant for this node's present membership."""
        return self.has(group, self.me) and sender in self._welcomed[group]

    def join(self, group: GroupId) -> Joined:
        """This node becomes a member: what everybody must be told."""
        self._members.setdefault(group, {})[self.me] = None
        self._time[group] = self._time.get(group, 0) + 1
        self._welcomed[group] = {self.me: None}
        return Joined(group, self._time[group])

    def leave(self, group: GroupId) -> Left:
        """This node is no member any more: what everybody must be told."""
        self._members.setdefault(group, {}).pop(self.me, None)
        self._welcomed[group] = {}
        return Left(group)

    def on_joined(self, node: NodeId, joined: Joined) -> None:
        """Somebody became a member."""
        self._members.setdefault(joined.group, {})[node] = None

    def on_left(self, node: NodeId, left: Left) -> None:
        """Somebody is no member any more."""
        self._members.setdefault(left.group, {}).pop(node, None)

    def on_welcome(self, sender: NodeId, welcome: Welcome) -> bool:
        """Whether this welcomes the present membership."""
        if welcome.time != self._time.get(welcome.group, 0) or not self.has(welcome.group, self.me):
            return False
        self._welcomed[welcome.group][sender] = None
        return True

    def restore(self, record: Message) -> None:
        """Take in a record of a snapshot."""
        if isinstance(record, Memberships):
            self._members[record.group] = dict.fromkeys(record.members)
            self._time[record.group] = record.time
            self._welcomed[record.group] = dict.fromkeys(record.welcomed_by)

    def snapshot(self) -> list[Message]:
        """Records for a restart."""
        return [
            Memberships(
                group, list(members), self._time.get(group, 0), list(self._welcomed.get(group, {}))
            )
            for group, members in self._members.items()
        ]

    def size(self) -> int:
        """Entries kept."""
        return sum(len(members) for members in self._members.values())
