"""Reads the table `world` of a scenario: what protocols may know of their world."""

from typing import Final

from causalcast.core.spec import ProtocolSpec
from causalcast.simulator.worlds.network import NetworkPlan
from causalcast.simulator.worlds.world_plan import NEVER, WorldPlan
from causalcast.toml_table import Table

MS: Final = 1000  # microseconds
BANDWIDTH: Final = "bandwidth"
SOMETIMES: Final = 0.5  # with steps any chance means the same
NEEDS_RECORDS: Final = ("recover", "compact")  # faults after which a node reads what it kept


def read_world(table: Table, network: NetworkPlan, is_directed: bool) -> WorldPlan:
    """The facts, after a look whether the network and the disk are so."""
    world = table.table("world")
    links_lose_nothing = world.flag("links_lose_nothing", False)
    if links_lose_nothing and (network.loss or network.duplication or not network.fifo):
        raise world.wrong(
            "links_lose_nothing",
            True,
            "false, or a network with fifo = true and without loss and duplication",
        )
    keeps_records = world.flag("keeps_records", True)
    if not keeps_records and network.sync_us:
        raise world.wrong("keeps_records", False, "true, or disk.sync_ms = 0")
    congestion = world.anything("congestion", NEVER)
    tells_bandwidth = congestion == BANDWIDTH
    if tells_bandwidth:
        if is_directed or not network.bandwidth.limited:
            raise world.wrong("congestion", congestion, "a chance where bandwidth is unlimited")
        congestion = NEVER
    if type(congestion) not in (int, float) or not 0 <= congestion < 1:
        raise world.wrong("congestion", congestion, f'a chance from 0 to below 1, or "{BANDWIDTH}"')
    read_us = round(world.number("read_every_ms", 0.0, least=0) * MS)
    world.finish()
    return WorldPlan(links_lose_nothing, keeps_records, congestion, tells_bandwidth, read_us)


def world_of_steps(plan: WorldPlan) -> dict[str, bool | float]:
    """The table of a scenario with steps in which the same is told."""
    return {
        "links_lose_nothing": plan.links_lose_nothing,
        "keeps_records": plan.keeps_records,
        "congestion": max(plan.congestion, SOMETIMES if plan.tells_bandwidth else NEVER),
        "read_every_ms": plan.read_us / MS,
    }


def may_come_back(spec: ProtocolSpec, world: WorldPlan) -> bool:
    """Whether nodes that crashed come back: who resumes needs what it had persisted."""
    return world.keeps_records or spec.restart == "reborn"
