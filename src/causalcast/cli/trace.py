"""`causalcast trace`: bring logs in, and take runs out."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from causalcast.cli.extras import require
from causalcast.cli.places import RUN_HELP, place, remote_ones, whole_run
from causalcast.cli.spark_options import add_spark_options, spark_maker
from causalcast.cli.trace_compact import add_compact
from causalcast.cli.trace_gather import add_gather
from causalcast.errors import TraceError
from causalcast.trace.export import SHIVIZ_KINDS, to_json_lines, to_shiviz
from causalcast.trace.foreign_log import import_log
from causalcast.trace.run_folder import Run, read_run, write_run
from causalcast.trace.run_header import REDELIVERY

IN_THIS_PROCESS = 64 << 20  # bytes; larger logs are imported on Spark
FORMATS = {"shiviz": to_shiviz, "jsonl": to_json_lines}

IMPORT_EPILOG = """
one JSON object per line:
  {"node": "a", "pos": 0, "kind": "publish", "message": "hello", "group": "chat"}
  {"node": "b", "time": 1.25, "kind": "deliver", "message": "hello", "group": "chat"}

`kind` is publish, deliver, join, leave, crash, recover or another kind of a trace; `pos` or `time`
(seconds) gives the order within a node. A `join` line before a node's first publish or deliver
makes it a founding member; a later one, or one with "late": true, a late one. In a group without
join lines the members are the nodes that publish or deliver in it.
"""


def add_to(subparsers: Any) -> None:
    """Declare `trace` and what it can do."""
    parser = subparsers.add_parser(
        "trace",
        description="Gather the logs of real nodes into a run, bring logs of other systems into the"
        " form that verify, metrics and report read, and write runs for other tools.",
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    _add_import(actions)
    _add_export(actions)
    add_gather(actions)
    add_compact(actions)


def _add_import(actions: Any) -> None:
    parser = actions.add_parser(
        "import",
        help="make a run of a log in JSON lines",
        description="Make a run of a log that another system wrote, so that it can be verified.",
        epilog=IMPORT_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "logs", nargs="+", type=place, metavar="LOG",
        help="files with one JSON object per line; a URI such as s3a://… is read by Spark",
    )  # fmt: skip
    parser.add_argument("--out", type=place, required=True, metavar="RUN", help="folder to write")
    parser.add_argument(
        "--redelivery",
        choices=REDELIVERY,
        default="none",
        help="after_recover: the system may deliver a message again after a restart",
    )
    parser.add_argument(
        "--spark", action="store_true", help="on Spark, as files beyond 64 MB and several files are"
    )
    add_spark_options(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run_import)


def _add_export(actions: Any) -> None:
    parser = actions.add_parser(
        "export",
        help="write a run for ShiViz or as JSON lines",
        description="Write a run for another tool: `shiviz` with full vector clocks, to be opened"
        " at https://bestchai.bitbucket.io/shiviz/; `jsonl` as `trace import` reads it.",
    )
    parser.add_argument("folder", type=place, metavar="RUN", help=RUN_HELP)
    add_spark_options(parser)
    parser.add_argument("--format", choices=sorted(FORMATS), required=True, help="what to write")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="file to write")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run_export)


def run_import(options: argparse.Namespace) -> int:
    """Read a foreign log and write a run."""
    here = [log for log in options.logs if isinstance(log, Path)]
    for log in here:
        if not log.is_file():
            raise TraceError(f"{log}: cannot be read (no such file)")
    size = sum(log.stat().st_size for log in here)
    asked = options.spark or options.master or options.remote
    if (
        asked
        or remote_ones([*options.logs, options.out])
        or len(options.logs) > 1
        or size > IN_THIS_PROCESS
    ):
        return _import_on_spark(options)
    run = import_log(options.logs[0], options.redelivery)
    write_run(options.out, run)
    _say(options, run, options.out)
    return 0


def _import_on_spark(options: argparse.Namespace) -> int:
    require("spark", "`causalcast trace import` on Spark")
    from causalcast.pipeline.foreign_import import import_logs
    from causalcast.pipeline.session import make_session

    with Console(stderr=True).status(f"importing {len(options.logs)} log(s)"):
        spark = make_session(options.master, options.remote)
        found = import_logs(spark, options.logs, options.out, options.redelivery)
    if options.json:
        print(json.dumps({"out": str(options.out), **found}))
    else:
        print(
            f"{options.out}: {found['events']:,} events of {found['nodes']:,} nodes in"
            f" {found['groups']:,} groups"
        )
    return 0


def run_export(options: argparse.Namespace) -> int:
    """Read a run and write it for another tool."""
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
