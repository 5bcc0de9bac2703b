"""The Spark check beside its floor, on the same files, in turn, in one session.

The floor is the least that can be done with the files: Spark reads the Parquet and groups four
numeric columns by node. Each round runs the floor and then the check, size by size; what counts is
the median of the rounds' ratios, because the machine is never quiet. The first round warms up and
is not counted.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from large_runs import write_large_run
from memory import PeakMemory

from causalcast.pipeline.spark.session import make_session
from causalcast.pipeline.spark.spark_job import check_runs
from causalcast.version import VERSION, build_kind

# name: nodes, publications, groups
SIZES = {
    "1e6": (200, 5_000, 1),
    "3e6": (1_000, 3_000, 1),
    "3e6-groups": (1_000, 60_000, 100),
    "1e7": (1_000, 10_000, 1),
    "3e7": (1_000, 30_000, 1),
    "1e8": (1_000, 100_000, 1),
}


def floor(spark: Any, folder: Path) -> int:
    """Read every file and group it by node, numbers only."""
    from pyspark.sql import functions as F  # noqa: N812

    events = spark.read.parquet(str(folder / "events"))
    counted = events.groupBy("node").agg(
        F.count("*").alias("rows"), F.max("pos"), F.max("at_us"), F.sum("message")
    )
    return sum(row["rows"] for row in counted.collect())


def check(spark: Any, folder: Path) -> int:
    """The whole check; the run must be found without fault."""
    [checked] = check_runs(spark, [folder])
    assert not checked.findings, checked.findings[:3]
    return checked.counts.deliveries


def timed(work: Any, *arguments: Any) -> tuple[float, int]:
    """How long it took, and what came back."""
    started = time.perf_counter()
    result = work(*arguments)
    return time.perf_counter() - started, result


class Measured:
    """Rounds of floor and check on one run."""

    def __init__(self) -> None:
        self.deliveries = 0
        self.floors: list[float] = []
        self.checks: list[float] = []
        self.peaks: dict[str, int] = {}

    def add_round(self, spark: Any, folder: Path, warm: bool) -> None:
        with PeakMemory() as memory:
            of_floor, _ = timed(floor, spark, folder)
            of_check, self.deliveries = timed(check, spark, folder)
        for name, peak in memory.peaks.items():
            self.peaks[name] = max(self.peaks.get(name, 0), peak)
        if warm:
            self.floors.append(of_floor)
            self.checks.append(of_check)

    def facts(self) -> dict[str, Any]:
        ratios = [c / f for c, f in zip(self.checks, self.floors, strict=True)]
        return {
            "deliveries": self.deliveries,
            "floor_seconds": round(statistics.median(self.floors), 2),
            "check_seconds": round(statistics.median(self.checks), 2),
            "deliveries_per_second": round(self.deliveries / statistics.median(self.checks)),
            "ratio": round(statistics.median(ratios), 2),
            "lowest": round(min(ratios), 2),
            "highest": round(max(ratios), 2),
            "memory_mb": self.peaks,
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", metavar="SIZE", help=f"some of {', '.join(SIZES)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=Path, help="where the runs are kept, to be used again")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    print(f"causalcast {VERSION} ({build_kind()})", file=sys.stderr)
    unknown = [size for size in options.sizes if size not in SIZES]
    if unknown:
        parser.error(f"no size {unknown[0]!r}; there are {', '.join(SIZES)}")
    kept = options.runs or Path(tempfile.gettempdir()) / f"causalcast-bench-{os.getuid()}"
    spark = make_session("local[2]")
    results: dict[str, Any] = {}
    sizes = options.sizes or ["1e6", "3e6", "3e6-groups", "1e7"]
    for size in sizes:
        write_large_run(kept / size, *SIZES[size])
    measured = {size: Measured() for size in sizes}
    for number in range(options.rounds + 1):
        for size in sizes:  # in turn, so that all sizes are measured on the same machine
            measured[size].add_round(spark, kept / size, warm=number > 0)
    for size in sizes:
        results[size] = measured[size].facts()
        if not options.json:
            tell(size, results[size])
    if {"3e6", "3e6-groups"} <= set(sizes):
        pairs = zip(measured["3e6-groups"].checks, measured["3e6"].checks, strict=True)
        ratio = statistics.median(many / one for many, one in pairs)
        results["groups_against_one_group"] = round(ratio, 2)
        if not options.json:
            print(f"a hundred overlapping groups take {ratio:.2f}x as long as one group")
    if options.json:
        print(json.dumps(results, indent=2))
    return 0


def tell(size: str, facts: dict[str, Any]) -> None:
    memory = ", ".join(f"{name} {peak:,}" for name, peak in facts["memory_mb"].items())
    print(
        f"{size:10} {facts['deliveries']:>11,} deliveries   floor {facts['floor_seconds']:6.2f} s"
        f"   check {facts['check_seconds']:6.2f} s   {facts['ratio']:5.2f}x"
        f" ({facts['lowest']:.2f}..{facts['highest']:.2f})"
        f"   {facts['deliveries_per_second']:>10,} per second   MB: {memory}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
