"""How LoCaMu is built, what it needs and promises, and its options."""

from causalcast.core.command import NODE, CommandForm
from causalcast.core.duration import MILLISECOND
from causalcast.core.ids import NodeId
from causalcast.core.spec import (
    CAUSAL_WHEN_ALL_ARE_BACK,
    Needs,
    Option,
    OptionValue,
    ProtocolSpec,
    Setup,
)
from causalcast.parts.tree.neighbourhood import Neighbourhood
from causalcast.protocols.locamu import gap_consultation, messages
from causalcast.protocols.locamu.fault_budget import is_within_budget
from causalcast.protocols.locamu.invariants import (
    all_is_near,
    dependencies_are_frozen,
    kept_has_arrived,
    nobody_waits_to_be_admitted,
    nothing_is_left,
    numbers_count_on,
    sent_was_safe,
)
from causalcast.protocols.locamu.protocol import Locamu
from causalcast.protocols.locamu.safe_path import SafePath


def build(setup: Setup) -> Locamu:
    f = setup.number("f")
    around = Neighbourhood(setup.me, setup.topology.ball(2 * f + 1))
    return Locamu(setup, around, SafePath(around, f + 1, 2 * f + 1, f + 1))


def tolerates(down: list[NodeId], setup: Setup) -> bool:
    """Progress around nodes that are down: at most f of any 2f+1 in a row. Order and integrity hold
    beyond that too."""
    tree = setup.topology.ball(len(setup.topology.everybody()))
    return is_within_budget(dict.fromkeys(down), tree, setup.number("f"))


def reach(options: dict[str, OptionValue]) -> int:
    f = options["f"]
    assert isinstance(f, int)
    return f + 1


SPEC = ProtocolSpec(
    name="locamu",
    summary="Localized fault-tolerant causal multicast over a tree (Santos, Rodrigues 2019).",
    build=build,
    messages=[*messages.MESSAGES, *gap_consultation.MESSAGES],
    guarantees=CAUSAL_WHEN_ALL_ARE_BACK,
    options=[
        Option(
            "f",
            1,
            "how many of any 2f+1 nodes in a row may be down at once",
            least=1,
            change_if="more than one of any three nodes in a row may be down at once",
        ),
        Option(
            "headers",
            "compressed",
            "say on each link only what changed, or say everything in each header",
            choices=["compressed", "dense"],
            change_if="you measure what headers cost, or look at them in a trace",
        ),
        Option(
            "repeat_after",
            250 * MILLISECOND,
            # Well above a round trip across a continent, so that repetitions mean loss.
            "send a message again if its acknowledgement takes longer than this",
            unit="ms",
            change_if="a round trip takes longer than a quarter of a second",
        ),
        Option(
            "window",
            1000,
            # Bounds what is under way to a node that is slow or catching up.
            "messages under way to one node before further ones wait for acknowledgements",
            least=1,
            change_if="the way is long and fast, or a slow node takes too much memory",
        ),
        Option(
            "acknowledge_after",
            10 * MILLISECOND,
            # Many messages share one acknowledgement, and it still comes long before a repetition.
            "collect acknowledgements for this long",
            unit="ms",
            change_if="copies must be forgotten sooner, for more small packets",
        ),
    ],
    needs=Needs(overlay="tree", detector=True),
    restart="resume",
    tolerates=tolerates,
    invariants=[
        numbers_count_on,
        dependencies_are_frozen,
        kept_has_arrived,
        sent_was_safe,
        all_is_near,
    ],
    at_rest=[nothing_is_left, nobody_waits_to_be_admitted],
    events={
        "locamu.too_many_down": "more nodes near here are suspected than can be worked around",
        "locamu.within_budget": "no more nodes near here are suspected than can be worked around",
        "locamu.gone": "a node was declared gone for good",
        "locamu.given_up": "nothing that a node that is gone published is waited for any more",
        "locamu.expelled": "this node was declared gone for good",
        "locamu.gone_refused": "a node was declared gone elsewhere that is linked here, or beyond "
        "what can be passed",
        "locamu.never_admitted": "the node that admits to a group being joined was declared gone",
    },
    rare=["locamu.jump", "locamu.pulled", "locamu.unsafe", "locamu.too_many_down"],
    cost="numbers of 2f+1 nodes and dependencies within 2f+1 hops, whatever the number of nodes",
    offers=["explain", "new_groups"],
    commands=[
        CommandForm(
            "gone", [NODE], "the node never comes back: wait for nothing of it", gives_up=True
        )
    ],
    reach=reach,
    goes_on="around nodes that stay away, at most f of any 2f+1 in a row. With f = 1 what a node "
    "that is up published, delivered or passed on reaches every member that is up. With f of 2 or "
    "more what had not come to rest when they fell may wait for them, and what depends on it",
    except_when="a node is declared gone whose last message had gone past a neighbour that it "
    "wrongly suspected: an effect of that message may then come before it",
)
