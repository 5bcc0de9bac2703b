"""The cluster for users' tests: it says what went wrong, also where Python leaves asserts out."""

import subprocess
import sys

import pytest

from causalcast.errors import ConfigError
from causalcast.testing import Cluster

WITHOUT_ASSERTS = """
from causalcast.testing import Cluster
from causalcast.errors import NodeError
from causalcast.testing.conformance import Conformance

def refused(call, *arguments):
    try:
        call(*arguments)
    except (AssertionError, NodeError):
        return True
    return False

cluster = Cluster(nodes=2)
cluster.publish(0, b"question")
cluster.settle()
print(cluster.delivered(1))

cluster.crash(1)
print(refused(cluster.publish, 1, b"nobody is there"))

zones = Cluster(nodes=4, protocol="causal_separators", options={"zones": "0-1; 2-3"})
zones.command(2, "part 0 1")
print(zones.world.fired.get("order"), refused(zones.command, 2, "nonsense"))

tree = Cluster(nodes=3, protocol="locamu", overlay="line")
print(refused(tree.command, 1, "gone 2"))

flood = Cluster(nodes=3, protocol="naive_flood", overlay="ring", latency_ms=(1, 60), seed=3)
flood.protocol.guarantees.append("fifo_order")
for number in range(50):
    flood.publish(0, b"%d" % number)
    flood.run_ms(1)
flood.settle()
print(refused(flood.check))

spec = Conformance("naive_flood")
spec.spec.summary = ""
print(refused(spec.check_spec))

from causalcast.simulator.scenario_run import ScenarioRun
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.trial import try_run

text = 'protocol = "naive_flood"\\nuntil_ms = 100\\n[overlay]\\nkind = "full_mesh"\\nnodes = 5\\n'
storm = ScenarioRun(Scenario(text + "[[publish]]\\nnode = 0\\ncount = 5\\n", "storm"), "deliveries")

def let_it_happen():
    storm.simulation.shared.most_messages = 3
    storm.run()

print(try_run(storm, let_it_happen).problems[0].detail)
"""


def test_it_does_and_refuses_the_same_without_asserts() -> None:
    done = subprocess.run(
        [sys.executable, "-O", "-c", WITHOUT_ASSERTS], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == [
        "[b'question']",
        "True",
        "1 True",
        "True",
        "True",
        "True",
        "AssertionError: a storm",
    ], done.stderr


def link_of(cluster: Cluster, node: int, peer: int) -> int:
    return cluster.world.nodes[node].channels[peer].link  # type: ignore[index]


@pytest.mark.parametrize("protocol", ["naive_flood", "cptcast"])
def test_where_links_must_be_reliable_a_cut_is_loud(protocol: str) -> None:
    cluster = Cluster(nodes=3, protocol=protocol, fifo=True)
    before = link_of(cluster, 0, 1), link_of(cluster, 0, 2)
    cluster.cut(0, 1)
    cluster.partition([0, 1], [2])
    cluster.run_ms(60)
    assert not {1, 2} & set(cluster.world.nodes[0].channels)
    cluster.settle()
    assert (link_of(cluster, 0, 1), link_of(cluster, 0, 2)) != before
    cluster.check()


def test_a_silent_cut_is_refused_where_links_must_be_reliable() -> None:
    cluster = Cluster(nodes=3, protocol="cptcast", fifo=True)
    with pytest.raises(ConfigError, match="cptcast needs reliable links"):
        cluster.cut(0, 1, loud=False)
    with pytest.raises(ConfigError, match="cptcast needs reliable links"):
        cluster.partition([0], [1, 2], loud=False)


def test_other_protocols_survive_what_nobody_is_told_of() -> None:
    cluster = Cluster(nodes=3)
    before = link_of(cluster, 0, 1)
    cluster.cut(0, 1)
    cluster.publish(0, b"through node 2")
    cluster.settle()
    assert link_of(cluster, 0, 1) == before
    cluster.check()
