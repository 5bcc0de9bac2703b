"""What servers of a joint say to one another, and write down to survive a crash."""

from typing import Final, final

from causalcast.core.ids import NodeId
from causalcast.core.message import Envelope, Membership, Message, Publication, Wire
from causalcast.parts.vector_clock import VectorClock
from causalcast.protocols.causal_separators.zone_unit import Unit, unpacked


@final
class Crossing(Envelope):
    """The `place`-th unit in the order of `lead`: publish it in your zone after the named ones.

    Of a sender's units that wait for the same lead, those with smaller places go first.
    """

    wire = Wire(
        "zone_crossing.crossing", lead=NodeId, place=int, after=dict[NodeId, int], unit=bytes
    )

    def __init__(self, lead: NodeId, place: int, after: VectorClock, unit: bytes) -> None:
        self.lead = lead
        self.place = place
        self.after = after
        self.unit = unit

    def carried(self) -> list[Publication]:
        unit = self._unpacked()
        return [unit.publication] if unit is not None and unit.is_publication() else []

    def joins(self, sender: NodeId) -> list[Membership]:
        unit = self._unpacked()
        return [] if unit is None else unit.joins()

    def _unpacked(self) -> Unit | None:
        try:
            return unpacked(self.unit)
        except (IndexError, ValueError):
            return None


@final
class Carry(Message):
    """Bring a unit, which you have or will have, to this server, as the lead's `place`-th."""

    wire = Wire(
        "zone_crossing.carry",
        epoch=int,
        to=NodeId,
        place=int,
        after=dict[NodeId, int],
        origin=NodeId,
        number=int,
    )

    def __init__(
        self, epoch: int, to: NodeId, place: int, after: VectorClock, origin: NodeId, number: int
    ) -> None:
        self.epoch = epoch
        self.to = to
        self.place = place
        self.after = after
        self.origin = origin
        self.number = number


@final
class Arrivals(Message):
    """So many units of these origins were delivered here: forget them, and name them no more."""

    wire = Wire("zone_crossing.arrivals", counts=dict[NodeId, int])

    def __init__(self, counts: VectorClock) -> None:
        self.counts = counts


@final
class Opening(Message):
    """The joint opens for the `epoch`-th time: what follows on this link belongs to that."""

    wire = Wire("zone_crossing.opening", epoch=int)

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch


@final
class Closing(Message):
    """Nothing more follows; all that had to cross has, unless the joint was `dropped`."""

    wire = Wire("zone_crossing.closing", epoch=int, dropped=bool)

    def __init__(self, epoch: int, dropped: bool) -> None:
        self.epoch = epoch
        self.dropped = dropped


@final
class Turned(Message):
    """Record: this server began to keep units for the `epoch`-th time, or closed."""

    wire = Wire("zone_crossing.turned", there=int, epoch=int, phase=int)

    def __init__(self, there: int, epoch: int, phase: int) -> None:
        self.there = there
        self.epoch = epoch
        self.phase = phase


@final
class JointState(Message):
    """Record of a snapshot: units so far, and what the servers at the other side have."""

    wire = Wire(
        "zone_crossing.joint_state",
        there=int,
        epoch=int,
        phase=int,
        sealed=bool,
        places=int,
        arrived=dict[NodeId, int],
        has=dict[NodeId, dict[NodeId, int]],
        brought=dict[NodeId, dict[NodeId, int]],
        epochs=dict[NodeId, int],
        closed=list[NodeId],
    )

    def __init__(
        self,
        there: int,
        epoch: int,
        phase: int,
        sealed: bool,
        places: int,
        arrived: VectorClock,
        has: dict[NodeId, VectorClock],
        brought: dict[NodeId, VectorClock],
        epochs: dict[NodeId, int],
        closed: list[NodeId],
    ) -> None:
        self.there = there
        self.epoch = epoch
        self.phase = phase
        self.sealed = sealed
        self.places = places
        self.arrived = arrived
        self.has = has
        self.brought = brought
        self.epochs = epochs
        self.closed = closed


@final
class KeptUnit(Message):
    """Record of a snapshot: a unit that a server at the other side may lack."""

    wire = Wire("zone_crossing.kept", there=int, place=int, sent=dict[NodeId, NodeId], unit=bytes)

    def __init__(self, there: int, place: int, sent: dict[NodeId, NodeId], unit: bytes) -> None:
        self.there = there
        self.place = place
        self.sent = sent
        self.unit = unit


@final
class WaitingUnit(Message):
    """Record of a snapshot: this came across and waits, or is to be carried."""

    wire = Wire("zone_crossing.waiting", there=int, sender=NodeId, content=Message)

    def __init__(self, there: int, sender: NodeId, content: Message) -> None:
        self.there = there
        self.sender = sender
        self.content = content


MESSAGES: Final = [
    Arrivals,
    Crossing,
    Carry,
    Opening,
    Closing,
    Turned,
    JointState,
    KeptUnit,
    WaitingUnit,
]
