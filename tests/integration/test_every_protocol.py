"""Every protocol of the registry over real sockets: one node is killed and comes back.

What keeps nothing cannot come back as the same node: there the others go on without it.
"""

import time
from pathlib import Path

import pytest
from loopback_nodes import PATIENCE

from causalcast.core.spec import ProtocolSpec
from causalcast.errors import NodeError
from causalcast.judge import judge
from causalcast.registry import find_protocol, protocol_names
from causalcast.runtime.operating.local_cluster import ClusterPlan, LocalCluster
from causalcast.trace.gather import gather
from causalcast.trace.schema import WEAKER_FORMS

VICTIM = 2
SAFETY = ("no_creation", "no_duplication", "fifo_order", "causal_order")


def plan_for(protocol: str) -> ClusterPlan:
    """Three nodes, in the graph that the protocol needs; two zones of two for zones."""
    spec = find_protocol(protocol)
    overlay = "line" if spec.needs.overlay == "tree" else "full_mesh"
    if spec.contains is not None:
        return ClusterPlan(4, protocol, {"zone_size": "2"}, overlay)
    return ClusterPlan(3, protocol, {}, overlay)


def publish_at(cluster: LocalCluster, nodes: list[int], words: str) -> None:
    for node in nodes:
        for number in range(3):
            cluster.ask(node, "publish", group="all", text=f"{words} {number} of {node}")


def wait_for(cluster: LocalCluster, nodes: list[int], count: int) -> None:
    """Until each of these nodes has delivered so many publications."""
    deadline = time.monotonic() + PATIENCE
    while True:
        delivered = [cluster.ask(n, "status")["delivered"].get("all", 0) for n in nodes]
        if delivered == [count] * len(nodes):
            return
        assert time.monotonic() < deadline, delivered
        time.sleep(0.02)


def wait_for_links(cluster: LocalCluster) -> None:
    """Until all links stand: not every protocol makes up for one that comes late."""
    count = len(cluster.ids)
    ends = 2 * (count - 1) if cluster.plan.overlay == "line" else count * (count - 1)
    deadline = time.monotonic() + PATIENCE
    while sum(len(cluster.ask(node, "status")["links"]) for node in cluster.ids) < ends:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.2)  # what some protocols agree on over a new link


def kill_one_and_bring_it_back(cluster: LocalCluster, spec: ProtocolSpec) -> None:
    """The story: everybody publishes, one is killed, the others go on, it comes back."""
    others = [node for node in cluster.ids if node != VICTIM]
    try:
        cluster.start_all()
        wait_for_links(cluster)
        publish_at(cluster, cluster.ids, "before")
        wait_for(cluster, cluster.ids, 3 * len(cluster.ids))
        cluster.kill(VICTIM)
        publish_at(cluster, others, "meanwhile")
        cluster.start(VICTIM)
        if spec.restart == "resume":
            cluster.wait_ready(VICTIM)
            publish_at(cluster, [VICTIM], "again")
            wait_for(cluster, cluster.ids, 3 * (2 * len(cluster.ids)))
        else:
            with pytest.raises(NodeError, match="under a new id"):
                cluster.wait_ready(VICTIM)
            wait_for(cluster, others, 3 * (len(cluster.ids) + len(others)))
    finally:
        stubborn = cluster.stop_all()
    assert stubborn == []


def promised(spec: ProtocolSpec) -> list[str]:
    """What must hold although one was killed."""
    names = [WEAKER_FORMS.get(name, name) for name in spec.guarantees]
    return names if spec.restart == "resume" else [name for name in names if name in SAFETY]


@pytest.mark.slow
@pytest.mark.parametrize("protocol", protocol_names())
def test_a_node_is_killed_and_the_promises_hold(protocol: str, tmp_path: Path) -> None:
    spec = find_protocol(protocol)
    kill_one_and_bring_it_back(LocalCluster(tmp_path / "nodes", plan_for(protocol)), spec)
    run = gather([tmp_path / "nodes"], tmp_path / "run")
    assert run.header.faults == {"crash": 1}
    found = judge(run)
    assert {n: found.violations[n] for n in promised(spec) if found.violations[n]} == {}
    assert not set(found.pending) & set(promised(spec))
