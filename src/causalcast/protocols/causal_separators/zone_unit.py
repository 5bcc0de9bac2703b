"""What travels through zones: a publication, or news of groups and zones.

The node where it begins numbers its units 1, 2, 3, …, so a unit has one name in all zones. Inside a
zone it is the body of a publication of the zone's own protocol, whose ids mean nothing elsewhere.
"""

from typing import Final, final

from causalcast.core.ids import NODE_LIMIT, GroupId, MessageId, NodeId, message_id
from causalcast.core.message import Membership, Publication

NOWHERE: Final = -1
LOCAL: Final = 1  # a bit of the first number; the others are the kind
PUBLICATION: Final = 0  # kinds
JOINED: Final = 1  # its origin joined the group
NEWS: Final = 2  # of zones, in the body: `zone_news`


@final
class Unit:
    """What travels. `via` is the zone from which it came into this one; `NOWHERE` if it began
    here."""

    def __init__(
        self,
        origin: NodeId,
        number: int,
        via: int,
        local: bool,
        kind: int,
        publication: Publication,
    ) -> None:
        self.origin = origin
        self.number = number
        self.via = via
        self.local = local  # must not leave the zone
        self.kind = kind
        self.publication = publication

    def packed(self) -> bytes:
        """As bytes: small numbers, then the body."""
        published = self.publication.id & 0xFFFFFFFF
        numbers = [
            LOCAL * self.local + 2 * self.kind,
            self.via + 1,
            self.origin,
            self.number,
            self.number - published,  # how many that are no publications were before: mostly none
            self.publication.group,
        ]
        return packed(numbers) + self.publication.body

    def entering(self, via: int) -> "Unit":
        """The same as it enters the next zone."""
        return Unit(self.origin, self.number, via, self.local, self.kind, self.publication)

    def id(self) -> MessageId:
        """The id of the publication."""
        return self.publication.id

    def is_publication(self) -> bool:
        """Whether it is for applications."""
        return self.kind == PUBLICATION

    def joins(self) -> list[Membership]:
        """Who becomes a member of which group by it."""
        return [(self.origin, self.publication.group)] if self.kind == JOINED else []


def unpacked(data: bytes) -> Unit:
    """A unit from its bytes; raises IndexError or ValueError for anything that is none."""
    numbers, at = numbers_of(data, 0, 6)
    flags, via, origin, number, others, group = numbers
    kind = flags >> 1
    if kind > NEWS or origin >= NODE_LIMIT or group >= NODE_LIMIT:
        raise ValueError("a number of a unit is out of range")
    if number < others + (kind == PUBLICATION):
        raise ValueError("a unit has no number")
    ident = message_id(NodeId(origin), number - others)
    publication = Publication(ident, GroupId(group), data[at:])
    return Unit(NodeId(origin), number, via - 1, flags & LOCAL != 0, kind, publication)


def packed(numbers: list[int]) -> bytes:
    """Numbers as bytes: seven bits in each, the lowest first."""
    parts = bytearray()
    for number in numbers:
        rest = number
        while rest >= 0x80:
            parts.append(rest & 0x7F | 0x80)
            rest >>= 7
        parts.append(rest)
    return bytes(parts)


def numbers_of(data: bytes, at: int, count: int) -> tuple[list[int], int]:
    """So many numbers from bytes, and where they end; raises IndexError or ValueError."""
    numbers = []
    for _ in range(count):
        value = shift = 0
        while data[at] & 0x80:
            value |= (data[at] & 0x7F) << shift
            shift += 7
            at += 1
            if shift > 28:
                raise ValueError("a number is out of range")
        value |= data[at] << shift
        at += 1
        if value >= 1 << 32:
            raise ValueError("a number is out of range")
        numbers.append(value)
    return numbers, at
