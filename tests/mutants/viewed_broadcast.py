"""Planted bugs of `viewed_broadcast`: each was a wrong design first, or takes a mechanism away."""

from causalcast.core.ids import NodeId
from causalcast.core.message import Message
from causalcast.parts.vector_clock import VectorClock
from causalcast.protocols.viewed_broadcast import agreement, membership
from causalcast.protocols.viewed_broadcast.agreement import Agreement
from causalcast.protocols.viewed_broadcast.copies import Copies
from causalcast.protocols.viewed_broadcast.exchange import Exchange
from causalcast.protocols.viewed_broadcast.membership import Membership
from causalcast.protocols.viewed_broadcast.messages import View
from causalcast.protocols.viewed_broadcast.peers import Peers
from causalcast.protocols.viewed_broadcast.protocol import ViewedBroadcast
from causalcast.swarm.mutant import Mutant, Patch, Rewritten

_following = membership.following


def following_all_orders(
    view: View,
    counts: list[VectorClock],
    adds: dict[NodeId, None],
    removes: dict[NodeId, None],
    is_whole: bool,
) -> View:
    """Every order at once."""
    after = _following(view, counts, adds, removes, is_whole)
    for node in adds:
        if node not in after.members and node not in after.gone and node not in removes:
            after.members.append(node)
    for node in removes:
        if node in after.members and len(after.members) > 1:
            after.members.remove(node)
            after.gone.append(node)
    after.members.sort()
    return after


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


def never(*_: object) -> bool:
    return False


def half(self: View) -> int:
    return max(1, len(self.members) // 2)


def begin_at_nothing(self: Copies, cut: VectorClock) -> None:
    self.count_waiting()


def none_told(self: Peers, origin: NodeId, done: int, members: list[NodeId]) -> int:
    return done


def snapshot_without_promises(self: Membership) -> list[Message]:
    return [*self.views.values(), *self.voted.values()]


def snapshot_without_votes(self: Membership) -> list[Message]:
    return list(self.views.values())


PERSIST_VOTE = "        out.persist(vote)\n"
FROZEN = "        if membership.is_frozen():\n            return\n"

MUTANTS = [
    Mutant(
        "causes_not_sent",
        "a publication carries what its origin had delivered in this view",
        ["causal_order"],
        [Rewritten(ViewedBroadcast, "on_publish", "dict(sorted(needs.items()))", "{}")],
    ),
    Mutant(
        "causes_by_the_newest_cut",
        "what a stamp leaves out is in the cut of the view that is installed",
        ["causal_order"],
        [
            Rewritten(
                Membership,
                "cut",
                "self.views[self.installed].cut if self.installed else {}",
                "self.views[max(self.views)].cut if self.views else {}",
            )
        ],
    ),
    Mutant(
        "view_not_waited_for",
        "a publication waits for the view that it was published in",
        ["invariant", "causal_order"],
        [Rewritten(Copies, "obstacle", "copy.view > membership.installed", "False")],
    ),
    Mutant(
        "installed_before_the_cut",
        "a view is installed when all that its cut counts is delivered",
        ["invariant"],
        [Rewritten(Membership, "next_view", "if reached else", "if True else")],
    ),
    Mutant(
        "several_changes_at_once",
        "a view differs from the one before by one member",
        ["invariant", "at_rest", "no_exception"],
        [
            Patch(membership, "following", following_all_orders),
            Patch(agreement, "following", following_all_orders),
        ],
    ),
    Mutant(
        "forgets_while_agreeing",
        "nothing is forgotten between a promise and the view",
        ["at_rest", "agreement", "causal_order"],
        [Rewritten(ViewedBroadcast, "_forget", FROZEN, "")],
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
        [Rewritten(Agreement, "_choose_value", "if not attempt.wanted:", "if True:")],
    ),
    Mutant(
        "lower_ballots_followed",
        "who has promised follows no lower ballot",
        ["invariant", "at_rest", "causal_order", "agreement"],
        [Rewritten(Agreement, "_may_answer", "if promised > ballot:", "if False:")],
    ),
    Mutant(
        "accepted_value_ignored",
        "what somebody has accepted is proposed again",
        ["invariant", "at_rest", "causal_order", "agreement"],
        [Rewritten(Agreement, "_value", "if best.accepted:", "if False:")],
    ),
    Mutant(
        "votes_not_on_disk",
        "a vote is on disk before it is told",
        ["invariant", "at_rest", "causal_order", "agreement"],
        [Rewritten(Agreement, "_vote", PERSIST_VOTE.strip(), "pass")],
    ),
    Mutant(
        "half_is_enough",
        "a majority decides",
        ["invariant", "at_rest", "causal_order", "agreement"],
        [Patch(View, "majority", half)],
    ),
    Mutant(
        "the_removed_go_on",
        "who was removed ends at once, and does not try to reach the cut",
        ["at_rest", "agreement", "validity", "causal_order", "invariant"],
        [Patch(Membership, "is_expelled", never)],
    ),
    Mutant(
        "the_removed_say_nothing",
        "who was removed goes on telling others of the view",
        ["at_rest"],
        [
            Rewritten(Exchange, "behind", "unaware if membership.is_expelled()", "[] if False"),
            Rewritten(
                ViewedBroadcast,
                "_on_status",
                "if status.known < membership.known() or",
                "if membership.is_expelled():\n            return\n"
                "        if status.known < membership.known() or",
            ),
        ],
    ),
    Mutant(
        "the_dead_added_again",
        "an old order does not bring back who was removed",
        ["invariant", "at_rest", "no_exception"],
        [
            Patch(membership, "change_of", add_the_dead_again),
        ],
    ),
    Mutant(
        "copies_of_the_removed_taken",
        "between promise and view nothing of a removed node is delivered beyond the cut",
        ["at_rest", "agreement", "causal_order"],
        [Rewritten(Membership, "shuts", "self.is_frozen() and", "False and")],
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
    Mutant(
        "never_closed",
        "… and what is left of it beyond the cut is dropped",
        ["at_rest"],
        [Rewritten(Agreement, "reason", "return LEFT_OVER", 'return ""')],
    ),
    Mutant(
        "promises_left_unfinished",
        "a promise that nobody finished is a reason for a view",
        ["at_rest"],
        [Rewritten(Agreement, "reason", "return UNFINISHED", 'return ""')],
    ),
    Mutant(
        "newcomers_begin_at_nothing",
        "a newcomer begins at the cut of its first view",
        ["invariant", "at_rest"],
        [Patch(Copies, "begin_at", begin_at_nothing)],
    ),
    Mutant(
        "forgotten_when_delivered",
        "a copy is kept until all members have told that they delivered it",
        ["at_rest", "agreement", "causal_order"],
        [Patch(Peers, "all_told", none_told)],
    ),
    Mutant(
        "always_the_same_is_asked",
        "who lacks something asks one after the other: a newcomer has not what it counts",
        ["at_rest"],
        [Rewritten(Exchange, "_fetch_from_one", "self._turn % len(ahead)", "0")],
    ),
    Mutant(
        "copies_not_on_disk",
        "a copy is on disk before it is counted",
        ["at_rest", "agreement", "causal_order", "no_exception", "invariant"],
        [Rewritten(ViewedBroadcast, "_on_copy", "out.persist(copy)", "pass")],
    ),
    Mutant(
        "counts_not_on_disk",
        "what was delivered is on disk with the delivery",
        ["no_duplication", "at_rest", "invariant", "causal_order"],
        [Rewritten(ViewedBroadcast, "_record_done", "out.persist(Done(news))", "pass")],
    ),
    Mutant(
        "votes_not_in_snapshots",
        "a snapshot has votes and promises",
        ["invariant", "at_rest", "causal_order", "agreement"],
        [Patch(Membership, "snapshot", snapshot_without_votes)],
    ),
]
