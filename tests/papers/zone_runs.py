"""Small systems of zones in the simulator, for tests."""

from typing import Any

from causalcast.judge import judge
from causalcast.simulator.runner import simulate
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.generate import toml_text
from causalcast.trace.run_folder import Run

Rows = list[dict[str, Any]]


def mesh(*zones: range) -> list[list[int]]:
    """Every node of a zone linked with every other of it."""
    return [[a, b] for zone in zones for a in zone for b in zone if a < b]


TWO_ZONES = [*mesh(range(4), range(4, 8)), [3, 4]]


def run_of(
    edges: list[list[int]],
    options: dict[str, Any],
    publish: list[dict[str, Any]],
    faults: list[dict[str, Any]] | None = None,
    nodes: int = 8,
    groups: dict[str, Any] | None = None,
    recover_all: bool = True,
) -> Run:
    tables: list[tuple[str, dict[str, Any]]] = [
        ("options", options),
        ("overlay", {"kind": "edges", "nodes": nodes, "edges": edges}),
        ("network", {"latency_ms": 1.0}),
        ("groups", groups or {"all": "*"}),
        *[("[publish]", stream) for stream in publish],
        *[("[fault]", fault) for fault in faults or []],
        ("calm", {"ms": 20_000, "recover_all": recover_all}),
    ]
    text = toml_text({"protocol": "causal_separators", "until_ms": 1000, "seed": 1}, tables)
    return simulate(Scenario(text, "test"), "full")


def rows_of(run: Run, *kinds: str) -> Rows:
    found: Rows = [row for row in run.events.to_pylist() if row["kind"] in kinds]
    return found


def all_is_well(run: Run) -> None:
    found = judge(run)
    assert not any(found.violations.values()), found.violations
    assert not found.pending
