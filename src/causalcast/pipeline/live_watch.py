"""Live verification: Spark's structured streaming brings new event files, `LiveCheck` judges them.

Each batch goes to the check of its run in this process, and the state of all runs is saved under
the number of the batch. After a restart Spark repeats the batch it had not finished; the state from
before that batch is loaded, so nothing is counted twice and nothing is left out.
"""

import pickle
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from causalcast.errors import TraceError
from causalcast.pipeline.checks.finding import Finding
from causalcast.pipeline.live_check import LiveCheck
from causalcast.pipeline.tables import EVENT_COLUMNS
from causalcast.trace.run_folder import read_header

COLUMNS = ("node", "pos", "kind", "message", "group")
STATES_KEPT = 2
TELL_ALL = 100  # violations per batch and run that are told one by one


@dataclass
class Progress:
    """What one batch brought."""

    batch: int
    found: list[tuple[str, Finding]]
    """Run and finding."""
    runs: dict[str, LiveCheck]


@dataclass
class Watch:
    """All runs that are watched, by folder."""

    state: Path
    tell: Callable[[Progress], None]
    runs: dict[str, LiveCheck] = field(default_factory=dict)
    last_news: float = field(default_factory=time.monotonic)
    loaded: bool = False

    def take(self, frame: Any, batch: int) -> None:
        """One batch: load the state if this is the first, judge, tell, save."""
        if not self.loaded and self._load(batch):
            return  # it was told before this process began; only Spark did not hear of it
        table = frame.toArrow()
        found: list[tuple[str, Finding]] = []
        if len(table):
            self.last_news = time.monotonic()
            for run in pc.unique(table["run"]).to_pylist():
                rows = table.filter(pc.equal(table["run"], run))
                found += [(run, finding) for finding in self._take_run(run, rows)]
        self.tell(Progress(batch, found, self.runs))
        self._save(batch)  # a kill in between: told twice, rather than never

    def _take_run(self, run: str, rows: Any) -> list[Finding]:
        check = self.runs.get(run)
        if check is None:
            redelivery = read_header(Path(run)).redelivery == "after_recover"
            check = self.runs[run] = LiveCheck({}, redelivery)
        check.learn_members(_founders(Path(run)))
        by_node: dict[int, list[Any]] = {}
        for node, *row in zip(*(rows[name].to_pylist() for name in COLUMNS), strict=True):
            by_node.setdefault(node, []).append(tuple(row))
        for node, of_node in by_node.items():
            check.feed(node, of_node)
        return check.settle()

    def finish(self, no_more_files: bool) -> None:
        """Tell how things stand; if no more files will come, also what waits for ghosts."""
        found: list[tuple[str, Finding]] = []
        if no_more_files:
            found = [(run, one) for run, check in self.runs.items() for one in check.finish()]
        self.tell(Progress(-1, found, self.runs))

    def _save(self, batch: int) -> None:
        hidden = self.state / f".{batch}.state"
        hidden.write_bytes(pickle.dumps(self.runs, pickle.HIGHEST_PROTOCOL))
        hidden.rename(self.state / f"{batch:012d}.state")
        for old in sorted(self.state.glob("[0-9]*.state"))[:-STATES_KEPT]:
            old.unlink()

    def _load(self, batch: int) -> bool:
        """The last saved state up to `batch`; whether that is of the batch itself."""
        self.loaded = True
        saved = [path for path in self.state.glob("[0-9]*.state") if int(path.stem) <= batch]
        if saved:
            self.runs = pickle.loads(max(saved).read_bytes())
            return int(max(saved).stem) == batch
        if batch > 0:
            raise TraceError(f"{self.state}: no state from before batch {batch}; remove it all")
        return False


def _founders(run: Path) -> dict[int, set[int]]:
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
        spark.readStream.schema(EVENT_COLUMNS).parquet(pattern).select(run, *COLUMNS)
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
