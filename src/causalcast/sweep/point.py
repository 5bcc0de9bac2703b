"""One simulation of a sweep, wherever it runs: simulate, write the trace, judge it.

The outcome depends on the point alone, never on the task or the machine. Whatever goes wrong comes
back as a value: one bad point must not end the others.
"""

import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

from causalcast.errors import CausalcastError, TraceError
from causalcast.pipeline.verify import Verdict, verify
from causalcast.simulator.runner import simulate
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.sweep.grid import Point
from causalcast.trace.run_folder import read_header, write_run
from causalcast.trace.run_header import RunHeader

FAILED = "failed"
ATTEMPTS = 2


@dataclass
class Outcome:
    """What came of one point."""

    point: Point
    verdict: str
    """As `verify` says it, or `failed`."""
    violated: list[str] = field(default_factory=list)
    deliveries: int = 0
    error: str | None = None
    attempts: int = 0
    """0 if it was there already."""
    seconds: float = 0.0


def scenario_of(point: Point) -> Scenario:
    """The scenario of a point, checked."""
    return Scenario(point.text, point.where, point.protocol, point.settings, point.seed)


def is_done(point: Point, folder: Path) -> bool:
    """Whether the run is there; one that was made from another scenario is an error."""
    if not (folder / "run.json").exists():
        return False
    check_made_from(point, read_header(folder), str(folder))
    return True


def check_made_from(point: Point, header: RunHeader, where: str) -> None:
    """Refuse a run in the point's folder that was made from another scenario."""
    if (header.scenario, header.seed) != (point.text, point.seed):
        raise TraceError(f"{where}: made from another scenario; remove it, or choose another --out")


def run_point(point: Point, out: Path, level: str | None) -> Outcome:
    """Run a point that is not done, and judge it; try again once if anything fails."""
    started = time.perf_counter()
    folder = out / point.name
    error = ""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            if not is_done(point, folder):
                _make(point, folder, level)
            outcome = judged(point, folder)
            outcome.attempts = attempt
            outcome.seconds = round(time.perf_counter() - started, 3)
            return outcome
        except CausalcastError as failure:
            error = str(failure)
        except Exception as failure:
            error = f"{type(failure).__name__}: {failure}".splitlines()[0]
    return Outcome(point, FAILED, error=error, attempts=ATTEMPTS)


def _make(point: Point, folder: Path, level: str | None) -> None:
    run = simulate(scenario_of(point), level)
    if folder.exists():
        shutil.rmtree(folder)  # half of a run, from a task that was lost
    write_run(folder, run)


def judged(point: Point, folder: Path) -> Outcome:
    """The outcome of a run that is there."""
    return outcome_of(point, verify(folder))


def outcome_of(point: Point, verdict: Verdict) -> Outcome:
    """The outcome of a run that was judged."""
    violated = [result.name for result in verdict.results if result.status == "violated"]
    return Outcome(point, verdict.verdict, violated, verdict.counts.deliveries)
