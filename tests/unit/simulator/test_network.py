"""Latency and bandwidth do what the arithmetic says."""

import itertools
from typing import Any

import pytest

from causalcast.simulator.scenario_run import ScenarioRun
from causalcast.simulator.scenarios.scenario import Scenario

PAYLOAD = 1000


def deliveries(network: str) -> list[dict[str, Any]]:
    text = f"""
    protocol = "naive_flood"
    until_ms = 1000
    [overlay]
    kind = "star"
    nodes = 4
    [network]
    {network}
    [[publish]]
    at_ms = 0
    node = 0
    count = 1
    payload_bytes = {PAYLOAD}
    """
    running = ScenarioRun(Scenario(text, "test"), "messages")
    running.run()
    rows = running.result().events.to_pylist()
    sizes = {r["payload_bytes"] + r["metadata_bytes"] for r in rows if r["kind"] == "send"}
    assert len(sizes) == 1
    return [dict(r, size=sizes.pop() if sizes else 0) for r in rows if r["kind"] == "deliver"]


def arrivals(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(row["at_us"] for row in rows if row["node"] != 0)


def test_latency_alone() -> None:
    assert arrivals(deliveries("latency_ms = 2.5")) == [2500, 2500, 2500]


def test_each_link_has_its_share_of_the_bandwidth() -> None:
    """Three links share 24 Mb/s evenly: 8 bits per microsecond each, all at the same time."""
    rows = deliveries('latency_ms = 1\nbandwidth_mbps = 24\nbandwidth_sharing = "per_link"')
    size = rows[0]["size"]
    assert arrivals(rows) == [1000 + size] * 3


def test_a_shared_card_sends_one_after_the_other() -> None:
    """One card of 8 Mb/s: a byte per microsecond, copies queue."""
    rows = deliveries('latency_ms = 1\nbandwidth_mbps = 8\nbandwidth_sharing = "shared"')
    size = rows[0]["size"]
    assert arrivals(rows) == [1000 + size, 1000 + 2 * size, 1000 + 3 * size]


def test_nodes_of_one_host_share_its_card_towards_other_hosts() -> None:
    """Nodes 0 and 1 live on one host: what stays there does not pass the card."""
    rows = deliveries("latency_ms = 1\nnodes_per_host = 2\nhost_bandwidth_mbps = 8")
    size = rows[0]["size"]
    assert arrivals(rows) == [1000, 1000 + size, 1000 + 2 * size]


@pytest.mark.parametrize("fifo", [True, False])
def test_links_keep_their_order_or_not(fifo: bool) -> None:
    text = f"""
    protocol = "naive_flood"
    until_ms = 1000
    [overlay]
    kind = "line"
    nodes = 2
    [network]
    latency_ms = {{kind = "exponential", mean = 20}}
    fifo = {str(fifo).lower()}
    [[publish]]
    node = 0
    count = 200
    interval_ms = 1
    """
    running = ScenarioRun(Scenario(text, "test"), "deliveries")
    running.run()
    rows = running.result().events.to_pylist()
    received = [r["message"] for r in rows if r["kind"] == "deliver" and r["node"] == 1]
    assert len(received) == 200
    assert (received == sorted(received)) is fifo


def test_a_sender_at_full_speed_sends_the_next_when_its_queue_is_empty() -> None:
    """8 Mb/s on one link: a byte per microsecond, so messages leave one frame apart."""
    text = f"""
    protocol = "naive_flood"
    until_ms = 100
    [overlay]
    kind = "line"
    nodes = 2
    [network]
    latency_ms = 1
    bandwidth_mbps = 8
    [[publish]]
    node = 0
    count = 1000000
    interval_ms = 0
    payload_bytes = {PAYLOAD}
    """
    running = ScenarioRun(Scenario(text, "test"), "messages")
    running.run()
    rows = running.result().events.to_pylist()
    at = [r["at_us"] for r in rows if r["kind"] == "deliver" and r["node"] == 1]
    size = next(r["payload_bytes"] + r["metadata_bytes"] for r in rows if r["kind"] == "send")
    gaps = {later - earlier for earlier, later in itertools.pairwise(at)}
    assert gaps <= {size, size + 1, size + 2} and len(at) >= 100_000 // (size + 2) - 1
