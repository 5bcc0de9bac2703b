"""`causalcast dashboard`: a live view of the nodes of a folder, in a browser."""

import argparse
import dataclasses
import threading
from pathlib import Path
from typing import Any

from causalcast.cli.shared.node_client import DEFAULT_DIR
from causalcast.cli.shared.open_page import serve_page
from causalcast.dashboard.cluster_view import ClusterView
from causalcast.dashboard.serving import DashboardServer
from causalcast.errors import ConfigError
from causalcast.runtime.links.address_book import Address

DEFAULT_LISTEN = "127.0.0.1:8766"


def add_to(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "dashboard",
        description="Show nodes, links, groups, rates, what is held and kept, alarms and events of "
        "the nodes in a folder, live and read-only, in a browser.",
        epilog="Only who has the token in the printed address is answered. Nodes of other hosts "
        "are shown as far as nodes here have links to them.",
    )
    parser.add_argument(
        "dir",
        type=Path,
        nargs="?",
        default=None,
        metavar="DIR",
        help=f"the folder of the cluster or of a node (default: {DEFAULT_DIR} if there is one, "
        "else the folder you are in)",
    )
    parser.add_argument(
        "--listen",
        default=DEFAULT_LISTEN,
        metavar="HOST:PORT",
        help="where the page is served; port 0: any (default: %(default)s). It is plain HTTP: "
        "beyond this machine, put TLS before it",
    )
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C."""
    place = options.dir or (DEFAULT_DIR if DEFAULT_DIR.is_dir() else Path())
    server = dashboard_of(place, options.listen, "--listen")
    serve_page(server, server.address, "the dashboard", not options.no_browser)
    return 0


def dashboard_of(place: Path, listen: str, option: str) -> DashboardServer:
    """A server that shows the nodes in `place`; ConfigError or NodeError where that cannot be."""
    host, _, port = listen.rpartition(":")
    any_port = port == "0"
    try:
        address = Address.parse(f"{host}:1" if any_port else listen)
    except ValueError as error:
        raise ConfigError(f"{option} {listen}: expected {error}") from None
    if any_port:
        address = dataclasses.replace(address, port=0)
    return DashboardServer(ClusterView(place), address, option)


def serve_beside(server: DashboardServer) -> threading.Thread:
    """Serve in a thread, until `server.close`."""
    thread = threading.Thread(target=server.serve, name="dashboard-http", daemon=True)
    thread.start()
    return thread
