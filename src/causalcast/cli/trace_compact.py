"""`causalcast trace compact`: pieces of logs become files of whole logs."""

import argparse
import json
from pathlib import Path
from typing import Any

from causalcast.cli.output import progress_bar
from causalcast.cli.spark_options import needs_pipeline


def add_compact(subparsers: Any) -> None:
    """Declare `trace compact`."""
    parser = subparsers.add_parser(
        "compact",
        help="write a run anew in files of whole logs",
        description="Write a run anew in the layout that checks read fastest: whole logs, sorted,"
        " about a million rows per file.",
    )
    parser.add_argument("folder", type=Path, metavar="RUN", help="folder of a run")
    parser.add_argument("--out", type=Path, required=True, metavar="RUN", help="a new folder")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run_compact)


def run_compact(options: argparse.Namespace) -> int:
    """Compact, and say what came out."""
    with needs_pipeline():
        from causalcast.pipeline.compaction import compact
    with progress_bar("compacting", quiet=options.json) as progress:
        found = compact(options.folder, options.out, progress)
    if options.json:
        print(json.dumps({"out": str(options.out), **found}))
    else:
        print(
            f"{options.out}: {found['events']:,} events,"
            f" {found['files_before']:,} files became {found['files']:,}"
        )
    return 0
