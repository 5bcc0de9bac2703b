"""Planted bugs of `psync`: the leaves of the context graph, and nothing less."""

from causalcast.core import Message, NodeId, Outbox, Publication, number_of, origin_of
from causalcast.parts.broadcast.reliable_sending import ReliableSending
from causalcast.parts.broadcast.stamped_broadcast import Delivered
from causalcast.parts.vector_clock import VectorClock
from causalcast.protocols.psync import Psync
from causalcast.swarm.mutant import Mutant, Patch

_restore = Psync._restore


def newest_is_the_only_leaf(self: Psync, publication: Publication, needs: VectorClock) -> None:
    self.leaves = {origin_of(publication.id): number_of(publication.id)}


def concurrent_leaves_cut_too(self: Psync, publication: Publication, needs: VectorClock) -> None:
    """A predecessor takes later publications of its origin with it."""
    for origin in needs:
        self.leaves.pop(origin, None)
    self.leaves[origin_of(publication.id)] = number_of(publication.id)


def own_are_no_leaves(self: Psync, publication: Publication, needs: VectorClock) -> None:
    for origin, number in needs.items():
        if self.leaves.get(origin, 0) <= number:
            self.leaves.pop(origin, None)
    if origin_of(publication.id) == self.me:
        return
    self.leaves[origin_of(publication.id)] = max(1, number_of(publication.id) - 1)


def leaves_not_restored(self: Psync, record: Message) -> None:
    _restore(self, record)
    if isinstance(record, Delivered):
        self.leaves = {}


def largest_leaf_only(self: Psync) -> VectorClock:
    leaves = {origin: number for origin, number in self.leaves.items() if origin != self.me}
    return dict(sorted(leaves.items())[:1])


def hand_nothing_over(
    self: ReliableSending, peer: NodeId, origin: NodeId, message: Message, out: Outbox
) -> None:
    """Where copies go straight: what an origin that is away cannot bring, nobody brings."""


MUTANTS = [
    Mutant(
        "newest_leaf_only",
        "concurrent publications are leaves side by side",
        ["causal_order"],
        [Patch(Psync, "_count", newest_is_the_only_leaf)],
    ),
    Mutant(
        "later_leaf_cut",
        "a predecessor cuts only what it follows",
        ["causal_order"],
        [Patch(Psync, "_count", concurrent_leaves_cut_too)],
    ),
    Mutant(
        "leaf_one_behind",
        "the leaf is the last delivered one",
        ["causal_order"],
        [Patch(Psync, "_count", own_are_no_leaves)],
    ),
    Mutant(
        "leaves_not_restored",
        "after a snapshot everything delivered is named",
        ["causal_order"],
        [Patch(Psync, "_restore", leaves_not_restored)],
    ),
    Mutant(
        "one_leaf_sent",
        "all leaves are named",
        ["causal_order"],
        [Patch(Psync, "_causes_of_next", largest_leaf_only)],
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
