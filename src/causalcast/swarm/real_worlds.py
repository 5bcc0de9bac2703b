"""Draws what protocols are told of their world, so that no branch runs at real nodes alone.

Some seeds know nothing, as in a world of datagrams; some know what a real node does: links lose
nothing, publications come as runs, somebody is congested at times. The others are any combination.
All is drawn by a generator of its own: the rest of a seed is the same whatever its world knows,
except for what a fact rules out.
"""

import random
from typing import Any, Final

from causalcast.core.message import Single
from causalcast.core.spec import ProtocolSpec

PLAIN: Final = "plain"  # nothing is known, as in a world of datagrams
DRAWN: Final = "drawn"
FACTS: Final = (DRAWN, PLAIN)

Tables = list[tuple[str, dict[str, Any]]]

NOTHING_KNOWN: Final = 0.3  # of all seeds
LIKE_A_NODE: Final = 0.3
PATIENCE: Final = 2000  # reads that one may have to wait for
OF_RETURN: Final = ("recover", "compact")
OF_CRASHES: Final = ("crash", "hang", *OF_RETURN)


# Their messages that could continue one another are records; on links other ones travel.
KEEP_RUNS_TO_THEMSELVES: Final = ("compaction_pairwise",)


def expected_facts(spec: ProtocolSpec, may_forget: bool = True) -> list[str]:
    """What a campaign of many seeds must have seen."""
    kinds = ["world.links_lose_nothing", "world.congestion", "world.reads"]
    if may_forget:
        kinds += ["world.no_records"]
    travels = spec.name not in KEEP_RUNS_TO_THEMSELVES
    if travels and any(issubclass(message, Single) for message in spec.messages):
        kinds += ["run"]
    return kinds


def drawn_facts(spec: ProtocolSpec, seed: int, may_forget: bool = True) -> dict[str, Any]:
    """The table `world` of a seed; empty where nothing is known."""
    rng = random.Random(f"facts/{spec.name}/{seed}")
    kind = rng.random()
    if kind < NOTHING_KNOWN:
        return {}
    congestion, read_every_ms = rng.choice([0.2, 0.5, 0.9]), rng.choice([1, 5, 20])
    if kind < NOTHING_KNOWN + LIKE_A_NODE:
        keeps_records = rng.random() < 0.7 or not may_forget
        known = [True, keeps_records, True, True]
    else:
        known = [rng.random() < 0.5 for _ in range(4)]
    loses_nothing, keeps_records, congested, reads = known
    return {
        "links_lose_nothing": loses_nothing,
        "keeps_records": keeps_records or not may_forget,
        "congestion": congestion if congested else 0,
        "read_every_ms": read_every_ms if reads else 0,
    }


def tell(tables: Tables, facts: dict[str, Any], spec: ProtocolSpec) -> Tables:
    """A scenario in whose world these facts hold."""
    if not facts:
        return tables
    known = [(name, dict(table)) for name, table in tables]
    if facts["links_lose_nothing"]:
        known = [_as_tcp(name, table) for name, table in known]
    if facts["read_every_ms"]:
        known = [_with_patience(name, table, facts["read_every_ms"]) for name, table in known]
    if not facts["keeps_records"]:
        known = _without_disk(known, spec)
    return [*known, ("world", facts)]


def _as_tcp(name: str, table: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    if name == "network":
        plain = {"fifo": True, "loss": 0.0, "duplication": 0.0}
        table = {**table, **{key: plain[key] for key in plain if key in table or key == "fifo"}}
    elif name == "[fault]" and "loud" in table:
        table["loud"] = True
    return name, table


def _with_patience(name: str, table: dict[str, Any], every_ms: int) -> tuple[str, dict[str, Any]]:
    """Who sends the next message when the last has arrived needs the longer the later it is read:
    a line of thirteen nodes, there and back."""
    if name == "calm" and "ms" in table:
        table["ms"] += PATIENCE * every_ms
    return name, table


def _without_disk(tables: Tables, spec: ProtocolSpec) -> Tables:
    """Nothing waits for a disk. Whoever would need what it kept does not come back, and falls only
    where it was to stay down in any case."""
    found: Tables = [
        (name, {**table, "sync_ms": 0} if name == "disk" else table) for name, table in tables
    ]
    if spec.restart == "reborn":
        return found
    stay_down = any(name == "calm" and not table.get("recover_all") for name, table in tables)
    returns = [table["node"] for _, table in tables if table.get("kind") == "recover"]

    def is_possible(table: dict[str, Any]) -> bool:
        kind = table.get("kind")
        if kind in OF_CRASHES and (not stay_down or table["node"] in returns):
            return False
        return kind not in OF_RETURN

    found = [(name, table) for name, table in found if name != "[fault]" or is_possible(table)]
    return [
        (name, {**table, "recover_all": False} if name == "calm" else table)
        for name, table in found
    ]
