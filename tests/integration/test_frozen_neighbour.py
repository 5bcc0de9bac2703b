"""A neighbour that stands still, links and all, costs what a killed one does."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from loopback_nodes import PATIENCE, disorder

from causalcast.errors import NodeError
from causalcast.runtime.operating.control_client import ControlClient
from causalcast.runtime.operating.local_cluster import ClusterPlan, LocalCluster
from causalcast.trace.gather import gather

FROZEN = 3
BODY = "." * 60_000
COUNT = 400  # 24 MB: more than the buffers between two nodes take


@pytest.fixture
def frozen(tmp_path: Path, protocol: str) -> Iterator[LocalCluster]:
    """A line of three nodes, of which the last stands still; node 2 is its neighbour."""
    plan = ClusterPlan(nodes=3, protocol=protocol, overlay="line", trace_level="deliveries")
    cluster = LocalCluster(tmp_path / "cluster", plan)
    cluster.start_all()
    wait_until(lambda: len(cluster.ask(2, "status")["links"]) == 2)
    cluster.pause(FROZEN)
    yield cluster
    for node in cluster.ids:
        if cluster.is_running(node):
            cluster.kill(node)


def wait_until(condition: object) -> None:
    deadline = time.monotonic() + 3 * PATIENCE
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.05)


def publish_all(cluster: LocalCluster) -> None:
    with ControlClient(cluster.folder_of(2), 2, timeout=PATIENCE) as client:
        for _ in range(COUNT):
            client.ask("publish", group="all", text=BODY)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["vector_clock_broadcast", "locamu"])
def test_publishers_go_on_and_nothing_is_lost(
    frozen: LocalCluster, tmp_path: Path, protocol: str
) -> None:
    """The link is cut when the detector has lost patience and publishers would wait, which status,
    metrics and events say; when the node goes on it gets what it lacks."""
    publish_all(frozen)
    wait_until(lambda: frozen.ask(2, "status")["suspected"] == [FROZEN])
    status = frozen.ask(2, "status")
    assert status["publishers_wait"] == []
    if protocol == "vector_clock_broadcast":  # LoCaMu may not send enough to fill the link
        assert status["links"] == [1] and status["trouble"]["cut_silent"] == 1
    assert "causalcast_suspected" in frozen.ask(2, "metrics")["text"]
    frozen.resume(FROZEN)
    wait_until(
        lambda: all(frozen.ask(n, "status")["delivered"] == {"all": COUNT} for n in frozen.ids)
    )
    wait_until(lambda: frozen.ask(2, "status")["suspected"] == [])
    assert frozen.stop_all() == []
    assert disorder(gather([frozen.folder], tmp_path / "run")) == []


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["naive_causal"])
def test_where_a_cut_would_lose_messages_it_is_only_told(frozen: LocalCluster) -> None:
    """The protocol relies on its links: the node waits for its neighbour, and says so."""
    wait_until(lambda: frozen.ask(2, "status")["suspected"] == [FROZEN])
    client = ControlClient(frozen.folder_of(2), 2, timeout=2.0)
    with client, pytest.raises(NodeError, match="did not answer"):
        for _ in range(COUNT):
            client.ask("publish", group="all", text=BODY)
    status = frozen.ask(2, "status")
    assert FROZEN in status["links"] and FROZEN in status["suspected"]
    assert status["publishers_wait"]
