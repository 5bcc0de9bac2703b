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
    Message,
    Needs,
    NodeId,
    ProtocolSpec,
    Publication,
    Setup,
    number_of,
    origin_of,
)
from causalcast.parts.broadcast import stamped_broadcast
from causalcast.parts.broadcast.reliable_sending import ReliableSending
from causalcast.parts.broadcast.stamped_broadcast import Delivered, StampedBroadcast, id_of, size_of
from causalcast.parts.vector_clock import VectorClock


class Psync(StampedBroadcast):
    """Names the delivered publications that no delivered one follows."""

    def __init__(self, me: NodeId, sending: ReliableSending) -> None:
        super().__init__(me, sending)
        self.leaves: VectorClock = {}

    def causes_of_next(self) -> VectorClock:
        leaves = dict(self.leaves)
        leaves.pop(self.me, None)
        return leaves

    def on_delivered(self, publication: Publication, needs: VectorClock) -> None:
        for origin, number in needs.items():
            if self.leaves.get(origin, 0) <= number:
                self.leaves.pop(origin, None)
        self.leaves[origin_of(publication.id)] = number_of(publication.id)

    def restore(self, record: Message) -> None:
        super().restore(record)
        if isinstance(record, Delivered):
            self.leaves = dict(record.counts)

    def state_size(self) -> int:
        return len(self.leaves) + super().state_size()


def build(setup: Setup) -> Psync:
    return Psync(setup.me, ReliableSending(setup, id_of, size_of=size_of))


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
    offers=["explain"],
)
