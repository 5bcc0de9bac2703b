"""Planted bugs of `viewed_broadcast`: each was a wrong design first, or takes a mechanism away."""

from causalcast.core.ids import NodeId
from causalcast.parts.vector_clock import VectorClock
from causalcast.protocols.viewed_broadcast import agreement, membership
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


def never(*_: object) -> bool:
    return False


def half(self: View) -> int:
    return max(1, len(self.members) // 2)


def begin_at_nothing(self: Copies, cut: VectorClock) -> None:
    self.count_waiting()


def none_told(self: Peers, origin: NodeId, done: int, members: list[NodeId]) -> int:
    return done


FROZEN = "    if membership.is_frozen():\n        return\n"

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
        ["invariant", "causal_order"],
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
        ["at_rest", "agreement", "causal_order", "validity"],
        [Rewritten(ViewedBroadcast, "_forget", FROZEN, "")],
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
        ["at_rest", "validity"],
        [
            Rewritten(Exchange, "behind", "unaware if membership.is_expelled()", "[] if False"),
            Rewritten(
                ViewedBroadcast,
                "_on_status",
                "if status.known < membership.known() or",
                "if membership.is_expelled():\n        return\n"
                "    if status.known < membership.known() or",
            ),
        ],
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
        ["at_rest", "agreement", "causal_order", "validity"],
        [Patch(Peers, "all_told", none_told)],
    ),
    Mutant(
        "always_the_same_is_asked",
        "who lacks something asks one after the other: a newcomer has not what it counts",
        ["at_rest", "validity"],
        [Rewritten(Exchange, "_fetch_from_one", "self._turn % len(ahead)", "-1")],
    ),
    Mutant(
        "copies_not_on_disk",
        "a copy is on disk before it is counted",
        ["at_rest", "agreement", "causal_order", "no_exception", "invariant", "validity"],
        [Rewritten(ViewedBroadcast, "_on_copy", "out.persist(copy)", "pass")],
    ),
    Mutant(
        "counts_not_on_disk",
        "what was delivered is on disk with the delivery",
        ["no_duplication", "at_rest", "invariant", "causal_order"],
        [Rewritten(ViewedBroadcast, "_record_done", "out.persist(Done(news))", "pass")],
    ),
    Mutant(
        "everybody_founds",
        "who comes to a mesh that nobody listed asks to be let in, and founds nothing",
        ["invariant", "at_rest", "agreement", "no_exception"],
        [Rewritten(ViewedBroadcast, "__init__", "and not setup.newcomer", "")],
    ),
]
