"""`causalcast trace import`: what other systems logged becomes a run."""

import argparse
import json
from pathlib import Path
from typing import Any

from rich.console import Console

from causalcast.cli.extras import require
from causalcast.cli.places import place, remote_ones
from causalcast.cli.spark_options import add_spark_options
from causalcast.trace.foreign_log import import_records, records_of
from causalcast.trace.log_files import LogFiles, log_files
from causalcast.trace.run_folder import write_run
from causalcast.trace.run_header import REDELIVERY

IN_THIS_PROCESS = 64 << 20  # bytes of text; more is imported on Spark

IMPORT_EPILOG = """
one JSON object per line:
  {"node": "a", "pos": 0, "kind": "publish", "message": "hello", "group": "chat"}
  {"node": "b", "time": 1.25, "kind": "deliver", "message": "hello", "group": "chat"}

`kind` is publish, deliver, join, leave, crash, recover or another kind of a trace; `pos` or `time`
(seconds) gives the order within a node. A `join` line before a node's first publish or deliver
makes it a founding member; a later one, or one with "late": true, a late one. In a group without
join lines the members are the nodes that publish or deliver in it.
"""


def add_import(actions: Any) -> None:
    """Declare `trace import`."""
    parser = actions.add_parser(
        "import",
        help="make a run of a log in JSON lines",
        description="Make a run of a log that another system wrote, so that it can be verified.",
        epilog=IMPORT_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "logs", nargs="+", type=place, metavar="LOG",
        help="files with one JSON object per line, also .gz and .zst, folders of such, - for"
        " standard input; a URI such as s3a://… is read by Spark",
    )  # fmt: skip
    parser.add_argument("--out", type=place, required=True, metavar="RUN", help="folder to write")
    parser.add_argument(
        "--redelivery",
        choices=REDELIVERY,
        default="none",
        help="after_recover: the system may deliver a message again after a restart",
    )
    parser.add_argument(
        "--spark", action="store_true", help="on Spark, as logs beyond 64 MB of text are"
    )
    add_spark_options(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run_import)


def run_import(options: argparse.Namespace) -> int:
    """Read foreign logs and write a run."""
    with log_files([log for log in options.logs if isinstance(log, Path)]) as files:
        elsewhere = remote_ones(options.logs)
        asked = options.spark or options.master or options.remote
        on_spark = asked or elsewhere or remote_ones([options.out])
        if on_spark or files.bytes_of_text > IN_THIS_PROCESS:
            found = _import_on_spark(options, [*files.paths, *elsewhere])
        else:
            found = _import_here(options, files)
    left_out = found["left_out"]
    if options.json:
        print(json.dumps({"out": str(options.out), **found}))
    else:
        print(
            f"{options.out}: {found['events']:,} events of {found['nodes']:,} nodes in"
            f" {found['groups']:,} groups"
        )
        for what in left_out:
            print(f"left out: {what}")
    return 0


def _import_here(options: argparse.Namespace, files: LogFiles) -> dict[str, Any]:
    run = import_records(records_of(files), files.title, options.redelivery)
    write_run(options.out, run)
    sizes = {"events": len(run.events), "nodes": len(run.nodes), "groups": len(run.groups)}
    return {**sizes, "left_out": files.left_out}


def _import_on_spark(options: argparse.Namespace, logs: list[Any]) -> dict[str, Any]:
    require("spark", "`causalcast trace import` on Spark")
    from causalcast.pipeline.foreign_import import import_logs
    from causalcast.pipeline.session import make_session

    with Console(stderr=True).status(f"importing {len(logs)} log(s)"):
        spark = make_session(options.master, options.remote)
        return import_logs(spark, logs, options.out, options.redelivery)
