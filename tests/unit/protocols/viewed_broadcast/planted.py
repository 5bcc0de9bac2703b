"""Planted bugs that a search seldom finds; `test_traps` has a schedule for each."""

from causalcast.protocols.viewed_broadcast.agreement import Agreement
from causalcast.protocols.viewed_broadcast.membership import Membership
from causalcast.swarm.mutant import Mutant, Rewritten

MUTANTS = [
    Mutant(
        "copies_of_the_removed_taken",
        "between promise and view nothing of a removed node is delivered beyond the cut",
        ["at_rest", "agreement", "causal_order"],
        [Rewritten(Membership, "shuts", "self.is_frozen() and", "False and")],
    ),
    Mutant(
        "cut_of_the_leader",
        "a cut is the highest of all reports",
        ["invariant", "at_rest", "agreement", "causal_order"],
        [Rewritten(Agreement, "_value", "[p.counts for p in promises]", "[promises[0].counts]")],
    ),
    Mutant(
        "accepted_without_copies",
        "who accepts a view has all copies that its cut counts",
        ["at_rest", "agreement", "causal_order"],
        [Rewritten(Agreement, "on_accept", "if wanted.is_empty():", "if True:")],
    ),
    Mutant(
        "proposed_without_copies",
        "who proposes a view has fetched all copies that somebody reported",
        ["at_rest", "agreement", "causal_order"],
        [Rewritten(Agreement, "_choose_value", "if not wanted.is_empty():", "if False:")],
    ),
    Mutant(
        "closed_by_some",
        "a removed node is closed when all members have reported",
        ["at_rest", "agreement", "causal_order"],
        [
            Rewritten(
                Agreement,
                "_value",
                "len(promises) == len(newest.members) and all(",
                "all(",
            )
        ],
    ),
]
