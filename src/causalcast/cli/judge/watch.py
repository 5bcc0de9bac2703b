"""`causalcast watch`: verify runs while they grow."""

import argparse
import json
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from causalcast.cli.judge.watch_lines import watch_lines
from causalcast.cli.shared.places import place, remote_ones
from causalcast.cli.shared.spark_options import add_spark_options
from causalcast.errors import ConfigError, MissingDependency, TraceError
from causalcast.trace.node_log import SUFFIX

if TYPE_CHECKING:
    from causalcast.pipeline.live.live_watch import Progress, Watch
    from causalcast.pipeline.verdicts.verdict import Verdict

HEARTBEAT_SECONDS = 5.0
FOLLOW_SECONDS = 0.5
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
    if _holds_lines(options.folders):
        return watch_lines(options.folders, options.until_idle, options.json)
    from causalcast.pipeline.live.live_watch import Watch, start
    from causalcast.pipeline.spark.session import make_session

    state = (options.state or options.folders[0] / "watch-state").resolve()
    patterns, followers = _what_to_watch(options.folders, state)
    try:
        (state / "runs").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--state {state}: cannot be written ({error.strerror})") from None
    teller = _Teller(options.json)
    watch = Watch(state / "runs", teller.tell, options.overdue)
    spark = make_session(options.master, brief=True)
    over = _stop_signals()
    thread = threading.Thread(target=_follow, args=(followers, watch, over), daemon=True)
    thread.start()
    query = start(spark, patterns, watch, state / "checkpoint")
    try:
        while not over.is_set() and not query.awaitTermination(1):
            watch.tick()
            teller.tell_how_it_goes(watch)
            # Until the first batch is through, Spark is only getting ready.
            if query.lastProgress is None or query.status["isDataAvailable"]:
                watch.last_news = time.monotonic()
            idle = time.monotonic() - watch.last_news
            if options.until_idle is not None and idle > options.until_idle:
                break
    except Exception as error:
        raise _plainly(error) from None
    finally:
        interrupted = over.is_set()
        over.set()
        thread.join()
        query.stop()
    if not interrupted:
        watch.finish()
        if next(watch.every_run(), None) is None:
            names = ", ".join(map(str, options.folders))
            raise TraceError(f"{names}: nothing came: no run, no node log, no JSON lines (*.jsonl)")
    teller.tell_how_it_goes(watch, last=True)
    if interrupted:
        return 1 if teller.violations else 0
    for follower in followers:
        follower.finish()
    return _tell_verdicts(spark, watch, teller)


def _tell_verdicts(spark: Any, watch: "Watch", teller: "_Teller") -> int:
    """Judge the whole runs: no more files will come, so what is missing now stays missing."""
    from causalcast.pipeline.verdicts.verdict import VIOLATED
    from causalcast.pipeline.verify import verify

    found = verify([Path(run) for run, _ in watch.every_run()], spark=spark)
    for one in found:
        teller.tell_verdict(one)
    return 1 if teller.violations or any(one.verdict == VIOLATED for one in found) else 0


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


def _plainly(error: Exception) -> Exception:
    """The error of a failed stream in one line; ours, if the check refused its input."""
    text = str(error)
    for line in text.splitlines():
        if "TraceError:" in line:
            return TraceError(line.partition("TraceError:")[2].strip())
    lines = [line for line in text.splitlines() if line.strip()] or [type(error).__name__]
    return MissingDependency(f"the stream failed: {lines[0]}")


def _what_to_watch(folders: list[Path], state: Path) -> tuple[list[str], list[Any]]:
    """Patterns of event folders, and what makes event files from the logs of real nodes."""
    from causalcast.trace.follow import LogFollower

    patterns: list[str] = []
    followers = []
    for number, folder in enumerate(folders):
        if not folder.is_dir():
            raise TraceError(f"{folder}: no such folder")
        if (folder / "run.json").is_file():
            (folder / "events").mkdir(exist_ok=True)
            patterns.append(str(folder.resolve() / "events"))
        elif any(folder.rglob(f"*{SUFFIX}")):
            out = state / "followed" / f"{number}-{folder.resolve().name}"
            followers.append(LogFollower([folder], out))
            patterns.append(str(out / "events"))
        else:
            patterns.append(str(folder.resolve() / "*" / "events"))
    return patterns, followers


def _follow(followers: list[Any], watch: "Watch", over: threading.Event) -> None:
    while followers:
        for follower in followers:
            if follower.step():
                watch.last_news = time.monotonic()
        if over.wait(FOLLOW_SECONDS):
            return


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
        name, title = escape(Path(run).name), what.replace("_", " ")
        label = finding.guarantee if what == "violation" else f"{title} ({finding.guarantee})"
        self.console.print(f"[{colour}]{label}[/] in {name}: {escape(said)}")

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
            f"{escape(Path(run).name)}: {check.deliveries:,} deliveries, {verdict},"
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
        self.console.print(f"{escape(one.place.name)}: verdict {one.verdict}{said}")
