"""`causalcast trace`: bring logs in, and take runs out."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from causalcast.cli.judge.trace_compact import add_compact
from causalcast.cli.judge.trace_gather import add_gather
from causalcast.cli.judge.trace_import import add_import
from causalcast.cli.shared.places import ONE_RUN_HELP, place
from causalcast.cli.shared.spark_options import add_spark_options, spark_maker
from causalcast.errors import TraceError
from causalcast.trace.export import SHIVIZ_KINDS, to_json_lines, to_shiviz
from causalcast.trace.run_folder import Run, read_run

FORMATS = {"shiviz": to_shiviz, "jsonl": to_json_lines}


def add_to(subparsers: Any) -> None:
    """Declare `trace` and what it can do."""
    parser = subparsers.add_parser(
        "trace",
        description="Gather the logs of real nodes into a run, bring logs of other systems into the"
        " form that verify, metrics and report read, and write runs for other tools.",
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    add_import(actions)
    _add_export(actions)
    add_gather(actions)
    add_compact(actions)


def _add_export(actions: Any) -> None:
    parser = actions.add_parser(
        "export",
        help="write a run for ShiViz or as JSON lines",
        description="Write a run for another tool: `shiviz` with full vector clocks, to be opened"
        " at https://bestchai.bitbucket.io/shiviz/; `jsonl` as `trace import` reads it.",
    )
    parser.add_argument("folder", type=place, metavar="RUN", help=ONE_RUN_HELP)
    add_spark_options(parser)
    parser.add_argument("--format", choices=sorted(FORMATS), required=True, help="what to write")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="file to write")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run_export)


def run_export(options: argparse.Namespace) -> int:
    """Read a run and write it for another tool."""
    from causalcast.pipeline.spark.remote_runs import whole_run

    with whole_run(options.folder, spark_maker(options)) as folder:
        run = read_run(folder)
    _write_lines(options.out, FORMATS[options.format](run))
    written = len(run.events)
    if options.format == "shiviz":
        written = sum(kind in SHIVIZ_KINDS for kind in run.events["kind"].to_pylist())
    _say(options, run, options.out, written)
    if written < len(run.events) and not options.json:
        left_out = len(run.events) - written
        print(f"left out: {left_out:,} events of other kinds than {', '.join(SHIVIZ_KINDS)}")
    return 0


def _write_lines(path: Path, lines: Iterator[str]) -> None:
    try:
        with path.open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
    except OSError as error:
        raise TraceError(f"{path}: cannot be written ({error.strerror})") from None


def _say(options: argparse.Namespace, run: Run, out: Path, written: int | None = None) -> None:
    events = len(run.events) if written is None else written
    nodes, groups = len(run.nodes), len(run.groups)
    if options.json:
        print(json.dumps({"out": str(out), "events": events, "nodes": nodes, "groups": groups}))
    else:
        print(f"{out}: {events:,} events of {nodes:,} nodes in {groups:,} groups")
