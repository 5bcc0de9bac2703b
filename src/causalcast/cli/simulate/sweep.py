"""`causalcast sweep`: a grid of scenarios times seeds, one Spark task per simulation."""

import argparse
import json
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from causalcast.cli.shared.output import progress_bar
from causalcast.cli.shared.places import place
from causalcast.cli.shared.spark_options import add_spark_options, starting_spark
from causalcast.cli.simulate.simulate import parse_settings
from causalcast.trace.kinds import LEVELS

if TYPE_CHECKING:
    from causalcast.sweep.point import Outcome

EPILOG = """
examples:
  causalcast sweep scenarios/reordering_ring.toml --seeds 0..20 --out sweeps/ring
  causalcast sweep ring.toml --vary overlay.nodes=8,16,32 --vary network.loss=0,0.1 --seeds 0..5 \\
      --protocols naive_flood,vector_clock_broadcast --out sweeps/size
  causalcast sweep ring.toml --vary options.repeat_after=50ms,200ms --seeds 0..5 --out sweeps/repeat

`--out` gets a run folder per point and results.parquet, a row per point. What is there already is
not run again. exit code: 0 all points fine; 1 one is violated, incomplete or failed; 2 wrong usage
"""


def add_to(subparsers: Any) -> None:
    """Declare `sweep`."""
    parser = subparsers.add_parser(
        "sweep",
        description="Simulate every scenario with every protocol and every varied value, for every"
        " seed; judge and measure all of it.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("scenarios", nargs="+", type=Path, metavar="SCENARIO", help="TOML files")
    parser.add_argument(
        "--seeds", required=True, metavar="A..B", help="from A up to, but not including, B"
    )
    parser.add_argument(
        "--out",
        type=place,
        required=True,
        metavar="DIR",
        help="folder for all runs; also a URI that Spark writes to",
    )
    parser.add_argument("--protocols", metavar="LIST", help="instead of the scenario's own")
    parser.add_argument(
        "--vary", action="append", default=[], metavar="KEY=V1,V2",
        help="a key of the scenario (overlay.nodes) or of the protocol (options.f)",
    )  # fmt: skip
    parser.add_argument(
        "--set", action="append", default=[], dest="settings", metavar="OPTION=VALUE",
        help="an option of the protocol, the same for all points",
    )  # fmt: skip
    parser.add_argument("--trace", choices=list(LEVELS), help="what to record, as for simulate")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_spark_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Make the grid, check it, run it, and say what came out."""
    from causalcast.pipeline.spark.session import make_session
    from causalcast.sweep.campaign import RESULTS, check_points, run_sweep, write_results
    from causalcast.sweep.grid import OPTIONS, make_grid, parse_seeds, parse_vary

    fixed = {OPTIONS + name: [value] for name, value in parse_settings(options.settings).items()}
    varied = {**fixed, **parse_vary(options.vary)}
    protocols = [name.strip() for name in (options.protocols or "").split(",") if name.strip()]
    points = make_grid(options.scenarios, protocols, varied, parse_seeds(options.seeds))
    check_points(points)
    with Console(stderr=True).status(starting_spark(options)):
        spark = make_session(options.master, options.remote, brief=True)
    with progress_bar(f"simulating {len(points):,} points", quiet=options.json) as progress:
        outcomes = run_sweep(spark, points, options.out, options.trace, progress)
    rows = write_results(spark, outcomes, options.out)
    if options.json:
        told = {"out": str(options.out), "results": str(options.out / RESULTS), "points": rows}
        json.dump(told, sys.stdout, indent=2)
        print()
    else:
        _print(outcomes, rows, options.out / RESULTS)
    return 0 if all(outcome.verdict == "ok" for outcome in outcomes) else 1


def _print(outcomes: "list[Outcome]", rows: list[dict[str, Any]], results: Path) -> None:
    console = Console(highlight=False, soft_wrap=True)
    groups: dict[tuple[str, ...], list[int]] = {}
    for number, outcome in enumerate(outcomes):
        groups.setdefault((outcome.point.scenario, *outcome.point.varied.values()), []).append(
            number
        )
    keys = list(outcomes[0].point.varied)
    table = Table(
        "scenario", *keys, "runs", "ok", "not ok", "failed", "median latency, ms", box=None
    )
    for names, places in groups.items():
        verdicts = [outcomes[place].verdict for place in places]
        delays = [d for p in places if (d := rows[p].get("latency_p50_ms")) is not None]
        failed, fine = verdicts.count("failed"), verdicts.count("ok")
        counts = (len(places), fine, len(places) - fine - failed, failed)
        shown = f"{median(delays):,.2f}" if delays else "–"
        table.add_row(*names, *map(str, counts), shown)
    console.print(table)
    for outcome in outcomes:
        if outcome.verdict == "failed":
            console.print(f"{outcome.point.name}: failed: {outcome.error}", markup=False)
        elif outcome.verdict != "ok":
            what = ", ".join(outcome.violated) or outcome.verdict
            console.print(f"{outcome.point.name}: {what}", markup=False)
    skipped = sum(outcome.attempts == 0 for outcome in outcomes)
    known = f", {skipped:,} of them were there already" if skipped else ""
    console.print(f"{len(outcomes):,} points{known}: {results}")
