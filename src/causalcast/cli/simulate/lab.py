"""`causalcast lab`: a page that runs scenarios, draws what happens, and lets people interfere."""

import argparse
from pathlib import Path
from typing import Any

from causalcast.cli.shared.open_page import serve_page
from causalcast.errors import ConfigError
from causalcast.lab.engine import Lab
from causalcast.lab.serving import EngineProcess, LabServer
from causalcast.lab.site import (
    HOW_TO_GET_IT,
    choice_of_run,
    config,
    export,
    first_run,
    kept_pyodide,
    page_files,
    site,
    story,
)

DEFAULT_PORT = 8765


def add_to(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "lab",
        description="Open the lab in a browser: choose a scenario and a protocol, watch messages "
        "and what waits for what, crash nodes and cut links, change the protocol and see it break.",
        epilog="The engine is a process of this machine, or with --pyodide Python inside the page; "
        f"{HOW_TO_GET_IT}. Example: causalcast lab --export site --pyodide pyodide-314.0.7.tgz",
    )
    parser.add_argument(
        "--port", type=int, default=DEFAULT_PORT, help="on 127.0.0.1; 0: any (default: %(default)s)"
    )
    parser.add_argument(
        "--pyodide", type=Path, metavar="PLACE", help="folder or .tgz of the npm package pyodide"
    )
    parser.add_argument(
        "--export", type=Path, metavar="FOLDER", help="write the page with all it needs, and end"
    )
    parser.add_argument(
        "--run", type=Path, metavar="RUN", dest="folder", help="begin with this simulated run"
    )
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C, or write it."""
    pyodide = options.pyodide or kept_pyodide()
    choice = story() if options.folder is None else choice_of_run(options.folder)
    if options.export is not None:
        if pyodide is None:
            raise ConfigError(f"--export: Python inside the page needs --pyodide; {HOW_TO_GET_IT}")
        export(site(pyodide, choice), options.export)
        print(f"wrote {options.export}; any web server can serve it:")
        print(f"python -m http.server --directory {options.export}")
        return 0
    if pyodide is not None:
        server = LabServer(site(pyodide, choice), None, options.port)
    else:
        lab = Lab()
        first = first_run(lab, choice)
        lab.close()
        files = {**page_files(), "config.json": config("process"), "first.json": first}
        server = LabServer(files, EngineProcess(), options.port)
    serve_page(server, server.address, "the lab", not options.no_browser)
    return 0
