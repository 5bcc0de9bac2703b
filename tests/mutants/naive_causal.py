"""Planted bugs of `naive_causal`."""

from causalcast.core import NodeId, Outbox
from causalcast.protocols.naive_causal import Copy, NaiveCausal
from causalcast.swarm.mutant import Mutant, Patch


def no_copy_back(self: NaiveCausal, copy: Copy, sender: NodeId, out: Outbox) -> None:
    for peer, owed in self.owed.items():
        if peer != sender:
            owed.add(copy.publication.key)
            out.send(peer, copy)
    out.deliver(copy.publication)


def nothing_owed(self: NaiveCausal, copy: Copy, sender: NodeId, out: Outbox) -> None:
    """The insertion that Algorithm 11 lost: every copy is new."""
    for peer in self.owed:
        out.send(peer, copy)
    out.deliver(copy.publication)


MUTANTS = [
    Mutant(
        "no_copy_back",
        "also the first sender gets a copy",
        ["at_rest"],
        [Patch(NaiveCausal, "_accept", no_copy_back)],
    ),
    Mutant(
        "nothing_owed",
        "what was delivered is owed by all other neighbours (error 3 of the thesis)",
        ["no_duplication", "no_exception"],
        [Patch(NaiveCausal, "_accept", nothing_owed)],
    ),
]
