"""`causalcast report` and `causalcast metrics`: what runs did, for people and for scripts."""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from causalcast.cli.shared.places import RUN_HELP, place
from causalcast.cli.shared.spark_options import add_spark_options, where_to_judge

if TYPE_CHECKING:
    from causalcast.pipeline.logs.places import Place

REPORT_EPILOG = """
example:
  causalcast report RUN --out report.html

The exit code is that of `verify`: 0 fine, 1 violated or incomplete, 2 unusable input.
"""


def add_to(subparsers: Any) -> None:
    """Declare `report` and `metrics`."""
    report = subparsers.add_parser(
        "report",
        description="Verify runs, measure them, and write one HTML file that opens offline:"
        " the verdict, counter-examples, plots, tables.",
        epilog=REPORT_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    report.add_argument("runs", nargs="+", type=place, metavar="RUN", help=RUN_HELP)
    report.add_argument("--out", type=place, required=True, metavar="FILE", help="file to write")
    report.add_argument("--promise", metavar="LIST", help="what the verdict counts, as for verify")
    report.add_argument("--json", action="store_true", help="print one JSON object")
    add_spark_options(report, local=True)
    report.set_defaults(run=run_report, command="report")

    metrics = subparsers.add_parser(
        "metrics",
        description="Measure runs by their traces. What a trace does not tell (sends at level"
        " `deliveries`, for instance) is left out.",
    )
    metrics.add_argument("runs", nargs="+", type=place, metavar="RUN", help=RUN_HELP)
    metrics.add_argument(
        "--by", choices=("group", "node", "second"), help="tell apart what can be told apart"
    )
    metrics.add_argument("--json", action="store_true", help="print one JSON object")
    add_spark_options(metrics, local=True)
    metrics.set_defaults(run=run_metrics, command="metrics")


def run_report(options: argparse.Namespace) -> int:
    """Verify, measure, write the file."""
    from causalcast.pipeline.logs.places import runs_under
    from causalcast.pipeline.report_runs import report
    from causalcast.pipeline.verdicts.verdict import parse_promise

    parse_promise(options.promise)
    options.runs = runs_under(options.runs)
    with where_to_judge(options, "checking and measuring", [options.out]) as spark:
        found = report(options.runs, options.out, spark=spark, promise=options.promise)
    verdicts = [one.verdict for one in found]
    if options.json:
        print(json.dumps({"out": str(options.out), "verdicts": verdicts}))
    else:
        print(f"{', '.join(sorted(set(verdicts)))}: {options.out}")
    return 0 if all(one.is_fine for one in found) else 1


def run_metrics(options: argparse.Namespace) -> int:
    """Measure and print."""
    from causalcast.pipeline.logs.places import runs_under
    from causalcast.pipeline.report_runs import measure

    options.runs = runs_under(options.runs)
    with where_to_judge(options, "measuring") as spark:
        measured = measure(options.runs, by=options.by, spark=spark)
    if options.by is not None:
        _tell_by(options, options.runs, measured)
    elif options.json:
        pairs = zip(options.runs, measured, strict=True)
        each = [{"run": str(at), **values} for at, values in pairs]
        json.dump({"runs": each}, sys.stdout, indent=2)
        print()
    else:
        _print_metrics(options.runs, measured)
    return 0


def _tell_by(
    options: argparse.Namespace, places: "Sequence[Place]", measured: list[list[dict[str, Any]]]
) -> None:
    """Metrics of each group, node or second: a table per run."""
    if options.json:
        each = [
            {"run": str(at), f"by_{options.by}": rows}
            for at, rows in zip(places, measured, strict=True)
        ]
        json.dump({"runs": each}, sys.stdout, indent=2)
        print()
        return
    for at, rows in zip(places, measured, strict=True):
        names = [
            name for name in (rows[0] if rows else {}) if any(r[name] is not None for r in rows)
        ]
        table = Table(*names, title=at.name, box=None, pad_edge=False, title_justify="left")
        for row in rows:
            table.add_row(*(_shown(row[name]) for name in names))
        Console(highlight=False, soft_wrap=True).print(table)


def _print_metrics(places: "Sequence[Place]", measured: list[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("metric")
    for at in places:
        table.add_column(at.name, justify="right", overflow="fold")
    for name in measured[0]:
        values = [of_run[name] for of_run in measured]
        if any(value is not None for value in values):
            table.add_row(name, *map(_shown, values))
    Console(highlight=False).print(table)


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:,.3f}".rstrip("0").rstrip(".")
