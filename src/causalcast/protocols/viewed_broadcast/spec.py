"""How the broadcast among agreed members is built, what it promises, and its options."""

from causalcast.core.automaton import Multicast
from causalcast.core.command import NODE, CommandForm
from causalcast.core.duration import MILLISECOND
from causalcast.core.ids import NodeId
from causalcast.core.spec import (
    CAUSAL_WHEN_ALL_ARE_BACK,
    Needs,
    Option,
    ProtocolSpec,
    Setup,
)
from causalcast.protocols.viewed_broadcast.messages import MESSAGES
from causalcast.protocols.viewed_broadcast.protocol import ViewedBroadcast


def build(setup: Setup) -> ViewedBroadcast:
    return ViewedBroadcast(setup)


def tolerates(down: list[NodeId], setup: object) -> bool:
    """Any number may be away; they catch up when they are back."""
    return True


def _node(multicast: Multicast) -> ViewedBroadcast:
    assert isinstance(multicast, ViewedBroadcast)
    return multicast


def views_follow_one_another(multicast: Multicast) -> bool:
    """Of two neighbouring views, one has at most one member more, and cuts only grow."""
    views = _node(multicast).membership.views
    for number, view in views.items():
        after = views.get(number + 1)
        if after is None:
            continue
        changed = set(view.members) ^ set(after.members)
        if len(changed) > 1 or any(after.cut.get(n, 0) < c for n, c in view.cut.items()):
            return False
    return True


def one_view_per_number(multicast: Multicast) -> bool:
    """All who say anything of a view say the same."""
    return not _node(multicast).membership.is_contradicted


def installed_is_reached(multicast: Multicast) -> bool:
    """All that the cut of the installed view counts is delivered."""
    node = _node(multicast)
    done = node.copies.done
    return all(done.get(origin, 0) >= count for origin, count in node.membership.cut().items())


def delivered_in_its_view(multicast: Multicast) -> bool:
    """No copy that is delivered and still here was published in a later view."""
    node = _node(multicast)
    installed = node.membership.installed
    return all(
        copy.view <= installed or copy.number() > node.copies.done.get(copy.origin(), 0)
        for copy in node.copies.all()
    )


def nothing_is_kept(multicast: Multicast) -> bool:
    return not _node(multicast).copies.log


def newest_is_installed(multicast: Multicast) -> bool:
    """Nobody is left behind, and nothing is half agreed on."""
    membership = _node(multicast).membership
    newest = membership.newest()
    if membership.is_expelled():
        return True
    return (
        newest is not None
        and membership.installed == newest.number
        and not membership.is_frozen()
        and membership.wish() is None
    )


SPEC = ProtocolSpec(
    name="viewed_broadcast",
    summary="One vector clock for everybody, among members that agree on who is one.",
    build=build,
    messages=MESSAGES,
    guarantees=CAUSAL_WHEN_ALL_ARE_BACK,
    options=[
        Option(
            "founders",
            0,
            "how many nodes of the graph are members from the beginning, those of the lowest ids; "
            "0 for all",
            least=0,
            change_if="a simulation has nodes that come later",
        ),
        Option(
            "acknowledge_after",
            10 * MILLISECOND,
            # Many deliveries share one message, and copies are forgotten long before a repetition.
            "collect what was delivered for this long before others are told",
            unit="ms",
            change_if="copies must be forgotten sooner, for more small packets",
        ),
        Option(
            "repeat_after",
            250 * MILLISECOND,
            # Well above a round trip across a continent, so that questions mean loss.
            "ask who lacks what if nothing new is heard for this long",
            unit="ms",
            change_if="a round trip takes longer than a quarter of a second",
        ),
        Option(
            "change_after",
            100 * MILLISECOND,
            # Several orders share one wait; far below what an operator notices.
            "wait this long before a view is agreed on, and for those that do not answer",
            unit="ms",
            change_if="a round trip takes longer than a tenth of a second",
        ),
    ],
    needs=Needs(overlay="mesh"),
    restart="resume",
    tolerates=tolerates,
    invariants=[
        views_follow_one_another,
        one_view_per_number,
        installed_is_reached,
        delivered_in_its_view,
    ],
    at_rest=[nothing_is_kept, newest_is_installed],
    events={
        "viewed_broadcast.decided": "the members agreed on a new view under this node's lead",
        "viewed_broadcast.installed": "this node installed a view",
        "viewed_broadcast.let_in": "this node became a member",
        "viewed_broadcast.expelled": "the members agreed on a view without this node",
        "viewed_broadcast.two_views": "two views of one number were told: a member lies, or a disk "
        "that went back in time has voted; stop the cluster and look",
        "viewed_broadcast.not_accepted": "so many of this node's last publications are in no view "
        "that it knows: members may not have them",
    },
    rare=["viewed_broadcast.decided", "viewed_broadcast.expelled", "viewed_broadcast.let_in"],
    cost="one entry per origin that published since the last change of members, of 1 to 10 bytes",
    offers=["explain", "stability", "new_groups", "states"],
    closes_groups=True,
    agrees_on_members=True,
    commands=[
        CommandForm(
            "gone", [NODE], "the node never comes back: agree on a view without it", gives_up=True
        ),
        CommandForm("add", [NODE], "let a node that runs, and is linked, be a member"),
        CommandForm(
            "replace",
            [NODE, NODE],
            "the second node becomes a member, and then the first one is removed",
            gives_up=True,
        ),
    ],
)
