"""`causalcast reproduce`: every figure and every claim of the sources, measured again."""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from causalcast.cli.shared.output import progress_bar
from causalcast.cli.shared.spark_options import add_spark_options, starting_spark
from causalcast.errors import ConfigError

if TYPE_CHECKING:
    from causalcast.reproduce.results import Results

TELL_EVERY = 10  # seconds between two lines, where there is no terminal

EPILOG = """
examples:
  causalcast reproduce --quick                          all figures in minutes, at small sizes
  causalcast reproduce --figure s002_fig4_2 --quick     one of them
  causalcast reproduce --full --spark                   the sources' sizes, as tasks of Spark
  causalcast reproduce --full --figure s002_fig4_2 --where interval_ms=100 --where senders=1
  causalcast reproduce --claims                         every claim, and what is known of it so far

What is done is not done again: the same command goes on where it was stopped. Everything lies in
`--out`: index.html, and each figure as SVG, PNG, CSV and Parquet. exit code: 0 all points ran and
every causal protocol kept its order, whatever became of the claims; 1 not; 2 wrong usage
"""


def add_to(subparsers: Any) -> None:
    """Declare `reproduce`."""
    parser = subparsers.add_parser(
        "reproduce",
        description="Run the experiments of the papers that this project builds on, draw their "
        "figures, and say of each claim whether the measurement confirms it.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="small sizes (the default)")
    size.add_argument(
        "--large",
        action="store_true",
        help="the sources' sizes, but 1,000 nodes where they have 10,000; two hours",
    )
    size.add_argument("--full", action="store_true", help="the sources' sizes; a day")
    parser.add_argument(
        "--figure", action="append", default=[], metavar="NAME", help="only this; may be repeated"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("reproduced"), metavar="DIR",
        help="folder for results (default: reproduced); one for each size in it",
    )  # fmt: skip
    parser.add_argument(
        "--where", action="append", default=[], metavar="NAME=VALUE",
        help="run only points with this value, or one of several separated by commas; may be "
        "repeated",
    )  # fmt: skip
    parser.add_argument(
        "--as-kept",
        action="store_true",
        help="show what is in --out, whichever version measured it; run nothing",
    )
    parser.add_argument(
        "--processes",
        type=int,
        default=0,
        metavar="N",
        help="how many at once (default: all cores)",
    )
    parser.add_argument(
        "--spark", action="store_true", help="run points as tasks of Spark, not in processes here"
    )
    parser.add_argument("--list", action="store_true", help="name the figures, and stop")
    parser.add_argument(
        "--claims", action="store_true", help="print every claim with its verdict; run nothing"
    )
    parser.add_argument(
        "--no-tests", action="store_true", help="leave out claims that tests decide"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_spark_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Do what was asked for."""
    from causalcast.reproduce.campaign import run_points
    from causalcast.reproduce.figure import chosen_figures, chosen_points
    from causalcast.reproduce.results import Results, results_of
    from causalcast.reproduce.store import Store

    figures = chosen_figures(options.figure)
    size = "full" if options.full else "large" if options.large else "quick"
    if options.processes < 0:
        raise ConfigError("--processes: expected a number from 1 on, or 0 for all cores")
    if (options.master or options.remote) and not options.spark:
        raise ConfigError("--master and --remote say where Spark runs: add --spark")
    if options.list:
        _list(options.json)
        return 0
    points = [point for figure in figures for point in figure.points(size)]
    points = chosen_points(points, options.where)
    store = Store(options.out / size, options.out / "points", options.as_kept)
    if not options.claims and not options.as_kept:
        spark = _spark(options) if options.spark else None
        with _told(len(points), options.json) as progress:
            processes = options.processes or os.cpu_count() or 1
            run_points(points, store, processes, spark, progress)
    results: Results = results_of(figures, size, store)
    if not options.claims:
        tests = not (options.no_tests or options.figure or options.where or options.as_kept)
        results.decide_by_tests(tests)
        results.write()
    _print(results, options)
    return 0 if results.all_fine() else 1


def _spark(options: argparse.Namespace) -> Any:
    from causalcast.pipeline.spark.session import make_session

    with Console(stderr=True).status(starting_spark(options)):
        return make_session(options.master, options.remote, brief=True)


@contextmanager
def _told(points: int, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A bar with the time left on a terminal, else a line now and then."""
    started = time.monotonic()
    last = started
    first = -1

    def line(done: int, every: int) -> None:
        nonlocal last, first
        now = time.monotonic()
        first = done if first < 0 else first
        if quiet or (now - last < TELL_EVERY and done < every):
            return
        last = now
        left = (now - started) / (done - first) * (every - done) if done > first else None
        told = "" if left is None else f", about {left:.0f} s left"
        print(f"{done} of {every} points{told}", file=sys.stderr, flush=True)

    with progress_bar(f"{points} points", quiet) as bar:
        if bar is None:
            yield line
        else:
            yield lambda done, every: bar(done / max(1, every))


def _list(as_json: bool) -> None:
    from causalcast.reproduce.figure import all_figures

    rows = [
        {
            "figure": figure.name,
            "source": f"{figure.source} {figure.number}",
            "quick": len(figure.points("quick")),
            "full": len(figure.points("full")),
            "claims": len({claim.id for claim in figure.claims}),
            "title": figure.title,
        }
        for figure in all_figures()
    ]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    table = Table("figure", "source", "quick", "full", "claims", "title", box=None)
    for row in rows:
        table.add_row(*map(str, row.values()))
    Console(soft_wrap=True).print(table)


def _print(results: "Results", options: argparse.Namespace) -> None:
    verdicts = results.verdicts if options.claims or not options.figure else results.by_figures
    if options.json:
        answer = {
            "size": results.size,
            "out": str(results.store.folder),
            "counts": results.counts(),
            "judged": results.judged(),
            "claims": [asdict(verdict) for verdict in verdicts],
        }
        print(json.dumps(answer, indent=2))
        return
    console = Console(highlight=False, soft_wrap=True)
    table = Table("claim", "verdict", "measured", box=None)
    for verdict in verdicts:
        told = "; ".join(filter(None, [verdict.numbers, verdict.because]))
        table.add_row(verdict.claim, verdict.verdict, told)
    console.print(table)
    counts = ", ".join(f"{count} {name}" for name, count in results.counts().items())
    console.print(f"{len(results.claims)} claims: {counts}", markup=False)
    console.print(results.judged(), markup=False)
    if not options.claims:
        console.print(f"{results.store.folder / 'index.html'}", markup=False)
