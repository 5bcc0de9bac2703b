"""Traces as DataFrames: publishes, deliveries, sends, crashes, of one run or thousands.

Every table has a column `run`, the run's place in the list that was asked for, and events have
`second`, the second they happened in. Reading is here and nowhere else; metrics are DataFrame in,
DataFrame out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from causalcast.pipeline.check.checks.finding import Finding, findings_batch
from causalcast.pipeline.logs.places import RunAtHand, at_hand
from causalcast.trace.run_folder import read_header, read_small_tables

# The columns of a trace as Spark reads them; given, so that Spark opens no file to find out.
EVENT_COLUMNS = (
    "node int, pos long, at_us long, kind string, message long, group int, peer int,"
    " payload_bytes int, metadata_bytes int, value long, note string"
)

Keys = Sequence[str]
BY_RUN: Keys = ("run",)  # what metrics are told apart by, if nobody says more
MEMBER_COLUMNS = "run int, group int, node int, from_pos long, to_pos long"
SIZE_COLUMNS = "run int, nodes int"
RUNS_IN_AN_EXPRESSION = 64  # more become a table: an expression of thousands would not compile


@dataclass
class Tables:
    """The events of some runs, and what is usually asked of them."""

    events: Any
    members: Any
    """`run, group, node, from_pos, to_pos`."""
    sizes: Any
    """`run, nodes`: how many there are."""

    def of_kind(self, *kinds: str) -> Any:
        """The rows of some kinds."""
        from pyspark.sql import functions as F  # noqa: N812

        return self.events.where(F.col("kind").isin(*kinds))

    @property
    def publishes(self) -> Any:
        """One row per publication."""
        return self.of_kind("publish")

    def at_publication(self, frame: Any) -> Any:
        """Rows about messages, with the group and the second of their publication as their own."""
        from pyspark.sql import functions as F  # noqa: N812

        published = self.publishes.select("run", "message", "group", "second")
        # Publications are few beside other rows: sent to every task, so nothing is shuffled.
        return frame.drop("group", "second").join(F.broadcast(published), ["run", "message"])

    @property
    def deliveries(self) -> Any:
        """One row per delivery; the origin's own are marked by `own`."""
        from pyspark.sql import functions as F  # noqa: N812

        own = F.shiftright("message", 32) == F.col("node")
        return self.of_kind("deliver").withColumn("own", own)

    @property
    def sends(self) -> Any:
        """One row per frame that left a node."""
        return self.of_kind("send")

    @property
    def changes(self) -> Any:
        """Crashes, recoveries, joins and leaves."""
        return self.of_kind("crash", "recover", "join", "leave")


def read_tables(spark: Any, runs: Sequence[Path | RunAtHand]) -> Tables:
    """The events of some runs."""
    from pyspark.sql import functions as F  # noqa: N812

    paths: list[str] = []
    places: list[tuple[str, int]] = []
    here = at_hand(runs)
    for place, run in enumerate(here):
        read_header(run.folder)
        paths += run.files
        places.append((run.files[0].rpartition("/events/")[0], place))
    # Spark encodes some signs and not others, and writes one slash where a URI has three.
    encoded = F.regexp_replace(F.col("_metadata.file_path"), "^file:/+", "/")
    file = F.url_decode(F.replace(encoded, F.lit("+"), F.lit("%2B")))
    events = (
        spark.read.schema(EVENT_COLUMNS)
        .parquet(*paths)
        .withColumn("folder", F.regexp_extract(file, "^(.*)/events/[^/]+$", 1))
    )
    if len(places) <= RUNS_IN_AN_EXPRESSION:
        run = F.create_map(*(F.lit(part) for pair in places for part in pair))[F.col("folder")]
        events = events.withColumn("run", run)
    else:
        by_folder = spark.createDataFrame(places, "folder string, run int")
        events = events.join(F.broadcast(by_folder), "folder")
    events = events.drop("folder").withColumn("second", F.floor(F.col("at_us") / 1e6))
    small = [read_small_tables(run.folder) for run in here]
    members = [
        (place, *row.values())
        for place, of_run in enumerate(small)
        for row in of_run.members.to_pylist()
    ]
    sizes = [(place, of_run.nodes.num_rows) for place, of_run in enumerate(small)]
    return Tables(
        events,
        spark.createDataFrame(members, MEMBER_COLUMNS),
        spark.createDataFrame(sizes, SIZE_COLUMNS),
    )


def violations_table(spark: Any, findings: dict[str, list[Finding]]) -> Any:
    """Findings of many runs as one DataFrame, for queries and for keeping."""
    import pyarrow as pa

    batches = [findings_batch(run, found) for run, found in findings.items()]
    return spark.createDataFrame(pa.Table.from_batches(batches))
