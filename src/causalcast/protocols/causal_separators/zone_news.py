"""News of zones that are joined and parted while the system runs, as bytes.

They travel as units do, in causal order with publications: that is what makes joining and parting
exact. `zone_knowledge` says what follows from them.
"""

from typing import Final, final

from causalcast.core.ids import NODE_LIMIT, GroupId, NodeId
from causalcast.parts.vector_clock import VectorClock
from causalcast.protocols.causal_separators.zone_unit import numbers_of, packed

JOIN: Final = 0  # an operator wants the joint to open
READY: Final = 1  # the origin, a server of the joint, keeps from here on what is to cross
CUT: Final = 2  # in the zone `side`: all but `counts` crosses; here is what its part knows
PART: Final = 3  # an operator wants the joint to close, once nothing is lost by it
DONE: Final = 4  # the origin is in no group, and publishes nothing more that would have to cross
CLOSED: Final = 5  # a server of the joint has closed it
DROPPED: Final = 6  # the joint is closed at once, whatever is lost


@final
class News:
    """What happened to which joint, the `epoch`-th time that it is open."""

    def __init__(
        self,
        what: int,
        joint: int,
        epoch: int,
        side: int = 0,
        counts: VectorClock | None = None,
        groups: dict[GroupId, list[int]] | None = None,
        joints: list[tuple[int, int]] | None = None,
    ) -> None:
        self.what = what
        self.joint = joint
        self.epoch = epoch
        self.side = side
        self.counts: VectorClock = counts or {}
        self.groups: dict[GroupId, list[int]] = groups or {}
        self.joints: list[tuple[int, int]] = joints or []  # epoch and level of each

    def packed(self) -> bytes:
        """As bytes."""
        numbers = [self.what, self.joint, self.epoch, self.side]
        numbers.append(len(self.counts))
        for node, count in self.counts.items():
            numbers += [node, count]
        numbers.append(len(self.groups))
        for group, zones in self.groups.items():
            numbers += [group, len(zones), *zones]
        numbers.append(len(self.joints))
        for epoch, level in self.joints:
            numbers += [epoch, level]
        return packed(numbers)


def unpacked_news(data: bytes) -> News:
    """News from their bytes; raises IndexError or ValueError for anything that is none."""
    head, at = numbers_of(data, 0, 5)
    what, joint, epoch, side, entries = head
    if what > DROPPED:
        raise ValueError("news of no kind")
    counts: VectorClock = {}
    for _ in range(entries):
        pair, at = numbers_of(data, at, 2)
        if pair[0] >= NODE_LIMIT:
            raise ValueError("news of no node")
        counts[NodeId(pair[0])] = pair[1]
    groups: dict[GroupId, list[int]] = {}
    head, at = numbers_of(data, at, 1)
    for _ in range(head[0]):
        pair, at = numbers_of(data, at, 2)
        groups[GroupId(pair[0])], at = numbers_of(data, at, pair[1])
    joints: list[tuple[int, int]] = []
    head, at = numbers_of(data, at, 1)
    for _ in range(head[0]):
        pair, at = numbers_of(data, at, 2)
        joints.append((pair[0], pair[1]))
    if at != len(data):
        raise ValueError("more than news")
    return News(what, joint, epoch, side, counts, groups, joints)
