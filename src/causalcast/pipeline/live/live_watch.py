"""Live verification: Spark's structured streaming brings new event files, `LiveCheck` judges them.

Each batch goes to the check of its run in this process, and what it changed is kept in `LiveState`
before the next one. Runs at rest, with nothing on its way, are kept on disk alone. In between, the
clock goes on, and what is owed for too long is told.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from causalcast.errors import TraceError
from causalcast.pipeline.check.checks.finding import Finding
from causalcast.pipeline.live.live_check import LiveCheck
from causalcast.pipeline.live.live_foreign import FACTS, LiveForeignCheck
from causalcast.pipeline.live.live_state import LiveState
from causalcast.pipeline.spark.tables import EVENT_COLUMNS
from causalcast.trace.kinds import FOREIGN_VERSION
from causalcast.trace.run_folder import read_header

COLUMNS = ("node", "pos", "kind", "message", "group")
ALL_COLUMNS = f"{EVENT_COLUMNS}, key string, causes array<long>, attempt int, tied boolean"
# Nodes at rest have beats to send: only what applications and operators do is news.
NEWS = pa.array(["publish", "deliver", "join", "leave", "crash", "recover"])
RUNS_AT_HAND = 100  # at rest and in memory all the same, so that they need not be read again
OVERDUE_SECONDS = 10.0

Told = list[tuple[str, Finding]]


@dataclass
class Progress:
    """What one batch, or a moment without one, brought; each with the run it is about."""

    batch: int | None
    found: Told = field(default_factory=list)
    overdue: Told = field(default_factory=list)
    caught_up: Told = field(default_factory=list)


class Watch:
    """All runs that are watched, by folder."""

    def __init__(
        self,
        state: Path,
        tell: Callable[[Progress], None],
        overdue_seconds: float = OVERDUE_SECONDS,
    ) -> None:
        self.state = LiveState(state)
        self.tell = tell
        self.overdue_seconds = overdue_seconds
        self.runs = {run: check for run, check in self.state.all() if not _at_rest(check)}
        """Those in memory: all that are not at rest, and some that are."""
        self.last_news = time.monotonic()
        self.quiet_batches = 0
        """How many of the last batches told of nothing but messages under way: beats, say."""
        self._begun = False
        self._ticked = time.monotonic()
        self.lock = threading.Lock()  # batches come in a thread of Spark's

    def take(self, frame: Any, batch: int) -> None:
        """One batch: judge, tell, keep."""
        if not self._begun:
            self._begun = True
            if batch == self.state.done:
                return  # it was told before this process began; only Spark did not hear of it
            if batch != self.state.done + 1:
                raise TraceError(
                    f"{self.state.folder}: kept up to batch {self.state.done}, and Spark goes on"
                    f" with {batch}; remove the state of the watch"
                )
        table = frame.toArrow()
        with self.lock:
            progress = Progress(batch)
            changed = pc.unique(table["run"]).to_pylist()
            self._note_news(table)
            for run in changed:
                rows = table.filter(pc.equal(table["run"], run))
                check = self._check_of(run)
                progress.found += [(run, found) for found in _take_rows(run, check, rows)]
                progress.caught_up += [(run, came) for came in check.caught_up()]
            self.tell(progress)
            # A kill in between: told twice, rather than never.
            self.state.save(batch, [(run, self.runs[run]) for run in changed])
            self._put_away(changed)

    def _note_news(self, table: Any) -> None:
        if pc.any(pc.is_in(table["kind"], value_set=NEWS)).as_py():
            self.last_news = time.monotonic()
            self.quiet_batches = 0
        else:
            self.quiet_batches += 1

    def tick(self) -> None:
        """Time has passed: tell what is overdue by now."""
        with self.lock:
            now = time.monotonic()
            passed, self._ticked = now - self._ticked, now
            progress = Progress(None)
            for run, check in self.runs.items():
                check.seconds += passed
                late = check.late(self.overdue_seconds)
                progress.overdue += [(run, finding) for finding in late]
            self.tell(progress)

    def finish(self) -> None:
        """No more files will come: tell what waits for messages that nobody published."""
        progress = Progress(None)
        for run, check in list(self.every_run()):
            self.runs[run] = check
            progress.found += [(run, finding) for finding in check.finish()]
        self.tell(progress)

    def every_run(self) -> Iterator[tuple[str, LiveCheck]]:
        """Also those that are on disk alone."""
        yield from self.runs.items()
        yield from ((run, check) for run, check in self.state.all() if run not in self.runs)

    def _check_of(self, run: str) -> LiveCheck:
        check = self.runs.pop(run, None) or self.state.load(run)
        if check is None:
            check = _new_check(Path(run))
        self.runs[run] = check  # the last one in the order of use
        return check

    def _put_away(self, changed: Sequence[str]) -> None:
        """Runs at rest are on disk; only the last few stay in memory as well."""
        for run in list(self.runs)[:-RUNS_AT_HAND]:
            if run not in changed and _at_rest(self.runs[run]):
                del self.runs[run]


def _new_check(run: Path) -> Any:
    header = read_header(run)
    if header.schema == FOREIGN_VERSION:
        return LiveForeignCheck(header.redelivery, header.whole, _shares(run))
    return LiveCheck({}, header.redelivery == "after_recover")


def _shares(run: Path) -> set[tuple[int, int]]:
    """(group, node) of those who share."""
    members = pq.read_table(run / "members.parquet").to_pylist()
    return {(row["group"], row["node"]) for row in members if row.get("share") is not None}


def _take_rows(run: str, check: LiveCheck, rows: Any) -> list[Finding]:
    check.learn_members(founders_of(Path(run)))
    by_node: dict[int, list[Any]] = {}
    columns = (*COLUMNS, *FACTS) if isinstance(check, LiveForeignCheck) else COLUMNS
    for node, *row in zip(*(rows[name].to_pylist() for name in columns), strict=True):
        by_node.setdefault(node, []).append(tuple(row))
    for node, of_node in by_node.items():
        check.feed(node, of_node)
    try:
        return check.settle()
    except TraceError as error:
        raise TraceError(f"{run}: {error}") from None


def _at_rest(check: LiveCheck) -> bool:
    return not check.in_flight and check.rows_waiting() == 0


def founders_of(run: Path) -> dict[int, set[int]]:
    """Members from the start; who joins later says so in its log."""
    table = pq.read_table(run / "members.parquet", columns=["group", "node", "from_pos"])
    members: dict[int, set[int]] = {}
    for row in table.to_pylist():
        if row["from_pos"] == 0:
            members.setdefault(row["group"], set()).add(row["node"])
    return members


def start(spark: Any, patterns: Sequence[str], watch: Watch, checkpoint: Path) -> Any:
    """Begin to watch event folders (patterns such as `runs/*/events`); the running query."""
    from pyspark.sql import functions as F  # noqa: N812

    encoded = F.regexp_replace(F.col("_metadata.file_path"), "^file:/+", "/")
    path = F.url_decode(F.replace(encoded, F.lit("+"), F.lit("%2B")))
    run = F.regexp_extract(path, "^(.*)/events/[^/]+$", 1).alias("run")
    streams = [
        spark.readStream.schema(ALL_COLUMNS).parquet(pattern).select(run, *COLUMNS, *FACTS)
        for pattern in patterns
    ]
    events = streams[0]
    for stream in streams[1:]:
        events = events.union(stream)
    return (
        events.writeStream.foreachBatch(watch.take)
        .option("checkpointLocation", str(checkpoint))
        .start()
    )
