"""Processes of nodes are killed and frozen while clients publish and read at their doors.

`benchmarks/door_chaos.py` is the same with a hundred blows and nine clients.
"""

import asyncio
import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest
from loopback_nodes import PATIENCE

from causalcast import connect
from causalcast.limits import limits_of, set_to
from causalcast.runtime.operating.local_cluster import ClusterPlan, LocalCluster

NEEDS_NODE = pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node here")

NEEDS_CHROMIUM = pytest.mark.skipif(
    shutil.which("chromium") is None or importlib.util.find_spec("playwright") is None,
    reason="there is no Chromium here, or no Playwright",
)


@pytest.fixture(scope="module")
def chaos() -> ModuleType:
    """The benchmark."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    return importlib.import_module("door_chaos")


@pytest.mark.parametrize("javascript", [0, pytest.param(1, marks=NEEDS_NODE)])
def test_nothing_is_lost_doubled_or_out_of_order_at_clients(
    tmp_path: Path, chaos: ModuleType, javascript: int
) -> None:
    python = 2 - javascript
    blows = ["kill", "cut", "freeze", "kill"]
    found = chaos.play(tmp_path / "chaos", 5 + javascript, python, javascript, blows, http=1)
    assert found["fine"], found["verdict"]
    assert found["published"] > 50
    assert found["handled"] == 3 * found["published"]
    assert found["connected_again"] > 0


@NEEDS_CHROMIUM
def test_pages_are_clients_as_well(tmp_path: Path, chaos: ModuleType) -> None:
    found = chaos.play(tmp_path / "chaos", 7, 1, 0, ["kill", "cut", "kill"], chromium=1)
    assert found["fine"], found["verdict"]
    assert found["published"] > 0 and found["handled"] == 2 * found["published"]


@pytest.mark.parametrize("kind", ["python", pytest.param("javascript", marks=NEEDS_NODE)])
def test_a_client_leaves_a_node_that_stands_still(
    tmp_path: Path, chaos: ModuleType, kind: str
) -> None:
    """Its connection stays open, and says nothing."""

    async def tell(cluster: LocalCluster, urls: list[str]) -> None:
        waiting: chaos.Client = (
            chaos.PythonClient("reader", chaos.random.Random(1))
            if kind == "python"
            else chaos.JavaScriptClient("reader")
        )
        await waiting.start(urls, tmp_path / "logs" / "reader.jsonl")
        try:
            while not waiting.far()["sure"]:
                await asyncio.sleep(0.05)
            waiting.stop_publishing()
            while waiting.far()["sure"] < waiting.far()["published"]:
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.3)  # until it has heard of that
            cluster.pause(1)
            async with connect(urls[1]) as other:
                for _ in range(3):
                    await other.group("acl").publish(b"while one node stands still")
            heard = waiting.far()["handled"]
            while waiting.far()["handled"] < heard + 3:
                assert not waiting.far()["failure"]
                await asyncio.sleep(0.1)
        finally:
            await waiting.close()

    async def in_time(cluster: LocalCluster, urls: list[str]) -> None:
        async with asyncio.timeout(2 * PATIENCE):
            await tell(cluster, urls)

    (tmp_path / "logs").mkdir()
    limits_of("clients")
    plan = ClusterPlan(2, overlay="line", tls=False, clients=True)
    plan.groups = {group: [1, 2] for group in chaos.GROUPS}
    cluster = LocalCluster(tmp_path / "cluster", plan)
    try:
        cluster.start_all()
        with set_to(chaos.LIMITS):
            asyncio.run(in_time(cluster, [cluster.door_of(node) for node in cluster.ids]))
    finally:
        cluster.kill(1)
        cluster.kill(2)
