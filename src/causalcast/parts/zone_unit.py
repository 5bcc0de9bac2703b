"""What travels through zones: a publication, or the news that somebody joined a group.

The node where it begins numbers its units 1, 2, 3, …, so a unit has one name in all zones. Inside a
zone it is the body of a publication of the zone's own protocol, whose ids mean nothing elsewhere.
"""

from typing import Final, final

from causalcast.core.ids import NODE_LIMIT, GroupId, MessageId, NodeId, message_id
from causalcast.core.message import Publication

NOWHERE: Final = -1
LOCAL: Final = 1  # bits of the first number
JOINED: Final = 2


@final
class Unit:
    """One of them. `via` is the zone it came from into this one; `NOWHERE` if it began here."""

    def __init__(
        self,
        origin: NodeId,
        number: int,
        via: int,
        local: bool,
        joined: bool,
        publication: Publication,
    ) -> None:
        self.origin = origin
        self.number = number
        self.via = via
        self.local = local  # must not leave the zone
        self.joined = joined  # no publication: its origin joined the group
        self.publication = publication

    def packed(self) -> bytes:
        """As bytes: small numbers, then the body."""
        published = self.publication.id & 0xFFFFFFFF
        flags = LOCAL * self.local + JOINED * self.joined
        return (
            _packed(flags)
            + _packed(self.via + 1)
            + _packed(self.origin)
            + _packed(self.number)
            + _packed(self.number - published)  # how many joins were before: mostly none
            + _packed(self.publication.group)
            + self.publication.body
        )

    def entering(self, via: int) -> "Unit":
        """The same as it enters the next zone."""
        return Unit(self.origin, self.number, via, self.local, self.joined, self.publication)

    def id(self) -> MessageId:
        """The id of the publication."""
        return self.publication.id


def unpacked(data: bytes) -> Unit:
    """A unit from its bytes; raises IndexError or ValueError for anything that is none."""
    numbers = []
    at = 0
    for _ in range(6):
        value = shift = 0
        while data[at] & 0x80:
            value |= (data[at] & 0x7F) << shift
            shift += 7
            at += 1
        value |= data[at] << shift
        at += 1
        if value >= 1 << 32:
            raise ValueError("a number of a unit is out of range")
        numbers.append(value)
    flags, via, origin, number, joins, group = numbers
    joined = flags & JOINED != 0
    if origin >= NODE_LIMIT or group >= NODE_LIMIT or number < joins + (not joined):
        raise ValueError("a number of a unit is out of range")
    publication = Publication(message_id(NodeId(origin), number - joins), GroupId(group), data[at:])
    return Unit(NodeId(origin), number, via - 1, flags & LOCAL != 0, joined, publication)


def _packed(number: int) -> bytes:
    """Seven bits in each byte, the lowest first."""
    parts = bytearray()
    while number >= 0x80:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)
