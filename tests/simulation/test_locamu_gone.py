"""Nodes that are declared gone, searched by the adversary: no disorder, nothing left, and nothing
lost but what those nodes had published."""

import pytest

from causalcast.errors import ConfigError
from causalcast.judge import Judgement, Violation
from causalcast.protocols.locamu import Locamu
from causalcast.simulator.runner import simulate
from causalcast.simulator.scenario import Scenario
from causalcast.swarm.campaign import Plan, run_campaign, try_seed
from causalcast.swarm.mutant import Mutant, Patch
from causalcast.swarm.trial import without_losses
from causalcast.testing import Cluster
from causalcast.trace.schema import GUARANTEES

GONE = ("note", "locamu.gone")
SEEDS = range(100)
FEW = 10  # publications that nobody could hand on any more
SCENARIO = """
protocol = "{protocol}"
until_ms = 400
[overlay]
kind = "line"
nodes = 4
[groups]
all = "*"
[[publish]]
node = [0, 3]
group = "all"
count = 20
[[fault]]
at_ms = 50
kind = "crash"
node = 1
[[fault]]
at_ms = 200
kind = "gone"
node = 1
by = 2
[calm]
recover_all = true
"""


def test_the_adversary_finds_nothing_but_losses() -> None:
    campaign = run_campaign(Plan("locamu", gives_up=True), SEEDS)
    assert campaign.failures == []
    assert campaign.fired["gone"] > 50
    assert campaign.fired["note.locamu.handed_on"] > 10
    assert campaign.fired["lost_with_a_node_that_is_gone"] < FEW


def give_up_at_once(self: Locamu, sender: object, told: object, out: object) -> None:
    self.on_gone(told.peer, out)  # type: ignore[attr-defined,arg-type]
    for node in self.departures.to_tell(told.peer):  # type: ignore[attr-defined]
        self.departures.heard[told.peer][node] = None  # type: ignore[attr-defined]
    self._give_up(told.peer, out)  # type: ignore[attr-defined,arg-type]


@pytest.mark.parametrize(
    ("name", "patch"),
    [
        ("nothing_handed_on", Patch(Locamu, "_hand_on", lambda *_: None)),
        ("given_up_at_once", Patch(Locamu, "_on_gone_told", give_up_at_once)),
        ("never_given_up", Patch(Locamu, "_give_up", lambda *_: None)),
    ],
)
def test_it_would_find_more(name: str, patch: Patch) -> None:
    """A planted bug either breaks a promise or loses more than the adversary saw lost before."""
    plan = Plan("locamu", gives_up=True)
    with Mutant(name, "", [], [patch]).planted():
        campaign = run_campaign(plan, SEEDS)
    lost = campaign.fired["lost_with_a_node_that_is_gone"]
    assert campaign.failures or lost >= FEW, (name, lost)


def test_a_scenario_can_declare_a_node_gone() -> None:
    run = simulate(Scenario(SCENARIO.format(protocol="locamu"), "scenario"), "full")
    assert run.header.faults["gone"] == 1
    rows = run.events.to_pylist()
    gone_at = [row["node"] for row in rows if (row["kind"], row["note"]) == GONE]
    assert sorted(gone_at) == [0, 2, 3]
    assert sum(row["kind"] == "deliver" and row["node"] == 3 for row in rows) == 40


def test_a_protocol_that_cannot_give_a_node_up_is_refused() -> None:
    text = SCENARIO.format(protocol="naive_causal")
    with pytest.raises(ConfigError, match="naive_causal cannot give a node up"):
        Scenario(text, "scenario")


def test_only_what_a_node_that_is_gone_published_may_be_missing() -> None:
    gone, other = 3 << 32 | 1, 2 << 32 | 1
    violations: dict[str, list[Violation]] = {name: [] for name in GUARANTEES}
    violations["agreement"] = [Violation("agreement", "missing", 0, m) for m in (gone, other)]
    violations["causal_order"] = [
        Violation("causal_order", "gap", 0, other, 1, gone),
        Violation("causal_order", "inversion", 0, other, 1, gone),
    ]
    left, lost = without_losses(Judgement(violations, frozenset({"agreement"})), [3])
    assert lost == 2 and left.pending == frozenset()
    assert [v.message for v in left.violations["agreement"]] == [other]
    assert [v.kind for v in left.violations["causal_order"]] == ["inversion"]


def test_the_same_seed_gives_up_the_same_nodes() -> None:
    plan = Plan("locamu", gives_up=True)
    first, second = try_seed(plan, 7), try_seed(plan, 7)
    assert first.text == second.text and first.fired == second.fired
    assert plan.repeat(7).endswith("--gone")


def test_a_cluster_of_the_test_kit_goes_on_without_a_node() -> None:
    cluster = Cluster(nodes=4, overlay="line", protocol="locamu")
    cluster.run_ms(100)
    cluster.crash(1)
    cluster.run_ms(1000)
    cluster.publish(0, b"past node 1")
    cluster.declare_gone(1, by=2)
    cluster.settle()
    assert cluster.delivered(3) == [b"past node 1"]
