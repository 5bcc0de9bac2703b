"""Compaction for multicast: a vector clock of which only what changed is sent.

K. Birman, A. Schiper, P. Stephenson, "Lightweight causal and atomic group multicast", 1991; as told
by de Juan-Marín et al., "Scalability approaches for causal multicast: a survey", 2016, section 3.3
(figure 7).

Between two publications of one node few slots of its clock change. A publication carries the slots
that changed since its origin's last one (the survey's vector LM remembers them). Nothing needs to
be put together again at the receiver: it delivers an origin's publications in their order, so when
it looks at this one it has delivered the one before, and with it all that the slots that are left
out stand for.

Where we differ from the paper, and why
- As in vector_clock_broadcast: a sender delivers its own at once, its own slot is the publication's
  number, and channels are made reliable below.
- After a restart from a snapshot a node does not know what it told before, and names all slots
  once.
"""

from causalcast.core import (
    CAUSAL_WHEN_ALL_ARE_BACK,
    LinkId,
    Message,
    MessageId,
    Multicast,
    Needs,
    NodeId,
    Outbox,
    ProtocolSpec,
    Publication,
    Setup,
    origin_of,
)
from causalcast.core.message import Single
from causalcast.parts.broadcast import stamped_broadcast
from causalcast.parts.broadcast.stamped_broadcast import Stamped, StampedBroadcast, deliver
from causalcast.parts.vector_clock import VectorClock


class CompactionMulticast(Multicast):
    """Names what was delivered here since the last own publication."""

    def __init__(self, setup: Setup) -> None:
        self.me = setup.me
        self.broadcast = StampedBroadcast(setup)
        self.told: VectorClock = {}  # LM: what own publications have named so far

    def on_publish(self, publication: Publication, out: Outbox) -> None:
        # Section 3.3, figure 7: it carries the slots that changed since the last one.
        self._deliver(self.broadcast.publish(publication, self._causes_of_next(), out), out)

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        # Section 3.3, figure 7: the slots that are left out were waited for by the one before.
        self._deliver(self.broadcast.arrived(sender, message, out), out)

    def on_run(
        self, sender: NodeId, first: Single, publications: tuple[Publication, ...], out: Outbox
    ) -> None:
        # Not in the paper: publications of which each follows the one before are looked at once.
        if isinstance(first, Stamped) and self.broadcast.takes_run(
            sender, first, publications, out
        ):
            for publication in publications:
                self._count(publication, first.needs)
                out.deliver(publication)
        else:
            super().on_run(sender, first, publications, out)

    def _deliver(self, ready: list[Stamped], out: Outbox) -> None:
        for stamped in ready:
            self._count(stamped.publication, stamped.needs)
        deliver(ready, out)

    def _causes_of_next(self) -> VectorClock:
        return {
            origin: count
            for origin, count in self.broadcast.delivery.delivered.items()
            if origin != self.me and count > self.told.get(origin, 0)
        }

    def _count(self, publication: Publication, needs: VectorClock) -> None:
        """Whoever delivered an own publication was told what it names."""
        if origin_of(publication.id) == self.me:
            self.told.update(needs)

    # Time and neighbours: `reliable_sending` makes channels reliable, which papers take for granted

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        # Not in the paper: what was not acknowledged is repeated.
        self.broadcast.sending.on_timer(name, subject, out)

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        # Not in the paper: who comes back catches up.
        self.broadcast.sending.on_neighbour_up(peer, out)

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        # Not in the paper: what it lacks is kept.
        self.broadcast.sending.on_neighbour_down(peer, out)

    def on_suspect(self, peer: NodeId, out: Outbox) -> None:
        # Not in the paper: others bring what a dead origin cannot.
        self.broadcast.sending.on_suspect(peer, out)

    def on_trust(self, peer: NodeId, out: Outbox) -> None:
        # Not in the paper: it can be asked again.
        self.broadcast.sending.on_trust(peer, out)

    # After a restart, and what the node asks

    def on_recover(self, records: list[Message], out: Outbox) -> None:
        # Not in the paper, in which nobody crashes.
        for record in records:
            for stamped in self.broadcast.restore(record):
                self._count(stamped.publication, stamped.needs)

    def snapshot(self) -> list[Message]:
        return self.broadcast.snapshot()

    def explain(self, message: MessageId) -> list[MessageId]:
        return self.broadcast.explain(message)

    def waiting_bytes(self) -> int:
        return self.broadcast.sending.waiting_bytes()

    def kept_bytes(self) -> int:
        return self.broadcast.kept_bytes()

    def kept_for(self) -> dict[NodeId, int]:
        return self.broadcast.sending.kept_for()

    def furthest(self, origin: NodeId) -> int:
        return self.broadcast.sending.furthest(origin)

    def state_size(self) -> int:
        return len(self.told) + self.broadcast.size()


def build(setup: Setup) -> CompactionMulticast:
    return CompactionMulticast(setup)


SPEC = ProtocolSpec(
    name="compaction_multicast",
    summary="A vector clock of which only slots that changed since the last publication are sent.",
    build=build,
    messages=stamped_broadcast.MESSAGES,
    guarantees=CAUSAL_WHEN_ALL_ARE_BACK,
    options=stamped_broadcast.OPTIONS,
    needs=Needs(overlay="static"),
    restart="resume",
    tolerates=stamped_broadcast.tolerates,
    invariants=stamped_broadcast.INVARIANTS,
    at_rest=stamped_broadcast.AT_REST,
    rare=stamped_broadcast.RARE,
    events=stamped_broadcast.EVENTS,
    cost="one entry per origin heard of since the last own one: 0 to n - 1 of 2 to 10 bytes",
    offers=["explain", "new_groups", "made_groups", "states"],
)
