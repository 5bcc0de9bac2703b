"""A simulation of a point, always judged: no number comes from a run that nobody looked at."""

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from causalcast.pipeline.report.small_run import Event, SmallRun, small_run
from causalcast.pipeline.verify import verify
from causalcast.reproduce.families.columns import ColumnRun, column_run
from causalcast.simulator.runner import simulate
from causalcast.trace.run_folder import Run

ORDER = "causal_order"
AGREEMENT, PER_PART = "agreement", "agreement_per_part"


@dataclass
class JudgedRun:
    """The rows of a run, and what every row of a result table says of it."""

    rows: SmallRun
    facts: dict[str, Any]


def judged_run(text: str, level: str = "messages") -> JudgedRun:
    """Simulate a scenario, and judge it by what its protocol promises."""
    run = simulate(text, level)
    return JudgedRun(small_run(run), judged(run, run.cpu_seconds))


def judged_columns(text: str) -> tuple[ColumnRun, dict[str, Any]]:
    """The same for runs of millions of rows."""
    run = simulate(text, "messages")
    gc.collect()  # the nodes of a large run, which refer to one another
    facts = judged(run, run.cpu_seconds)
    return column_run(run), facts


def judged(run: Run, cpu_seconds: float) -> dict[str, Any]:
    """What a row says of a run that took so much time."""
    verdict = verify(run, promise="promised")
    violated = [result.name for result in verdict.results if result.status == "violated"]
    told = verdict_within_parts(verdict.verdict, violated, run.header.guarantees)
    return {
        "verdict": told,
        "kept_its_promises": int(told == "ok"),
        "violated": ",".join(violated) or None,
        "causal": ORDER in run.header.guarantees,
        "publications": verdict.counts.publications,
        "deliveries": verdict.counts.deliveries,
        "cpu_seconds": round(cpu_seconds, 3),
    }


def verdict_within_parts(verdict: str, violated: Sequence[str], promised: Sequence[str]) -> str:
    """The verdict, where agreement among all is not counted if it was promised per part only.

    Which links were safe does not stand in a trace, so `verify` judges it as agreement among all.
    What a crash left out is seen in the column `reliability`.
    """
    only_agreement = set(violated) == {AGREEMENT} and PER_PART in promised
    return "ok" if only_agreement else verdict


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
