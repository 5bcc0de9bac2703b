"""A simulation of a point, always judged: no number comes from a run that nobody looked at."""

from dataclasses import dataclass
from typing import Any

from causalcast.pipeline.report.small_run import Event, SmallRun, small_run
from causalcast.pipeline.verify import verify
from causalcast.simulator.runner import SimulatedRun, simulate

ORDER = "causal_order"


@dataclass
class JudgedRun:
    """A run, its rows, and what every row of a result table says of it."""

    run: SimulatedRun
    rows: SmallRun
    facts: dict[str, Any]


def judged_run(text: str, level: str = "messages") -> JudgedRun:
    """Simulate a scenario, and judge it by what its protocol promises."""
    run = simulate(text, level)
    verdict = verify(run, promise="promised")
    violated = [result.name for result in verdict.results if result.status == "violated"]
    facts = {
        "verdict": verdict.verdict,
        "kept_its_promises": int(verdict.verdict == "ok"),
        "violated": ",".join(violated) or None,
        "causal": ORDER in run.header.guarantees,
        "publications": run.publications,
        "deliveries": verdict.counts.deliveries,
        "cpu_seconds": round(run.cpu_seconds, 3),
    }
    return JudgedRun(run, small_run(run), facts)


def after(rows: SmallRun, publications: int) -> SmallRun:
    """The rows about all but the first so many publications: what came while trees were learnt."""
    ordered = sorted(rows.of_kind["publish"], key=lambda event: event.at_us)
    left_out = {event.message for event in ordered[:publications]}
    kept = [event for event in rows.events if event.message not in left_out]
    return SmallRun(kept, rows.founders, rows.nodes)


def copies(rows: SmallRun) -> list[Event]:
    """What was sent with a payload in it."""
    return [event for event in rows.of_kind["send"] if (event.payload_bytes or 0) > 0]


def toml(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def options_of(values: dict[str, Any]) -> str:
    """The lines of `[options]`: what the point calls `options.NAME`."""
    prefix = "options."
    lines = [
        f"{key.removeprefix(prefix)} = {toml(value)}"
        for key, value in values.items()
        if key.startswith(prefix)
    ]
    return "\n".join(["[options]", *lines])
