"""A text that several people edit in their browsers, over three nodes of which any may die.

    npm install yjs y-protocols
    python examples/shared_editor/serve.py

It makes three nodes with doors, as processes, serves the page, and prints an address for each of
Ada, Bob and the boss. `kill 1` and `start 1`, typed here, end a node with SIGKILL and bring it
back. Ctrl-C or the end of its input stops everything. What was written stays in the folder of
`--dir`.
"""

import argparse
import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import causalcast.clients

HERE = Path(__file__).parent
CLIENTS = Path(causalcast.clients.__file__).parent  # causalcast.js and causalcast_yjs.js
PEOPLE = {"Ada": 1, "Bob": 2, "boss": 3}  # who is at which node first
IMPORTED = ("yjs", "lib0", "y-protocols")
TOML = """\
[node]
id = {node}
listen = "127.0.0.1:{listen}"
[cluster]
peers = {{ {peers} }}
[protocol]
name = "vector_clock_broadcast"
[groups]
acl = "*"
doc = "*"
[security]
tls = false  # all on this machine; docs/clients.md has tokens and TLS
[storage]
path = "data"
[clients]
listen = "127.0.0.1:{door}"
origins = ["{origin}"]
"""


class Nodes:
    """Three nodes, each a process."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.doors = {node: f"ws://127.0.0.1:{port + 10 + node}" for node in (1, 2, 3)}
        peers = ", ".join(f'{node} = "127.0.0.1:{port + node}"' for node in self.doors)
        for node in self.doors:
            toml = TOML.format(
                node=node,
                listen=port + node,
                peers=peers,
                door=port + 10 + node,
                origin=f"http://127.0.0.1:{port}",
            )
            (folder / f"node-{node}").mkdir(parents=True, exist_ok=True)
            (folder / f"node-{node}" / "node.toml").write_text(toml)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, node: int) -> None:
        """Start a node, unless it runs."""
        if node in self._processes and self._processes[node].poll() is None:
            return
        place = self.folder / f"node-{node}"
        with (place / "node.log").open("ab") as log:
            self._processes[node] = subprocess.Popen(
                [sys.executable, "-m", "causalcast", "node", str(place / "node.toml")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for us
            )

    def wait_open(self) -> None:
        """Return when all doors are open."""
        for node, url in self.doors.items():
            host, _, port = url.removeprefix("ws://").partition(":")
            while True:
                if self._processes[node].poll() is not None:
                    raise SystemExit(f"node {node} ended: see {self.folder}/node-{node}/node.log")
                with contextlib.suppress(OSError):
                    socket.create_connection((host, int(port)), timeout=1).close()
                    break
                time.sleep(0.05)

    def end(self, node: int, how: signal.Signals) -> None:
        """Send a signal to a node, and wait until it has ended."""
        self._processes[node].send_signal(how)
        self._processes[node].wait()

    def stop(self) -> None:
        """Stop all in good order."""
        for node in self._processes:
            self.end(node, signal.SIGTERM)


class Pages(SimpleHTTPRequestHandler):
    """The page, and the modules that it imports."""

    def __init__(self, *given: Any, page: bytes, modules: Path, **others: Any) -> None:
        self._page = page
        self._modules = modules
        super().__init__(*given, **others)

    def do_GET(self) -> None:
        """The page has no name; all else is a file."""
        if self.path.partition("?")[0] != "/":
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(self._page)

    def translate_path(self, path: str) -> str:
        """Modules of npm, ours, or what lies beside this file."""
        name = super().translate_path(path.partition("?")[0])
        asked = os.path.relpath(name, self.directory)  # nothing above the folder gets so far
        if asked.startswith("modules/"):
            return str(self._modules / asked.removeprefix("modules/"))
        return str((CLIENTS if (CLIENTS / asked).suffix == ".js" else HERE) / asked)

    def log_message(self, format: str, *_: Any) -> None:  # noqa: A002
        """Nothing."""


def import_map(modules: Path) -> dict[str, str]:
    """Which file a browser takes for each name that may be imported, as package.json says."""
    found = {}
    for package in IMPORTED:
        described = json.loads((modules / package / "package.json").read_text())
        for name, target in described["exports"].items():
            while isinstance(target, dict):  # the first kind that fits, as everybody reads it
                kinds = ("browser", "module", "import", "default")
                target = next((target[kind] for kind in target if kind in kinds), None)
            if target is not None and str(target).endswith((".js", ".mjs")):
                found[package + name[1:]] = f"/modules/{package}/{target[2:]}"
    return found


def main() -> int:
    """Start everything, and obey."""
    parser = argparse.ArgumentParser(description="A text that several people edit.")
    parser.add_argument("--dir", type=Path, default=Path("shared-editor"), help="of the nodes")
    parser.add_argument("--modules", type=Path, default=Path("node_modules"), help="of npm")
    parser.add_argument("--port", type=int, default=7600, help="and those up to 13 above it")
    given = parser.parse_args()
    if not (given.modules / "yjs").is_dir() or not (given.modules / "y-protocols").is_dir():
        parser.error(f"{given.modules} has no yjs and y-protocols: npm install yjs y-protocols")
    nodes = Nodes(given.dir, given.port)
    page = (HERE / "editor.html").read_text()
    page = page.replace("IMPORTS", json.dumps({"imports": import_map(given.modules)}))
    page = page.replace("DOORS", json.dumps(nodes.doors))
    handler = functools.partial(
        Pages, page=page.encode(), modules=given.modules.resolve(), directory=str(HERE)
    )
    with ThreadingHTTPServer(("127.0.0.1", given.port), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            for node in nodes.doors:
                nodes.start(node)
            nodes.wait_open()
            for name, node in PEOPLE.items():
                print(f"{name}: http://127.0.0.1:{given.port}/?me={name}&node={node}", flush=True)
            for line in sys.stdin:
                words = line.split()
                if len(words) != 2 or words[0] not in ("kill", "start") or words[1] not in "123":
                    print("expected: kill NODE, or start NODE, of nodes 1 to 3", flush=True)
                elif words[0] == "kill":
                    nodes.end(int(words[1]), signal.SIGKILL)
                else:
                    nodes.start(int(words[1]))
        except KeyboardInterrupt:
            pass
        finally:
            nodes.stop()
            server.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
