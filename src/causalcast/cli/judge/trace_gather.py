"""`causalcast trace gather`: the logs of real nodes become a run."""

import argparse
import json
from pathlib import Path
from typing import Any


def add_gather(subparsers: Any) -> None:
    """Declare `trace gather`."""
    parser = subparsers.add_parser("gather", help="make a run from the logs of real nodes")
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="searched for logs")
    parser.add_argument("--out", type=Path, required=True, metavar="RUN", help="a new folder")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run_gather)


def run_gather(options: argparse.Namespace) -> int:
    """Gather the logs, and print what the run contains."""
    from causalcast.trace.gather import gather

    run = gather(options.folders, options.out)
    found = {
        "run": str(options.out),
        "run_id": run.header.run_id,
        "nodes": run.nodes.num_rows,
        "events": run.events.num_rows,
        "faults": run.header.faults,
        "complete": run.header.complete,
    }
    if options.json:
        print(json.dumps(found))
    else:
        crashes = run.header.faults.get("crash", 0)
        print(
            f"{options.out}: {found['events']} events of {found['nodes']} nodes, "
            f"{crashes} {'crash' if crashes == 1 else 'crashes'}"
        )
        if not run.header.complete:
            print("the logs of some members are missing, so the run is incomplete")
    return 0
