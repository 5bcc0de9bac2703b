"""Reads the tables `network` and `disk` of a scenario."""

import random

from causalcast.errors import ConfigError
from causalcast.simulator.worlds.network import Bandwidth, Latency, NetworkPlan
from causalcast.toml_table import Table

MS = 1000  # microseconds


def read_network(table: Table, where: str, seed: int, detection_us: int) -> NetworkPlan:
    """The network and the disk that a scenario describes."""
    network = table.table("network")
    bandwidth = _bandwidth(network, where)
    tick_us = network.integer("tick_us", 1, least=1)
    if tick_us > 1 and bandwidth.limited:
        raise ConfigError(
            f"{where}: network.tick_us = {tick_us}: expected 1 where bandwidth is limited "
            "(a frame takes only tens of microseconds)"
        )
    disk = table.table("disk")
    plan = NetworkPlan(
        _latency(network, where, seed),
        bandwidth,
        _chance(network, "loss"),
        _chance(network, "duplication"),
        network.flag("fifo", True),
        tick_us,
        network.text("exchange", "wire", ["wire", "shared"]) == "shared",
        round(disk.number("sync_ms", 0.0, least=0) * MS),
        detection_us,
    )
    disk.finish()
    network.finish()
    return plan


def _latency(network: Table, where: str, seed: int) -> Latency:
    rng = random.Random(f"{seed}/latency")
    found = network.anything("latency_ms", 1.0)
    if isinstance(found, (int, float)) and not isinstance(found, bool) and found >= 0:
        return Latency("constant", found * MS, found * MS, rng)
    if not isinstance(found, dict):
        raise network.wrong(
            "latency_ms", found, 'a number or a table such as {kind="uniform", low=1, high=2}'
        )
    table = Table(where, found, "network.latency_ms")
    kind = table.text("kind", choices=["uniform", "exponential", "pareto", "per_link"])
    if kind == "per_link":
        return _latency_per_link(table, rng)
    if kind == "exponential":
        low = high = table.number("mean", least=0)
    else:
        low = table.number("low", least=0)
        high = table.number("high", least=low)
    if kind == "pareto" and low == 0:
        raise table.wrong("low", low, "a number above 0 for a heavy tail")
    table.finish()
    return Latency(kind, low * MS, high * MS, rng)


def _latency_per_link(table: Table, rng: random.Random) -> Latency:
    """Each pair of nodes has a latency of its own, and each message up to `jitter` more."""
    low = table.number("low", least=0)
    high = table.number("high", least=low)
    latency = Latency("uniform", 0, table.number("jitter", 1.0, least=0) * MS, rng)
    latency.per_link = (round(low * MS), round(high * MS))
    table.finish()
    return latency


def _bandwidth(network: Table, where: str) -> Bandwidth:
    nodes_per_host = network.integer("nodes_per_host", 0, least=0)
    host_mbps = network.number("host_bandwidth_mbps", 0, least=0)
    if (nodes_per_host > 0) != (host_mbps > 0):
        raise ConfigError(
            f"{where}: network.nodes_per_host and network.host_bandwidth_mbps: "
            "expected both or neither"
        )
    return Bandwidth(
        network.number("bandwidth_mbps", 0, least=0),
        network.text("bandwidth_sharing", "per_link", ["per_link", "shared"]),
        nodes_per_host,
        host_mbps,
    )


def _chance(network: Table, key: str) -> float:
    chance = network.number(key, 0.0)
    if not 0 <= chance < 1:
        raise network.wrong(key, chance, "a probability from 0 to below 1")
    return chance
