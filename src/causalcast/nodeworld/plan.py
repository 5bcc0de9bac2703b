"""What is going to happen in a world, drawn from a seed before it begins."""

import random
from dataclasses import dataclass, field
from typing import Any, Final

from causalcast.nodeworld.drawn_limits import drawn_limits

UNTIL: Final = 6.0  # seconds in which things happen; then comes the calm

# How each protocol is run: overlay, and options that fit the number of nodes.
MESH: Final = 'kind = "full_mesh"'


@dataclass
class Event:
    """Something that happens to somebody."""

    at: float
    kind: str
    nodes: tuple[int, ...] = ()
    value: float = 0.0


@dataclass
class Plan:
    """A world, and everything that befalls it."""

    seed: int
    protocol: str
    nodes: int
    overlay: str
    options: str
    groups: str
    limits: dict[str, int]
    latency_ms: float
    largest_piece: int
    sync_ms: float
    level: str  # of the trace
    events: list[Event] = field(default_factory=list)
    drawn_limits: dict[str, float] = field(default_factory=dict)  # by name; those of the file, too


def draw(protocol: str, seed: int) -> Plan:
    """The plan of a seed."""
    chance = random.Random(f"nodes/{protocol}/{seed}")
    nodes = chance.randint(2, 4)
    overlay, options = _shape(protocol, nodes, chance)
    plan = Plan(
        seed=seed,
        protocol=protocol,
        nodes=nodes,
        overlay=overlay,
        options=options,
        groups=_groups(nodes, chance),
        limits=_limits(chance),
        latency_ms=chance.choice((0.1, 1.0, 20.0, 200.0)),
        largest_piece=chance.choice((40, 1500, 1 << 16, 1 << 16)),
        sync_ms=chance.choice((0.1, 2.0, 30.0)),
        level=chance.choice(("full", "deliveries", "none")),
    )
    for _ in range(chance.randint(0, 8)):
        plan.events += _some_event(nodes, chance)
    plan.events.sort(key=lambda event: event.at)
    plan.drawn_limits = drawn_limits(protocol, seed, plan.limits)
    return plan


def _shape(protocol: str, nodes: int, chance: random.Random) -> tuple[str, str]:
    if protocol in ("locamu", "delta_neighbourhood"):
        return f'kind = "{chance.choice(("line", "star"))}"', ""
    if protocol == "causal_separators":
        return 'kind = "line"', "zone_size = 2"
    return MESH, ""


def _groups(nodes: int, chance: random.Random) -> str:
    members = sorted(chance.sample(range(1, nodes + 1), chance.randint(1, nodes)))
    return f'all = "*"\nsome = {members}'


def _limits(chance: random.Random) -> dict[str, int]:
    """Often at their smallest."""
    drawn: dict[str, Any] = {
        "send_buffer_bytes": chance.choice((4096, 1 << 16, 8 << 20)),
        "held_bytes": chance.choice((1, 4096, 8 << 20)),
        "inbox_bytes": chance.choice((1, 4096, 8 << 20)),
        "compact_bytes": chance.choice((1, 20_000, 64 << 20)),
        "control_per_second": chance.choice((50, 1000)),
    }
    return drawn


def _some_event(nodes: int, chance: random.Random) -> list[Event]:
    at = chance.uniform(0.1, UNTIL)
    node = chance.randint(1, nodes)
    other = chance.choice([n for n in range(1, nodes + 1) if n != node])
    back = at + chance.choice((0.01, 0.5, 2.0))
    kind = chance.choice(("kill", "kill", "power", "stop", "cut", "silence", "full", "slow"))
    if kind in ("kill", "power", "stop"):
        return [Event(at, kind, (node,)), Event(back, "start", (node,))]
    if kind == "cut":
        return [Event(at, "cut", (node, other))]
    if kind == "silence":
        return [Event(at, "silence", (node, other)), Event(back, "heal")]
    if kind == "full":
        return [Event(at, "full", (node,)), Event(back, "room", (node,))]
    return [Event(at, "slow", (node, other), chance.choice((0.3, 2.0)))]
