"""Planted bugs that a search seldom finds; `test_traps` has a schedule for each."""

from causalcast.core.ids import NodeId
from causalcast.protocols.viewed_broadcast import membership
from causalcast.protocols.viewed_broadcast.agreement import Agreement
from causalcast.protocols.viewed_broadcast.copies import Copies
from causalcast.protocols.viewed_broadcast.membership import Membership
from causalcast.protocols.viewed_broadcast.messages import View
from causalcast.swarm.mutant import Mutant, Patch, Rewritten


def add_the_dead_again(
    view: View, adds: dict[NodeId, None], removes: dict[NodeId, None]
) -> tuple[NodeId, bool] | None:
    for node in sorted(adds):
        if node not in view.members:
            return node, True
    for node in sorted(removes):
        if node in view.members and len(view.members) > 1:
            return node, False
    return None


MUTANTS = [
    Mutant(
        "view_not_waited_for",
        "a publication waits for the view that it was published in",
        ["invariant", "causal_order"],
        [Rewritten(Copies, "obstacle", "copy.view > membership.installed", "False")],
    ),
    Mutant(
        "installed_before_the_cut",
        "a view is installed when all that its cut counts is delivered",
        ["invariant", "causal_order"],
        [Rewritten(Membership, "next_view", "if reached else", "if True else")],
    ),
    Mutant(
        "the_dead_added_again",
        "an old order does not bring back who was removed",
        ["invariant", "at_rest", "no_exception", "validity"],
        [
            Patch(membership, "change_of", add_the_dead_again),
            Rewritten(Membership, "drop_orders", "and node not in newest.gone and", "and"),
        ],
    ),
    Mutant(
        "never_closed",
        "… and what is left of it beyond the cut is dropped",
        ["at_rest", "validity"],
        [Rewritten(Agreement, "reason", "return LEFT_OVER", 'return ""')],
    ),
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
