"""Planted bugs of `compaction_multicast`: what is left out must have been said before."""

from causalcast.core import Message, NodeId, Outbox, Publication, origin_of
from causalcast.parts.broadcast.reliable_sending import ReliableSending
from causalcast.parts.vector_clock import VectorClock
from causalcast.protocols.compaction_multicast import CompactionMulticast
from causalcast.swarm.mutant import Mutant, Patch

_count = CompactionMulticast._count


def told_all_that_is_delivered(
    self: CompactionMulticast, publication: Publication, needs: VectorClock
) -> None:
    self.told = dict(self.broadcast.delivery.delivered)


def causes_one_behind(self: CompactionMulticast) -> VectorClock:
    """A slot that moved by one does not count as changed."""
    return {
        origin: count
        for origin, count in self.broadcast.delivery.delivered.items()
        if origin != self.me and count > self.told.get(origin, 0) + 1
    }


def causes_of_the_newest_only(self: CompactionMulticast) -> VectorClock:
    changed = {
        origin: count
        for origin, count in self.broadcast.delivery.delivered.items()
        if origin != self.me and count > self.told.get(origin, 0)
    }
    return dict(list(changed.items())[-1:])


def told_the_highest(
    self: CompactionMulticast, publication: Publication, needs: VectorClock
) -> None:
    """One slot that was told stands for all."""
    _count(self, publication, needs)
    if origin_of(publication.id) == self.me and needs:
        self.told = dict.fromkeys(self.broadcast.delivery.delivered, max(needs.values()))


def hand_nothing_over(
    self: ReliableSending, peer: NodeId, origin: NodeId, message: Message, out: Outbox
) -> None:
    """Where copies go straight: what an origin that is away cannot bring, nobody brings."""


MUTANTS = [
    Mutant(
        "delivered_taken_for_told",
        "what was delivered since the last publication is named",
        ["causal_order"],
        [Patch(CompactionMulticast, "_count", told_all_that_is_delivered)],
    ),
    Mutant(
        "small_changes_left_out",
        "a slot that moved by one has changed",
        ["causal_order"],
        [Patch(CompactionMulticast, "_causes_of_next", causes_one_behind)],
    ),
    Mutant(
        "one_slot_only",
        "every slot that changed is named",
        ["causal_order"],
        [Patch(CompactionMulticast, "_causes_of_next", causes_of_the_newest_only)],
    ),
    Mutant(
        "one_slot_for_all",
        "what was told is remembered per slot",
        ["causal_order"],
        [Patch(CompactionMulticast, "_count", told_the_highest)],
    ),
    Mutant(
        "nothing_handed_over",
        "where copies go straight: what an origin that died cannot bring, others bring",
        ["agreement"],
        [Patch(ReliableSending, "hand_over", hand_nothing_over)],
        {"spread": "direct"},
        for_good=True,
    ),
]
