"""One workload over the generations of causal multicast, measured: the table of the survey.

R. de Juan-Marín et al., "Scalability approaches for causal multicast: a survey", 2016, sums up four
generations in its Table 1: what history a message carries, whether nodes need a structure, and
whether deliveries block. Here the same words come from runs: what copies of publications weigh, on
how many of all ways between two nodes they travel, and how many of them had to wait.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from causalcast.errors import ConfigError
from causalcast.judge import judge
from causalcast.simulator.scenario_run import ScenarioRun
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.trace.kinds import GUARANTEES
from causalcast.trace.run_folder import Run


@dataclass(frozen=True)
class Approach:
    """A column of the survey's Table 1, in its own words."""

    name: str
    causal_history: str
    structure: str
    advantages: str
    drawbacks: str


FIRST = Approach("first generation", "precedent messages", "no", "non-blocking", "big messages")
CLOCKS = Approach("vector clocks", "vector clocks", "no", "–", "blocking, reconfiguration")
COMPACT = Approach(
    "compaction", "compact clocks", "no", "message size", "blocking, reconfiguration"
)
ZONES = Approach("interconnection", "any", "yes", "message size", "–")
TABLE_1 = (FIRST, CLOCKS, COMPACT, ZONES)
NOT_IN_TABLE_1 = "–"


@dataclass(frozen=True)
class Contestant:
    """A protocol, its options, and the approach of the survey it stands for."""

    protocol: str
    approach: str
    settings: Mapping[str, str] = field(default_factory=dict)
    label: str = ""

    def name(self) -> str:
        """What people read."""
        return self.label or self.protocol


# Everybody is linked with everybody; copies go straight to their destinations, as in the survey.
DIRECT = {"spread": "direct"}
CONTESTANTS = (
    Contestant("first_generation", FIRST.name, DIRECT),
    Contestant("psync", FIRST.name, DIRECT),
    Contestant("vector_clock_broadcast", CLOCKS.name, DIRECT),
    Contestant("cbcast", CLOCKS.name),
    Contestant("compaction_multicast", COMPACT.name, DIRECT),
    Contestant("compaction_pairwise", COMPACT.name, DIRECT),
    Contestant("causal_barriers", NOT_IN_TABLE_1),
    Contestant(
        "causal_separators",
        ZONES.name,
        {"servers": "1", "inside": "vector_clock_broadcast spread=direct"},
        "causal_separators (clocks)",
    ),
    Contestant(
        "causal_separators",
        ZONES.name,
        {"servers": "1", "inside": "first_generation spread=direct"},
        "causal_separators (packets)",
    ),
)


@dataclass
class Measured:
    """What a run showed of one contestant."""

    protocol: str
    label: str
    approach: str
    verdict: str  # ok, or what was violated, or why it does not fit
    publications: int = 0
    deliveries: int = 0
    carried: float = 0.0  # publications in a copy
    overhead_mean: float = 0.0  # bytes of a copy beside the body of its own publication
    overhead_max: int = 0
    ways: float = 0.0  # on which copies travel, as a share of those from publishers to all others
    held_share: float = 0.0
    hold_mean_ms: float = 0.0
    hold_max_ms: float = 0.0
    latency_mean_ms: float = 0.0

    def history(self) -> str:
        """What kind of history copies carried."""
        return "precedent messages" if self.carried > 1 else "names of messages"


def workload(nodes: int, count: int, payload: int, seed: int) -> str:
    """Everybody publishes now and then, two of them often; answers overtake what they answer."""
    return f"""
protocol = "vector_clock_broadcast"
until_ms = {count * nodes * 5 + 100}
seed = {seed}
[overlay]
kind = "full_mesh"
nodes = {nodes}
[network]
latency_ms = {{kind = "uniform", low = 1, high = 20}}
[[publish]]
at_ms = 100
node = "random"
count = {count * nodes}
interval_ms = 5
payload_bytes = {payload}
[[publish]]
at_ms = 100
node = [0, {nodes - 1}]
count = {count * nodes // 2}
interval_ms = 10
payload_bytes = {payload}
"""


def measure(contestant: Contestant, text: str, where: str, seed: int | None) -> Measured:
    """Run the workload with one protocol and look at its trace."""
    name, label, approach = contestant.protocol, contestant.name(), contestant.approach
    try:
        scenario = Scenario(text, where, name, dict(contestant.settings), seed)
        running = ScenarioRun(scenario, "messages")
    except ConfigError as error:
        return Measured(name, label, approach, f"does not fit: {error}")
    running.run()
    run = running.result()
    found = judge(run)
    broken = [name for name in GUARANTEES if found.violations[name] or name in found.pending]
    measured = Measured(name, label, approach, ", ".join(broken) or "ok")
    _measure_copies(measured, run)
    _measure_waiting(measured, run)
    return measured


def _measure_copies(measured: Measured, run: Run) -> None:
    rows = run.events.select(
        ["kind", "node", "peer", "message", "at_us", "payload_bytes", "metadata_bytes"]
    ).to_pylist()
    published = {row["message"]: row for row in rows if row["kind"] == "publish"}
    copies = [row for row in rows if row["kind"] == "send" and row["message"] is not None]
    delivered = [row for row in rows if row["kind"] == "deliver"]
    measured.publications = len(published)
    measured.deliveries = len(delivered)
    far = [
        row["at_us"] - published[row["message"]]["at_us"]
        for row in delivered
        if row["node"] != row["message"] >> 32
    ]
    measured.latency_mean_ms = _mean(far) / 1000
    bodies = [row["payload_bytes"] for row in published.values()]
    body = _mean(bodies)
    if body:
        measured.carried = _mean([row["payload_bytes"] for row in copies]) / body
    sizes = [row["metadata_bytes"] + row["payload_bytes"] - round(body) for row in copies]
    measured.overhead_mean = _mean(sizes)
    measured.overhead_max = max(sizes, default=0)
    publishers = len({message >> 32 for message in published})
    ways = {(row["node"], row["peer"]) for row in copies}
    measured.ways = len(ways) / max(1, publishers * (len(run.nodes) - 1))


def _measure_waiting(measured: Measured, run: Run) -> None:
    held: dict[tuple[int, int], int] = {}
    waits: dict[tuple[int, int], int] = {}
    for row in run.events.select(["kind", "node", "message", "at_us"]).to_pylist():
        key = (row["node"], row["message"])
        if row["kind"] == "hold":
            held.setdefault(key, row["at_us"])
        elif row["kind"] == "release" and key in held:
            waits[key] = row["at_us"] - held[key]
    measured.held_share = len(waits) / max(1, measured.deliveries)
    measured.hold_mean_ms = _mean(list(waits.values())) / 1000
    measured.hold_max_ms = max(waits.values(), default=0) / 1000


def _mean(values: list[Any]) -> float:
    return sum(values) / len(values) if values else 0.0
