"""Nodes are killed and restarted at random while everybody publishes; the judge finds no fault."""

import random
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from causalcast.cli.run.demo import GROUPS, Story
from causalcast.judge import judge
from causalcast.runtime.operating.local_cluster import ClusterPlan, LocalCluster
from causalcast.trace.gather import gather

KILLS = 12
LIMITS = "[limits]\ncompact_bytes = 20000\ninbox_bytes = 2000\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "overlay"), [("vector_clock_broadcast", "ring"), ("locamu", "line")]
)
def test_many_crashes_break_no_promise(tmp_path: Path, protocol: str, overlay: str) -> None:
    """With limits so small that journals are compacted all the time; `test_chaos` has the usual."""
    program = (sys.executable, "-m", "causalcast.cli.run.demo_node")
    plan = ClusterPlan(protocol=protocol, overlay=overlay, groups=GROUPS, command=program)
    cluster = LocalCluster(tmp_path / "nodes", plan)
    for node in cluster.ids:
        with cluster.config_of(node).open("a") as config:
            config.write(LIMITS)
    story = Story(cluster, Console(quiet=True))
    dice = random.Random()  # the schedule of processes is never the same anyway
    try:
        story.begin()
        for _ in range(KILLS):
            time.sleep(dice.uniform(0.05, 0.3))
            down = [node for node in cluster.ids if not cluster.is_running(node)]
            if len(down) == 2:
                cluster.start(dice.choice(down))
            up = [node for node in cluster.ids if cluster.is_running(node)]
            cluster.kill(dice.choice(up))
        for node in cluster.ids:
            if not cluster.is_running(node):
                cluster.start(node)
        cluster.wait_ready()
        time.sleep(0.5)
        story.end()
    finally:
        stubborn = cluster.stop_all()
    assert stubborn == []
    for node in cluster.ids:
        assert "CRITICAL" not in (cluster.folder_of(node) / "node.log").read_text()
    run = gather([tmp_path / "nodes"], tmp_path / "run")
    assert run.events.num_rows > 500
    found = judge(run)
    assert {name: rows for name, rows in found.violations.items() if rows} == {}
