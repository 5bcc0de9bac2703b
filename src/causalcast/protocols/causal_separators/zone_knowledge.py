"""What a node knows of joints that open and close, and where groups have members.

Each joint counts how often it was opened (its epoch). News raise it from level to level, and never
lower it, so in whatever order they come, all nodes end with the same.

To join a zone, the servers on each side begin to keep what is to cross, and say so (READY). When
one of them, the last, has heard that from all, it says what it has delivered until then (CUT): that
does not cross, all else does, and every server knows it by count. So another server can take the
first one's place, and brings neither less nor more. With the cut travels where groups have members;
it is the first that crosses. A node counts a joint as open when it has heard the cuts of both
sides: so whatever it publishes then is in neither.

To part a zone, its nodes and those of zones behind it leave their groups and say that they publish
nothing more for others (DONE). A server that heard it from all has everything that must cross; it
brings that over, and closes. While a zone is apart its nodes publish among themselves.
"""

from typing import Final, final

from causalcast.core.groups import Groups
from causalcast.core.ids import GroupId, NodeId
from causalcast.core.message import Message, Wire
from causalcast.protocols.causal_separators.zone_map import ZoneMap
from causalcast.protocols.causal_separators.zone_news import (
    CLOSED,
    CUT,
    DONE,
    DROPPED,
    PART,
    READY,
    News,
)

JOINING: Final = 0
OPEN: Final = 1
PARTING: Final = 2
SHUT: Final = 3
WORDS: Final = ("joining", "open", "parting", "closed")


@final
class KnownGroups(Message):
    """Record of a snapshot: in which zones groups have members, and which ever spread."""

    wire = Wire("zone_knowledge.groups", zones=dict[GroupId, list[int]], spread=list[GroupId])

    def __init__(self, zones: dict[GroupId, list[int]], spread: list[GroupId]) -> None:
        self.zones = zones
        self.spread = spread


@final
class KnownJoint(Message):
    """Record of a snapshot: what is known of a joint."""

    wire = Wire(
        "zone_knowledge.joint",
        joint=int,
        epoch=int,
        level=int,
        ready=list[NodeId],
        cuts=list[int],
        done=list[NodeId],
    )

    def __init__(
        self,
        joint: int,
        epoch: int,
        level: int,
        ready: list[NodeId],
        cuts: list[int],
        done: list[NodeId],
    ) -> None:
        self.joint = joint
        self.epoch = epoch
        self.level = level
        self.ready = ready
        self.cuts = cuts
        self.done = done


MESSAGES: Final = [KnownGroups, KnownJoint]


@final
class JointKnowledge:
    """One joint, as one node knows it."""

    def __init__(self, epoch: int, level: int) -> None:
        self.epoch = epoch
        self.level = level
        self.ready: dict[NodeId, None] = {}  # servers, in this epoch
        self.cuts: dict[int, None] = {}  # sides
        self.done: dict[NodeId, None] = {}

    def rise(self, epoch: int, level: int) -> bool:
        """Raise what is known of the joint; returns whether that is news."""
        if (epoch, level) <= (self.epoch, self.level):
            return False
        if epoch > self.epoch:
            self.ready, self.cuts, self.done = {}, {}, {}
        self.epoch, self.level = epoch, level
        return True


@final
class ZoneKnowledge:
    """All joints and groups, as one node knows them."""

    def __init__(self, zone_map: ZoneMap, home: int, groups: Groups) -> None:
        self.map = zone_map
        self.home = home
        self.joints = [JointKnowledge(1, OPEN) for _ in zone_map.joints]
        for joint in zone_map.shut_at_start():
            self.joints[joint] = JointKnowledge(0, SHUT)
        # In which zones each group has or had members; not those that were parted since.
        self.group_zones: dict[GroupId, dict[int, None]] = {}
        # Groups that ever had members elsewhere: what is published to them goes everywhere for
        # ever. Else a late member could get an older message and miss the next.
        self.spread: dict[GroupId, None] = {}
        for number in range(len(groups.names)):
            members = groups.members_of(GroupId(number))
            zones = dict.fromkeys(zone_map.home[member] for member in members)
            self.learn_members(GroupId(number), list(zones))

    # What is heard

    def learn_members(self, group: GroupId, zones: list[int]) -> None:
        """A group has members in these zones."""
        known = self.group_zones.setdefault(group, {})
        known.update(dict.fromkeys(zones))
        if any(zone != self.home for zone in known):
            self.spread[group] = None

    def hear(self, origin: NodeId, news: News) -> None:
        """Something happened to a joint."""
        if news.joint >= len(self.joints):
            return
        joint = self.joints[news.joint]
        joint.rise(news.epoch, JOINING)
        if news.epoch == joint.epoch:
            if news.what == READY:
                joint.ready[origin] = None
            elif news.what == CUT:
                joint.cuts[news.side] = None
            elif news.what == DONE:
                joint.done[origin] = None
        if news.what == CUT:
            self._learn_from_cut(news)
        if len(joint.cuts) == 2:
            joint.rise(joint.epoch, OPEN)
        if news.what == PART:
            joint.rise(news.epoch, PARTING)
        elif news.what in (CLOSED, DROPPED):
            self._close(news.joint, news.epoch, news.what == DROPPED)

    def _learn_from_cut(self, news: News) -> None:
        for number, (epoch, level) in enumerate(news.joints):
            if number < len(self.joints) and number != news.joint:
                self.joints[number].rise(epoch, min(level, SHUT))
        for group, zones in news.groups.items():
            self.learn_members(group, zones)

    def _close(self, joint: int, epoch: int, dropped: bool) -> None:
        """Whoever said to be done is in no group; whoever is dropped has to join anew."""
        said = self.joints[joint].done if self.joints[joint].epoch == epoch else {}
        gone = [
            zone
            for zone in self.behind(joint)
            if dropped or all(node in said for node in self.map.zones[zone].members)
        ]
        if self.joints[joint].rise(epoch, SHUT):
            for zones in self.group_zones.values():
                for zone in gone:
                    zones.pop(zone, None)

    # What follows

    def is_local(self, group: GroupId) -> bool:
        """Whether all members that it ever had, as far as known, are in this node's zone."""
        return group not in self.spread

    def refusal(self, group: GroupId) -> str:
        """Why nothing can be published to a group now; empty if it can.

        To a zone that is being parted things are brought until its nodes have left their groups.
        """
        if all(known.level == OPEN for known in self.joints):
            return ""
        parting = self.parting()
        for zone in self.group_zones.get(group, {}):
            for joint in self.map.way(self.home, zone):
                level = self.joints[joint].level
                if level in (JOINING, SHUT) or joint in parting:
                    one, other = self.map.joints[joint].zones
                    return (
                        f"it has members in zone {zone}, and the joint of zones {one} and {other} "
                        f"on the way there is {WORDS[level]}"
                    )
        return ""

    def parting(self) -> list[int]:
        """The joints on the way to zone 0 that wait for this node to be done."""
        return [
            joint for joint in self.map.way_up(self.home) if self.joints[joint].level == PARTING
        ]

    def awaited(self, joint: int) -> list[NodeId]:
        """Who has not said yet that it is done: the nodes behind a joint, as far as joined.

        A zone that is being joined counts from its cut on this side on. Until then it will hear in
        that cut what this joint has come to.
        """
        said = self.joints[joint].done
        return [
            node
            for zone in self.behind(joint)
            for node in self.map.zones[zone].members
            if node not in said
        ]

    def behind(self, joint: int) -> list[int]:
        """The zones on the far side of a joint, without those that are apart from it anyway."""
        found = []
        for zone in range(len(self.map.zones)):
            way = self.map.way_up(zone)
            if joint in way and all(self._leads_here(j) for j in way[: way.index(joint)]):
                found.append(zone)
        return found

    def _leads_here(self, joint: int) -> bool:
        known = self.joints[joint]
        if known.level == JOINING:
            near = self.map.joints[joint].other(self.map.far_side(joint))
            return near in known.cuts
        return known.level != SHUT

    def cut(self, joint: int, side: int, counts: dict[NodeId, int]) -> News:
        """The cut of a side, with all that is known here."""
        return News(
            CUT,
            joint,
            self.joints[joint].epoch,
            side,
            counts,
            {group: list(zones) for group, zones in self.group_zones.items() if zones},
            [(known.epoch, known.level) for known in self.joints],
        )

    # Snapshots

    def snapshot(self) -> list[Message]:
        """Records for a restart."""
        groups = {group: list(zones) for group, zones in self.group_zones.items()}
        records: list[Message] = [KnownGroups(groups, [*self.spread])]
        for number, known in enumerate(self.joints):
            lists = [*known.ready], [*known.cuts], [*known.done]
            records.append(KnownJoint(number, known.epoch, known.level, *lists))
        return records

    def restore(self, record: Message) -> None:
        """Rebuild what a record of a snapshot says."""
        if isinstance(record, KnownGroups):
            self.group_zones = {g: dict.fromkeys(zones) for g, zones in record.zones.items()}
            self.spread = dict.fromkeys(record.spread)
        elif isinstance(record, KnownJoint):
            known = self.joints[record.joint]
            known.epoch, known.level = record.epoch, record.level
            known.ready = dict.fromkeys(record.ready)
            known.cuts = dict.fromkeys(record.cuts)
            known.done = dict.fromkeys(record.done)
