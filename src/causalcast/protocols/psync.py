"""Psync: a publication names its direct predecessors.

L. Peterson, N. Buchholz, R. Schlichting, "Preserving and using context information in interprocess
communication", 1989 (Psync); as told by de Juan-Marín et al., "Scalability approaches for causal
multicast: a survey", 2016, section 3.1, where it is the blocking sibling of the first generation.

The publications that a node has delivered form a graph, its context. A new publication carries the
ids of the leaves of that graph: those that no other delivered one follows. A receiver holds it
until it has delivered all of them; their own predecessors it had to deliver before.

Where we differ from the paper, and why
- Psync keeps the context graph and answers requests for missing predecessors. Here a missing one is
  on its way anyway (`reliable_sending` repeats it), so the leaves are all that is kept.
- An id is an origin and a number, and of two leaves of one origin the earlier is no leaf: so the
  leaves are counts per origin, of which most are left out.
- After a restart from a snapshot the graph is forgotten; the next publication names the last
  delivered one of every origin, which is more than needed and never too little.
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
    number_of,
    origin_of,
)
from causalcast.core.message import Single
from causalcast.parts.broadcast import stamped_broadcast
from causalcast.parts.broadcast.stamped_broadcast import (
    Delivered,
    Stamped,
    StampedBroadcast,
    deliver,
)
from causalcast.parts.vector_clock import VectorClock


class Psync(Multicast):
    """Names the delivered publications that no delivered one follows."""

    def __init__(self, setup: Setup) -> None:
        self.me = setup.me
        self.broadcast = StampedBroadcast(setup)
        self.leaves: VectorClock = {}

    def on_publish(self, publication: Publication, out: Outbox) -> None:
        # Section 3.1: it names the leaves of the context graph.
        self._deliver(self.broadcast.publish(publication, self._causes_of_next(), out), out)

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        # Section 3.1: it is delivered when its predecessors were; until then it is held.
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
        leaves = dict(self.leaves)
        leaves.pop(self.me, None)
        return leaves

    def _count(self, publication: Publication, needs: VectorClock) -> None:
        """It is a leaf now, and what it follows is none any more."""
        for origin, number in needs.items():
            if self.leaves.get(origin, 0) <= number:
                self.leaves.pop(origin, None)
        self.leaves[origin_of(publication.id)] = number_of(publication.id)

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
            self._restore(record)

    def _restore(self, record: Message) -> None:
        for stamped in self.broadcast.restore(record):
            self._count(stamped.publication, stamped.needs)
        if isinstance(record, Delivered):
            self.leaves = dict(record.counts)

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
        return len(self.leaves) + self.broadcast.size()


def build(setup: Setup) -> Psync:
    return Psync(setup)


SPEC = ProtocolSpec(
    name="psync",
    summary="A publication names its direct predecessors (Peterson, Buchholz, Schlichting 1989).",
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
    cost="one entry per concurrent direct predecessor: 0 to n - 1 of 2 to 10 bytes",
    offers=["explain", "new_groups", "made_groups", "states"],
)
