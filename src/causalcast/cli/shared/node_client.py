"""Commands that speak with a running node through its control socket."""

import argparse
from pathlib import Path
from typing import Any

from causalcast.errors import CausalcastError
from causalcast.runtime.operating.control_client import ControlClient

DEFAULT_DIR = Path("causalcast-cluster")


def add_client(subparsers: Any, name: str, text: str, run: Any) -> argparse.ArgumentParser:
    """Declare a command that asks one node."""
    parser: argparse.ArgumentParser = subparsers.add_parser(name, description=text)
    parser.add_argument("--node", type=int, required=True, metavar="N", help="which node to ask")
    parser.add_argument("--dir", type=Path, default=DEFAULT_DIR, help="the folder given to `up`")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)
    return parser


def client_of(options: argparse.Namespace) -> ControlClient:
    """A line to the node that the options name."""
    folder = options.dir / f"node-{options.node}"
    if not folder.is_dir():
        raise CausalcastError(
            f"{options.dir}: no node {options.node} there; is this the --dir of `up`?"
        )
    return ControlClient(folder, options.node)
