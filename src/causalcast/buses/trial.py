"""One bus in one set-up under one condition: start, let it work, record, judge, measure."""

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any

import pyarrow.compute as pc

from causalcast.buses.conditions import Condition
from causalcast.buses.system import System, Task
from causalcast.errors import NodeError
from causalcast.pipeline.verify import verify
from causalcast.trace.foreign_log import import_records, records_of
from causalcast.trace.log_files import LogFiles, files_at
from causalcast.trace.run_folder import write_run

PROCESSES = 3
ANSWERS = 0.15
SETTLE_SECONDS = 1.0  # so that everybody knows of every subscription
ENDS_WITHIN = 60.0
NO_SERVER = "no server"  # that could be restarted


@dataclass
class Outcome:
    """What one trial showed."""

    system: str
    setup: str
    condition: str
    deliveries: int = 0
    fifo: int = 0
    causal: int = 0
    reply: int = 0
    """Of the causal ones, those against declared causes: an answer before what it answers."""
    missing: int = 0
    """Deliveries that were owed and never came."""
    duplicates: int = 0
    deliveries_per_second: float = 0.0
    latency_p50_ms: float = 0.0
    latency_p99_ms: float = 0.0
    skipped: str = ""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def folder_name(system: str, setup: str, condition: str) -> str:
    """Where a trial's log and run lie, among those of others."""
    return "-".join((system, setup, condition)).lower().replace(" ", "-").replace(",", "")


def run_trial(
    system: System, setup: str, condition: Condition, folder: Path, seconds: float, seed: int
) -> Outcome:
    """Everything from the servers to the figures; the run stays in the folder."""
    outcome = Outcome(system.name, setup, condition.name)
    folder.mkdir(parents=True)
    servers = system.servers(folder, setup, PROCESSES, condition.slow_route)
    try:
        reach = servers.start()
        processes = [
            _start(_task(system, setup, condition, folder, seconds, seed, me, reach[me]), folder)
            for me in range(PROCESSES)
        ]
        try:
            _work(processes, servers.restart if condition.restarts else None, seconds, outcome)
        finally:
            for process in processes:
                process.kill()
                process.wait()
    finally:
        servers.stop()
    if not outcome.skipped:
        measure(folder, outcome)
    return outcome


def _task(
    system: System, setup: str, condition: Condition, folder: Path, seconds: float, seed: int,
    me: int, reach: dict[str, Any],
) -> Task:  # fmt: skip
    return Task(
        system.name, setup, me, PROCESSES, str(folder / "logs" / f"p{me}.jsonl"), condition.rate,
        seconds, ANSWERS, condition.slow_subscriber_ms if me == PROCESSES - 1 else 0.0, seed, reach,
    )  # fmt: skip


def _start(task: Task, folder: Path) -> "subprocess.Popen[str]":
    path = folder / f"task-{task.me}.json"
    path.write_text(json.dumps(task.to_dict()))
    with (folder / f"process-{task.me}.log").open("w") as said:
        return subprocess.Popen(
            [sys.executable, "-m", "causalcast.buses.client_process", str(path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True,
        )  # fmt: skip


def _work(processes: list[Any], restart: Any, seconds: float, outcome: Outcome) -> None:
    for me, process in enumerate(processes):
        if process.stdout.readline().strip() != "ready":
            raise NodeError(f"{outcome.system}, {outcome.setup}: process {me} did not connect")
    time.sleep(SETTLE_SECONDS)
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    if restart is not None:
        time.sleep(seconds / 2)
        if not restart():
            outcome.skipped = NO_SERVER
            return
    for me, process in enumerate(processes):
        try:
            process.wait(seconds + ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            what = f"process {me} did not end within {ENDS_WITHIN:.0f} s"
            raise NodeError(f"{outcome.system}, {outcome.setup}: {what}") from None


def measure(folder: Path, outcome: Outcome) -> None:
    """Judge what was recorded, and take the figures from it.

    As a partial log: what a bus loses is counted apart, and is no question of order.
    """
    files = LogFiles(files_at(folder / "logs"))
    run = import_records(records_of(files), folder.name, whole=False)
    write_run(folder / "run", run)
    verdict = verify(folder / "run")
    found = {result.name: result.violations for result in verdict.results}
    outcome.deliveries = verdict.counts.deliveries
    outcome.fifo, outcome.causal = found["fifo_order"], found["causal_order"]
    outcome.reply = found.get("reply_order", 0)
    delivered = run.events.filter(pc.equal(run.events["kind"].cast("string"), "deliver"))
    different = delivered.group_by(["node", "message"]).aggregate([]).num_rows
    outcome.missing = verdict.counts.publications * PROCESSES - different
    outcome.duplicates = delivered.num_rows - different
    _latencies(run, outcome)


def _latencies(run: Any, outcome: Outcome) -> None:
    """From publishing to handling, by the one clock of this machine."""
    kinds = run.events["kind"].to_pylist()
    times = run.events["at_us"].to_pylist()
    messages = run.events["message"].to_pylist()
    published = {m: t for k, m, t in zip(kinds, messages, times, strict=True) if k == "publish"}
    took = [
        (at - published[message]) / 1000
        for kind, message, at in zip(kinds, messages, times, strict=True)
        if kind == "deliver" and message in published
    ]
    if len(took) < 2:
        return
    cuts = quantiles(took, n=100)
    outcome.latency_p50_ms, outcome.latency_p99_ms = round(cuts[49], 2), round(cuts[98], 2)
    delivered = [at for kind, at in zip(kinds, times, strict=True) if kind == "deliver"]
    outcome.deliveries_per_second = round(len(took) * 1e6 / max(1, max(delivered) - min(delivered)))
