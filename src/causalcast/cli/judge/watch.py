"""`causalcast watch`: verify runs while they grow."""

import argparse
import json
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from causalcast.cli.judge.watch_lines import POLL_SECONDS, watch_lines
from causalcast.cli.shared.extras import require
from causalcast.cli.shared.places import place, remote_ones
from causalcast.cli.shared.spark_options import add_spark_options
from causalcast.errors import ConfigError, TraceError
from causalcast.printable import printable

if TYPE_CHECKING:
    from causalcast.pipeline.live.live_watch import Progress, Watch
    from causalcast.pipeline.verdicts.verdict import Verdict

HEARTBEAT_SECONDS = 5.0
NOTHING_CAME = "nothing came: no run, no node log, no JSON lines (*.jsonl)"
EPILOG = """
examples:
  causalcast watch demo-run                  the logs of real nodes under this folder
  causalcast watch runs/7                    a run whose event files are being written
  causalcast watch runs                      every run in a folder, also those that begin later
  causalcast watch logs                      JSON lines or OTLP spans (*.jsonl) that others write
  causalcast watch demo-run --until-idle 10  stop when nothing new has come for ten seconds, and
                                             give the verdict that `verify` gives

The state is kept in RUN/watch-state (or --state), so that a restarted watch continues. A delivery
that does not come in time is reported as overdue; only at the end of a run is it a violation.
exit code: 0 no violation so far; 1 there was one; 2 unusable input
"""
NO_REMOTE = (
    "--remote: a watch keeps its state in the process that tells of violations, and Spark Connect"
    " would run it on the server, where nobody reads them; use --master, or run watch there"
)

NOT_HERE = (
    "watch reads node logs and run.json as they grow and keeps its state beside them, which only"
    " file systems of this machine allow; mount it, or `verify` the run when it is whole"
)


def add_to(subparsers: Any) -> None:
    """Declare `watch`."""
    parser = subparsers.add_parser(
        "watch",
        description="Verify runs while nodes run: a violation is told within seconds of its file.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folders", nargs="+", type=place, metavar="RUN", help="runs, or node logs")
    parser.add_argument(
        "--state",
        type=Path,
        metavar="DIR",
        help="where to keep its state (default: RUN/watch-state)",
    )
    parser.add_argument(
        "--until-idle", type=float, metavar="SECONDS", help="stop when nothing new came for so long"
    )
    parser.add_argument(
        "--overdue", type=float, default=10.0, metavar="SECONDS",
        help="report a delivery that is still missing after so long (default: 10)",
    )  # fmt: skip
    add_spark_options(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Watch until interrupted or idle."""
    if options.remote is not None:
        raise ConfigError(NO_REMOTE)
    for elsewhere in remote_ones(options.folders):
        raise ConfigError(f"{elsewhere}: {NOT_HERE}")
    _wait_for_anything(options.folders, options.until_idle)
    if _holds_lines(options.folders):
        return watch_lines(options.folders, options.until_idle, options.json)
    require("spark", "`causalcast watch` of runs and node logs")
    from causalcast.pipeline.live.watch_runs import WatchedRuns
    from causalcast.pipeline.spark.session import make_session
    from causalcast.trace.follow import follower_of

    teller = _Teller(options.json)
    watched = WatchedRuns(options.folders, follower_of, options.state, teller.tell, options.overdue)
    spark = make_session(options.master, brief=True)
    ended = watched.run(spark, _stop_signals(), options.until_idle, teller.tell_how_it_goes)
    teller.tell_how_it_goes(watched.watch, last=True)
    if not ended:
        return 1 if teller.violations else 0
    return _tell_verdicts(spark, watched.whole_runs(), teller)


def _tell_verdicts(spark: Any, runs: list[Path], teller: "_Teller") -> int:
    """Judge the whole runs: no more files will come, so what is missing now stays missing."""
    from causalcast.pipeline.verdicts.verdict import VIOLATED
    from causalcast.pipeline.verify import verify

    found = verify(runs, spark=spark)
    for one in found:
        teller.tell_verdict(one)
    return 1 if teller.violations or any(one.verdict == VIOLATED for one in found) else 0


def _wait_for_anything(folders: list[Path], until_idle: float | None) -> None:
    """What is to be watched may not have begun: only its first file shows whether it is lines."""
    begun = time.monotonic()
    there = [folder for folder in folders if folder.is_dir()]
    if len(there) < len(folders) or any(any(folder.iterdir()) for folder in folders):
        return
    names = ", ".join(map(str, folders))
    print(f"{names}: empty so far, waiting", file=sys.stderr)
    while not any(any(folder.iterdir()) for folder in folders):
        if until_idle is not None and time.monotonic() - begun > until_idle:
            raise TraceError(f"{names}: {NOTHING_CAME}")
        time.sleep(POLL_SECONDS)


def _holds_lines(folders: list[Path]) -> bool:
    """Whether folders hold lines of another system, and neither runs nor node logs."""
    from causalcast.pipeline.live.live_table import json_lines_in

    for folder in folders:
        if not folder.is_dir():
            raise TraceError(f"{folder}: no such folder")
    found = [bool(json_lines_in(folder)) for folder in folders]
    if any(found) and not all(found):
        raise ConfigError("JSON lines and runs cannot be watched together")
    return all(found)


def _stop_signals() -> threading.Event:
    """An event that is set on SIGINT or SIGTERM. PySpark's own handler would stop in mid-output."""
    over = threading.Event()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: over.set())
    return over


class _Teller:
    """Prints what was found, and a heartbeat now and then."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.violations = 0
        self.console = Console(highlight=False, soft_wrap=True)
        self.told_at = 0.0
        self.batch: int | None = None

    def tell(self, progress: "Progress") -> None:
        """Print each violation, each overdue delivery, and each that arrived after all."""
        self.batch = progress.batch if progress.batch is not None else self.batch
        for run, finding in progress.found:
            self.violations += 1
            self._tell_finding("violation", run, finding, "red")
        for run, finding in progress.overdue:
            self._tell_finding("overdue", run, finding, "yellow")
        for run, finding in progress.caught_up:
            self._tell_finding("caught_up", run, finding, "green")

    def tell_how_it_goes(self, watch: "Watch", last: bool = False) -> None:
        """Print a heartbeat every few seconds; at the end one for every run, also idle ones."""
        if last or time.monotonic() - self.told_at > HEARTBEAT_SECONDS:
            self.told_at = time.monotonic()
            with watch.lock:
                for run, check in watch.every_run() if last else watch.runs.items():
                    self._tell_heartbeat(run, check)

    def _tell_finding(self, what: str, run: str, finding: Any, colour: str) -> None:
        from causalcast.pipeline.verdicts import counter_example
        from causalcast.pipeline.verdicts.verdict import Names

        if self.as_json:
            told = {
                what: finding.guarantee, "kind": finding.kind, "run": run,
                "node": finding.node, "pos": finding.pos, "message": finding.message,
                "cause": finding.cause, "at": time.time(),
            }  # fmt: skip
            print(json.dumps(told), flush=True)
            return
        names = Names({})
        if what == "violation":
            said = counter_example.sentence(finding, names)
        else:
            has = "has not delivered" if what == "overdue" else "has at last delivered"
            said = f"{names.node(finding.node)} {has} {names.message(finding.message)}"
        name, title = escape(printable(Path(run).name)), what.replace("_", " ")
        label = finding.guarantee if what == "violation" else f"{title} ({finding.guarantee})"
        self.console.print(f"[{colour}]{label}[/] in {name}: {escape(printable(said))}")

    def _tell_heartbeat(self, run: str, check: Any) -> None:
        facts = {
            "run": run, "batch": self.batch, "rows": check.rows_done,
            "deliveries": check.deliveries, "violations": check.violations,
            "in_flight": len(check.in_flight), "pending": check.pending(),
            "overdue_now": check.overdue, "rows_waiting": check.rows_waiting(),
            "unchecked": check.unchecked, "struck_off": sorted(check.struck_off),
        }  # fmt: skip
        if self.as_json:
            print(json.dumps(facts), flush=True)
            return
        verdict = f"[red]{check.violations:,} violations[/]" if check.violations else "no violation"
        self.console.print(
            f"{escape(printable(Path(run).name))}: {check.deliveries:,} deliveries, {verdict},"
            f" {facts['pending']:,} messages pending, {check.overdue:,} deliveries overdue,"
            f" {facts['rows_waiting']:,} rows waiting"
        )

    def tell_verdict(self, one: "Verdict") -> None:
        """What `verify` says of the whole run."""
        if self.as_json:
            checked = {result.name: result.status for result in one.results}
            told = {"verdict": one.verdict, "run": str(one.place), "checked": checked}
            print(json.dumps(told), flush=True)
            return
        wrong = [
            f"{result.name} {result.status}" for result in one.results if result.status != "ok"
        ]
        said = f" ({', '.join(wrong)})" if wrong else ""
        self.console.print(f"{escape(printable(one.place.name))}: verdict {one.verdict}{said}")
