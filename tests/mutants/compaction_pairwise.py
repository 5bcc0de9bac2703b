"""Planted bugs of `compaction_pairwise`: both ends of a link must know the same clock."""

from causalcast.core import LinkId, Message, NodeId, Outbox, number_of, origin_of
from causalcast.parts.broadcast.reliable_sending import ReliableSending
from causalcast.parts.broadcast.stamped_broadcast import Stamped
from causalcast.parts.vector_clock import VectorClock
from causalcast.protocols.compaction_pairwise.changed_entries import ChangedEntries
from causalcast.protocols.compaction_pairwise.protocol import Changed, CompactionPairwise
from causalcast.swarm.mutant import Mutant, Patch


def keep_what_the_peer_knew(
    self: CompactionPairwise, peer: NodeId, link: LinkId, newborn: bool, out: Outbox
) -> None:
    """A new link goes on where the old one ended."""
    self.incoming.setdefault(peer, {})
    self.broadcast.sending.on_neighbour_up(peer, out)


def keep_it_when_it_goes(self: CompactionPairwise, peer: NodeId, link: LinkId, out: Outbox) -> None:
    self.broadcast.sending.on_neighbour_down(peer, out)


def only_what_is_said(self: CompactionPairwise, sender: NodeId, changed: Changed) -> Stamped:
    """The slots that are left out count as nothing."""
    own_slot = origin_of(changed.publication.id)
    return Stamped(changed.publication, {k: v for k, v in changed.changes.items() if k != own_slot})


def growth_only(self: ChangedEntries, node: NodeId, count: int) -> None:
    if self.clock.get(node, 0) < count:
        self.clock[node] = count
        self.last_update[node] = self.turn


def told_to_all(self: ChangedEntries, peer: NodeId) -> VectorClock:
    """What one peer was told, every peer was."""
    since = max(self.last_sent.values(), default=-1)
    changed = {n: c for n, c in self.clock.items() if self.last_update[n] > since}
    self.last_sent[peer] = self.turn
    return changed


def own_slot_forgotten(self: CompactionPairwise, sender: NodeId, changed: Changed) -> Stamped:
    """The publication's own number is not taken into the clock of the link."""
    clock = self.incoming.setdefault(sender, {})
    clock.update(changed.changes)
    own_slot = origin_of(changed.publication.id)
    clock[own_slot] = min(clock.get(own_slot, 0), number_of(changed.publication.id))
    needs = {node: count for node, count in clock.items() if count > 0 and node != own_slot}
    return Stamped(changed.publication, needs)


def hand_nothing_over(
    self: ReliableSending, peer: NodeId, origin: NodeId, message: Message, out: Outbox
) -> None:
    """Where copies go straight: what an origin that is away cannot bring, nobody brings."""


MUTANTS = [
    Mutant(
        "slots_not_put_together",
        "the receiver adds what was said before on the link",
        ["causal_order"],
        [Patch(CompactionPairwise, "_whole", only_what_is_said)],
    ),
    Mutant(
        "told_to_one_told_to_all",
        "what was sent is remembered per link",
        ["causal_order"],
        [Patch(ChangedEntries, "changed_for", told_to_all)],
    ),
    Mutant(
        "own_slot_not_taken_in",
        "the publication's own number is part of the clock",
        ["causal_order", "agreement", "at_rest"],
        [Patch(CompactionPairwise, "_whole", own_slot_forgotten)],
    ),
    Mutant(
        "clock_kept_over_a_reconnection",
        "a new link begins with nothing said",
        ["causal_order", "agreement", "at_rest"],
        [
            Patch(CompactionPairwise, "on_neighbour_up", keep_what_the_peer_knew),
            Patch(CompactionPairwise, "on_neighbour_down", keep_it_when_it_goes),
        ],
    ),
    Mutant(
        "shrinking_slots_not_sent",
        "slots that became smaller are sent too",
        ["agreement", "at_rest", "causal_order"],
        [Patch(ChangedEntries, "put", growth_only)],
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
