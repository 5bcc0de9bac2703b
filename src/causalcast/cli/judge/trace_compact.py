"""`causalcast trace compact`: pieces of logs become files of whole logs."""

import argparse
import json
from pathlib import Path
from typing import Any

from causalcast.cli.shared.output import progress_bar
from causalcast.cli.shared.places import ONE_RUN_HELP, place
from causalcast.cli.shared.spark_options import add_spark_options, spark_maker
from causalcast.errors import TraceError


def add_compact(subparsers: Any) -> None:
    """Declare `trace compact`."""
    parser = subparsers.add_parser(
        "compact",
        help="write a run anew in files of whole logs",
        description="Write a run anew in the layout that checks read fastest: whole logs, sorted,"
        " about a million rows per file.",
    )
    parser.add_argument("folder", type=place, metavar="RUN", help=ONE_RUN_HELP)
    parser.add_argument("--out", type=place, required=True, metavar="RUN", help="a new folder")
    add_spark_options(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run_compact)


def run_compact(options: argparse.Namespace) -> int:
    """Compact, and say what came out."""
    from causalcast.pipeline.logs.compaction import compact
    from causalcast.pipeline.spark.remote_files import exists, written_to
    from causalcast.pipeline.spark.remote_runs import whole_run

    make_spark = spark_maker(options)
    spark = None
    if not isinstance(options.out, Path):
        spark = make_spark()
        if exists(spark, options.out):
            raise TraceError(f"{options.out}: already exists; remove it or choose another --out")
    with (
        whole_run(options.folder, make_spark) as folder,
        written_to(spark, options.out) as out,
        progress_bar("compacting", quiet=options.json) as progress,
    ):
        found = compact(folder, out, progress)
    if options.json:
        print(json.dumps({"out": str(options.out), **found}))
    else:
        print(
            f"{options.out}: {found['events']:,} events,"
            f" {found['files_before']:,} files became {found['files']:,}"
        )
    return 0
