"""Real nodes in zones: one is joined, parted, and joined again while everybody publishes."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from loopback_nodes import PATIENCE

from causalcast.errors import NodeError
from causalcast.judge import judge
from causalcast.runtime.operating.local_cluster import ClusterPlan, LocalCluster
from causalcast.trace.gather import gather

FAR = (3, 4)


def plan() -> ClusterPlan:
    options = {"zones": "1-2; 3-4", "apart": "1"}
    groups = {"left": [1, 2], "right": [3, 4]}
    return ClusterPlan(4, "causal_separators", options, "full_mesh", groups=groups)


def wait_until(happened: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def wait_for_joint(cluster: LocalCluster, level: int) -> None:
    for node in cluster.ids:
        wait_until(
            lambda node=node: cluster.ask(node, "status")["conditions"]["joint_0_1"] == level,
            f"node {node} does not hear that the joint is at level {level}",
        )


def wait_for_text(cluster: LocalCluster, node: int, group: str, count: int) -> None:
    wait_until(
        lambda: cluster.ask(node, "status")["delivered"].get(group, 0) >= count,
        f"node {node} lacks what {group} was told",
    )


def say(cluster: LocalCluster, group: str, *nodes: int) -> None:
    for node in nodes:
        cluster.ask(node, "publish", group=group, text=f"from {node}")


def test_a_zone_of_real_nodes_comes_goes_and_comes(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path / "nodes", plan())
    try:
        cluster.start_all()
        say(cluster, "left", 1, 2)
        say(cluster, "right", 3, 4)
        with pytest.raises(NodeError, match="cannot publish to 'left' now: it has members in zone"):
            say(cluster, "left", 3)
        with pytest.raises(NodeError, match="cannot join 'left' now"):
            cluster.ask(3, "join_group", group="left")

        cluster.ask(4, "command", words="join 0 1")
        wait_for_joint(cluster, 1)
        say(cluster, "left", 3)
        wait_for_text(cluster, 1, "left", 3)
        assert cluster.ask(3, "join_group", group="left")["changed"]
        say(cluster, "left", 4)  # whoever hears this has heard that node 3 joined
        wait_for_text(cluster, 1, "left", 4)
        say(cluster, "left", 1)
        wait_for_text(cluster, 3, "left", 1)

        with pytest.raises(NodeError, match="say it to one of the nodes 3, 4"):
            cluster.ask(1, "command", words="part 0 1")
        cluster.kill(4)  # a server; it must be back before the zone can go
        cluster.ask(3, "command", words="part 0 1")
        say(cluster, "left", 1, 2)
        cluster.start(4)
        cluster.wait_ready(4)
        wait_for_joint(cluster, 2)
        with pytest.raises(NodeError, match="being parted"):
            cluster.ask(4, "join_group", group="left")
        cluster.ask(3, "leave_group", group="left")
        for node in FAR:
            cluster.ask(node, "leave_group", group="right")
        wait_for_joint(cluster, 3)
        say(cluster, "left", 1)

        cluster.kill(3)  # that it left its groups, and was parted, stands in its journal
        cluster.start(3)
        cluster.wait_ready(3)
        assert cluster.ask(3, "status")["groups"] == []
        cluster.ask(1, "command", words="join 0 1")
        wait_for_joint(cluster, 1)
        cluster.ask(4, "join_group", group="left")
        say(cluster, "left", 4, 3)
        for node, count in ((1, 10), (2, 10), (4, 2)):  # everything that was said while in it
            wait_for_text(cluster, node, "left", count)
        with pytest.raises(NodeError, match="causal_separators has no command 'dance'"):
            cluster.ask(1, "command", words="dance")
    finally:
        cluster.stop_all()
    run = gather([cluster.folder], tmp_path / "run")
    found = judge(run)
    assert not any(found.violations.values()), found.violations
    assert not found.pending


def test_a_longer_plan_goes_on_where_the_shorter_one_ended(tmp_path: Path) -> None:
    """A zone that nobody had in mind: all nodes restart with a plan that has it, then it joins."""
    options = {"zones": "1; 2"}
    short = ClusterPlan(2, "causal_separators", options, "full_mesh", groups={"all": [1, 2]})
    options = {"zones": "1; 2; 3", "joints": "0-1 1-2", "apart": "2"}
    long = ClusterPlan(3, "causal_separators", options, "full_mesh", groups={"all": [1, 2]})
    before = LocalCluster(tmp_path / "before", short)
    try:
        before.start_all()
        say(before, "all", 1, 2)
        for node in before.ids:
            wait_for_text(before, node, "all", 2)
    finally:
        before.stop_all()
    after = LocalCluster(tmp_path / "after", long)
    for node in before.ids:
        shutil.copytree(before.folder / f"node-{node}/data", after.folder / f"node-{node}/data")
    try:
        after.start_all()
        after.ask(3, "command", words="join 1 2")
        wait_until(
            lambda: after.ask(3, "status")["conditions"] == {"joint_0_1": 1, "joint_1_2": 1},
            "zone 2 was not joined",
        )
        after.ask(3, "join_group", group="all")
        say(after, "all", 3)
        wait_for_text(after, 1, "all", 1)  # this is counted anew in every life
        say(after, "all", 1)
        wait_for_text(after, 3, "all", 2)
        assert after.ask(1, "publish", group="all", text="third")["message"] == "1.3"
    finally:
        after.stop_all()
