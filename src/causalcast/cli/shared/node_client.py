"""Commands that speak with a running node through its control socket."""

import argparse
from pathlib import Path
from typing import Any

from causalcast.runtime.operating.control_client import ControlClient
from causalcast.runtime.operating.node_folders import find_node

DEFAULT_DIR = Path("causalcast-cluster")


def add_client(subparsers: Any, name: str, text: str, run: Any) -> argparse.ArgumentParser:
    """Declare a command that asks one node."""
    parser: argparse.ArgumentParser = subparsers.add_parser(name, description=text)
    add_node(parser, "which node to ask")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)
    return parser


def add_node(parser: argparse.ArgumentParser, text: str) -> None:
    """Declare the options that name a node."""
    parser.add_argument(
        "--node",
        metavar="N",
        help=f"{text}: its id, or the name of its folder (default: the only one in --dir)",
    )
    parser.add_argument(
        "--dir",
        type=Path,
        default=None,
        help=f"the folder of the cluster or of the node (default: {DEFAULT_DIR} if there is one, "
        "else the folder you are in)",
    )


def client_of(options: argparse.Namespace) -> ControlClient:
    """A line to the node that the options name, who is `options.node` from then on."""
    place = options.dir or (DEFAULT_DIR if DEFAULT_DIR.is_dir() else Path())
    found = find_node(place, options.node)
    options.node = found.name
    return ControlClient(found.folder, found.name)
