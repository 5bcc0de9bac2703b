"""Processes of recipes, the nodes that they use, and what is said to them over HTTP."""

import contextlib
import http.client
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from loopback_nodes import free_ports

import causalcast
from causalcast.runtime.operating.local_cluster import ClusterPlan, LocalCluster

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "examples" / "recipes"
PATIENCE = 60.0  # seconds; the machine may be busy
SOURCE = str(Path(causalcast.__file__).parents[1])  # installed or not


def soon(condition: Callable[[], object], what: str) -> None:
    """Return when it holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.02)


class Http:
    """A server of this machine, spoken with over a new connection each time."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def ask(self, path: str, words: dict[str, Any] | None = None) -> dict[str, Any]:
        """GET, or POST if there is something to say; again until there is an answer."""
        body = None if words is None else json.dumps(words).encode()
        deadline = time.monotonic() + PATIENCE
        while True:
            request = urllib.request.Request(f"{self.url}{path}", body)
            request.add_header("Content-Type", "application/json")
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    found: dict[str, Any] = json.load(answer)
                    return found
            except (urllib.error.URLError, OSError, http.client.HTTPException) as error:
                assert time.monotonic() < deadline, f"{path}: {error!r}"
                time.sleep(0.05)


@contextlib.contextmanager
def cluster(folder: Path, nodes: int, group: str, **others: Any) -> Iterator[LocalCluster]:
    """Nodes as processes, on a line, with doors."""
    groups = {group: list(range(1, nodes + 1))}
    plan = ClusterPlan(nodes, overlay="line", groups=groups, tls=False, clients=True, **others)
    made = LocalCluster(folder, plan)
    try:
        yield made
    finally:
        for node in made.ids:
            if made.is_running(node):
                made.kill(node)


@contextlib.contextmanager
def process(*command: object, **environment: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A program of Python beside the recipes; it is killed at the end."""
    started = subprocess.Popen(
        [sys.executable, *map(str, command)],
        cwd=RECIPES,
        env={**os.environ, "PYTHONPATH": f"{SOURCE}:{os.environ.get('PYTHONPATH', '')}"}
        | environment,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
    )
    try:
        yield started
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, 9)
        started.wait()


__all__ = ["RECIPES", "Http", "cluster", "free_ports", "process", "soon"]
