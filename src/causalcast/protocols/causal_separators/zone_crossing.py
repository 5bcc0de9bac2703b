"""How units cross from one zone into the next, through one server or several side by side.

Every server of a joint delivers all units of its zone, in an order of its own in which causes come
before effects. The order of the first server, the lead, is the one in which units cross. The lead
asks the other servers in turn to carry units; so all channels are used. What the lead publishes
itself it leaves to others, so that it does not cross before somebody else in its zone has it.

A unit names, as counts per origin, what may reach the other server on another way only: what comes
before in the lead's order and travels on other channels, and what the lead had from the other zone.
Whoever gets the unit publishes it in its own zone after those. That is all the history that
crosses, and with one channel it is none. (If each server went by its own order, two units that came
to two servers in opposite orders would wait for each other for ever.)

Servers tell the servers at the other side what they have delivered, so that it need not be named.
What not all of them have is kept; so when the lead is doubted, the next server takes its place
and brings, in its own order, all that is not known to be there. Both may bring the same unit then:
counts per origin tell, since units of one origin come in their order. Nothing that a zone has is
lost to the other while one server of each side lives.

A joint opens and closes while the system runs, as `zone_knowledge` tells. Servers of the
two sides say so to one another on the links that units travel on, which keep their order: so each
knows which of the times that the joint was open a unit belongs to, and drops what comes too late.
"""

from typing import Final, final

from causalcast.core.ids import NodeId
from causalcast.core.message import Message
from causalcast.parts.vector_clock import VectorClock
from causalcast.protocols.causal_separators.crossing_messages import (
    Carry,
    Closing,
    Crossing,
    JointState,
    KeptUnit,
    Turned,
    WaitingUnit,
)
from causalcast.protocols.causal_separators.incoming import Incoming
from causalcast.protocols.causal_separators.outgoing import JointEnds, Kept, Outgoing, Sending
from causalcast.protocols.causal_separators.zone_map import Joint
from causalcast.protocols.causal_separators.zone_unit import Unit, unpacked

CLOSED: Final = 0  # phases of a joint, at one server
KEEPING: Final = 1  # until it is known what crosses
OPEN: Final = 2


@final
class ZoneCrossing:
    """One joint as one of its servers sees it: how often it was opened, and what crosses now."""

    def __init__(self, me: NodeId, here: int, joint: Joint, number: int, is_open: bool) -> None:
        self.number = number  # of the joint
        self.ends = JointEnds(me, here, joint)
        self.here = self.ends.here
        self.there = self.ends.there
        self.servers = self.ends.servers
        self.partners = self.ends.partners
        self.epoch = int(is_open)
        self.epoch_of = dict.fromkeys(self.partners, self.epoch)  # what they said last
        self._start_anew(OPEN if is_open else CLOSED)

    def _start_anew(self, phase: int) -> None:
        """Forget all of the last opening."""
        self.phase = phase
        self.sealed = False  # all on this side are done: nothing more of them has to cross
        self.dropped = False  # to be closed at once
        self.closed: dict[NodeId, None] = {}  # partners that bring nothing more
        self.outgoing = Outgoing(self.ends)
        self.incoming = Incoming()

    # Opening and closing

    def begin(self, epoch: int) -> Turned:
        """Keep from now on what is to cross."""
        self.epoch = epoch
        self._start_anew(KEEPING)
        return Turned(self.there, self.epoch, self.phase)

    def open(self, cut: Unit, counts: VectorClock) -> None:
        """What is in `counts` does not cross, all else does, after the cut."""
        self.outgoing.begin_with(cut, counts)
        self.phase = OPEN

    def close(self) -> Turned:
        """Close the joint here, and forget what was kept."""
        self._start_anew(CLOSED)
        return Turned(self.there, self.epoch, self.phase)

    def on_opening(self, partner: NodeId, epoch: int) -> None:
        """A server at the other side began; so it has ended what was before."""
        # Not in the papers: joints that open and close.
        self.epoch_of[partner] = epoch
        if epoch > self.epoch:
            self.closed[partner] = None

    def on_closing(self, partner: NodeId, closing: Closing) -> None:
        """A server at the other side brings nothing more."""
        # Not in the papers: joints that open and close.
        if closing.epoch == self.epoch and self.phase != CLOSED:
            self.closed[partner] = None
            self.dropped = self.dropped or closing.dropped

    def belongs(self, partner: NodeId) -> bool:
        """Whether what this server at the other side brings now belongs to this opening."""
        return self.phase != CLOSED and self.epoch_of[partner] == self.epoch

    def flows(self) -> bool:
        """Whether units cross: both sides have begun, though some may have ended again."""
        begun = all(epoch >= self.epoch for epoch in self.epoch_of.values())
        return self.phase == OPEN and begun

    def is_emptied(self) -> bool:
        """Whether all that had to cross has, and nothing more will come from there."""
        sent = self.sealed and self.outgoing.is_empty()
        ended = len(self.closed) == len(self.partners) and not self.incoming.waiting
        return self.phase != CLOSED and (sent or ended)

    # What crosses

    def leave(self, unit: Unit) -> None:
        """A unit of this zone is to cross."""
        if self.phase != CLOSED and not self.sealed:  # else for the next opening, if for any
            self.outgoing.leave(unit)

    def on_carry(self, lead: NodeId, carry: Carry) -> None:
        """The lead asks to bring a unit across."""
        # Section 3.4: several channels between two subgroups keep one FIFO order among them. The
        # rule by which they do is not in the survey.
        if carry.epoch == self.epoch and self.phase != CLOSED:
            self.outgoing.to_carry.setdefault(lead, []).append(carry)

    def next_sending(self, at_least: int) -> Sending | None:
        """The next thing to send, of units from this place on."""
        if not self.flows():
            return None
        return self.outgoing.next_sending(self.epoch, self.incoming.arrived, at_least)

    def ready(self, seen: VectorClock) -> Crossing | None:
        """The next of what came across that may be published here; it waits no longer."""
        if self.phase != OPEN:
            return None  # what is published here in answer to it would not cross
        return self.incoming.next_ready(seen)

    def has_news(self, seen: VectorClock) -> bool:
        """Whether there is something to tell; a single server has nobody who needs it."""
        return len(self.servers) > 1 and self.flows() and seen != self.incoming.told

    # Snapshots

    def snapshot(self) -> list[Message]:
        """Records for a restart."""
        has = {partner: dict(counts) for partner, counts in self.outgoing.has.items()}
        state = JointState(
            self.there,
            self.epoch,
            self.phase,
            self.sealed,
            self.outgoing.places,
            dict(self.incoming.arrived),
            has,
            {partner: dict(counts) for partner, counts in self.outgoing.brought.items()},
            dict(self.epoch_of),
            [*self.closed],
        )
        records: list[Message] = [state]
        for place, kept in self.outgoing.kept.items():
            records.append(KeptUnit(self.there, place, dict(kept.sent), kept.unit.packed()))
        for (sender, _), queue in self.incoming.waiting.items():
            records += [WaitingUnit(self.there, sender, crossing) for crossing in queue.values()]
        for lead, carries in self.outgoing.to_carry.items():
            records += [WaitingUnit(self.there, lead, carry) for carry in carries]
        return records

    def restore(self, record: Message) -> None:
        """Rebuild what a record of a snapshot says."""
        if isinstance(record, Turned):
            self.epoch = record.epoch
            self._start_anew(record.phase)
        elif isinstance(record, JointState):
            self.epoch, self.phase, self.sealed = record.epoch, record.phase, record.sealed
            self.epoch_of = dict(record.epochs)
            self.closed = dict.fromkeys(record.closed)
            self.outgoing.places = record.places
            self.incoming.arrived = dict(record.arrived)
            self.outgoing.has.update({peer: dict(counts) for peer, counts in record.has.items()})
            self.outgoing.brought.update(
                {peer: dict(counts) for peer, counts in record.brought.items()}
            )
        elif isinstance(record, KeptUnit):
            kept = Kept(unpacked(record.unit), dict(record.sent), self.outgoing.turn)
            self.outgoing.keep(record.place, kept)
        elif isinstance(record, WaitingUnit):
            if isinstance(record.content, Carry):
                self.on_carry(record.sender, record.content)
            else:
                assert isinstance(record.content, Crossing)
                self.incoming.arrive(record.sender, record.content)
