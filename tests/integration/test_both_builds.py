"""Compiled and interpreted nodes are one system: they link, and take over each other's journals."""

import sys
import time
from pathlib import Path

import pytest
from loopback_nodes import PATIENCE, disorder

from causalcast.runtime.operating.local_cluster import ClusterPlan, LocalCluster
from causalcast.trace.gather import gather

NODE = (sys.executable, "-m", "causalcast", "node", "--until-stdin-closes")
BUILDS = ("interpreted", "compiled")


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["vector_clock_broadcast", "cbcast", "locamu", "psync"])
def test_a_mixed_cluster_whose_nodes_change_their_build(
    protocol: str, compiled: Path, tmp_path: Path
) -> None:
    """Two of one build and one of the other; then each starts again as the other one."""
    overlay = "line" if protocol == "locamu" else "full_mesh"
    cluster = LocalCluster(tmp_path / "cluster", ClusterPlan(3, protocol, overlay=overlay))
    try:
        for life in range(2):
            for node in cluster.ids:
                build = BUILDS[(node + life) % 2]
                command = NODE if build == "interpreted" else in_front(compiled, NODE)
                cluster.plan.command = command
                cluster.start(node)
                cluster.wait_ready(node)
                assert cluster.ask(node, "status")["build"] == build
            for number in range(5):
                for node in cluster.ids:
                    cluster.ask(node, "publish", group="all", text=f"{node} {number}")
            wait_until_delivered(cluster, 15 * (life + 1))
            assert cluster.stop_all() == []
    finally:
        for node in filter(cluster.is_running, cluster.ids):
            cluster.kill(node)
    run = gather([cluster.folder], tmp_path / "run")
    assert disorder(run) == []


def in_front(folder: Path, command: tuple[str, ...]) -> tuple[str, ...]:
    """The command with another package in front of all others."""
    return ("env", f"PYTHONPATH={folder}", *command)


def wait_until_delivered(cluster: LocalCluster, count: int) -> None:
    """Every node has delivered so many, counted over all its lives."""
    deadline = time.monotonic() + PATIENCE
    while True:
        told = [cluster.ask(node, "status")["delivered"].get("all", 0) for node in cluster.ids]
        if told == [count] * len(cluster.ids):
            return
        assert time.monotonic() < deadline, told
        time.sleep(0.05)
