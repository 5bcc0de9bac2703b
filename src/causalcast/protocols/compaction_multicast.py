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
    Needs,
    NodeId,
    ProtocolSpec,
    Publication,
    Setup,
    origin_of,
)
from causalcast.parts.broadcast import stamped_broadcast
from causalcast.parts.broadcast.reliable_sending import ReliableSending
from causalcast.parts.broadcast.stamped_broadcast import StampedBroadcast, id_of, size_of
from causalcast.parts.vector_clock import VectorClock


class CompactionMulticast(StampedBroadcast):
    """Names what was delivered here since the last own publication."""

    def __init__(self, me: NodeId, sending: ReliableSending) -> None:
        super().__init__(me, sending)
        self.told: VectorClock = {}  # LM: what own publications have named so far

    def causes_of_next(self) -> VectorClock:
        return {
            origin: count
            for origin, count in self.delivery.delivered.items()
            if origin != self.me and count > self.told.get(origin, 0)
        }

    def on_delivered(self, publication: Publication, needs: VectorClock) -> None:
        if origin_of(publication.id) == self.me:
            self.told.update(needs)

    def state_size(self) -> int:
        return len(self.told) + super().state_size()


def build(setup: Setup) -> CompactionMulticast:
    return CompactionMulticast(setup.me, ReliableSending(setup, id_of, size_of=size_of))


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
    offers=["explain"],
)
