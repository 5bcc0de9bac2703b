"""How soon LoCaMu goes on around nodes that fall, f = 1, on real nodes: five processes on a line.

All publish as fast as they can. In the middle of it nodes are killed, or stand still; each single
node, and each pair that f = 1 allows. A moment later the others stop, too. Measured is how long it
takes from the fall until all others have delivered the same, and all that they had published. Then
the fallen come back, everybody gets everything, and the next one falls.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
from pathlib import Path

from causalcast.errors import NodeError
from causalcast.runtime.operating.control_client import ControlClient
from causalcast.runtime.operating.local_cluster import ClusterPlan, LocalCluster
from causalcast.version import VERSION, build_kind

NODES = 5
SINGLE = [(node,) for node in range(1, NODES + 1)]
PAIRS = [(1, 4), (1, 5), (2, 5)]  # of any three nodes in a row at most one
LOAD = 1.0  # seconds
AFTER = 0.3  # for so long the others publish when one has fallen
PATIENCE = 60.0


class Load:
    """Publishes at every node until it is told to stop, or the node falls."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._stop = threading.Event()
        self.published = dict.fromkeys(cluster.ids, 0)
        self._threads = {
            node: threading.Thread(target=self._publish, args=(node,), daemon=True)
            for node in cluster.ids
        }

    def start(self) -> None:
        """Begin to publish."""
        for thread in self._threads.values():
            thread.start()

    def stop(self, fallen: tuple[int, ...]) -> None:
        """Wait until those that did not fall have published their last."""
        self._stop.set()
        for node, thread in self._threads.items():
            if node not in fallen:
                thread.join()

    def end(self) -> None:
        """The fallen are back, and so are the answers that were waited for."""
        for thread in self._threads.values():
            thread.join()

    def _publish(self, node: int) -> None:
        folder = self._cluster.folder_of(node)
        try:
            with ControlClient(folder, node, timeout=PATIENCE) as client:
                while not self._stop.is_set():
                    client.ask("publish", group="all", text="under load")
                    self.published[node] += 1
        except NodeError:
            return  # it was killed


def delivered(cluster: LocalCluster, nodes: list[int]) -> list[int]:
    """How many messages these nodes have delivered."""
    return [cluster.ask(node, "status")["delivered"].get("all", 0) for node in nodes]


def wait_until_equal(cluster: LocalCluster, nodes: list[int], least: int) -> float:
    """When these nodes have delivered the same, and so many at least."""
    deadline = time.monotonic() + PATIENCE
    while True:
        counts = delivered(cluster, nodes)
        now = time.monotonic()
        if min(counts) == max(counts) >= least:
            return now
        if now > deadline:
            raise NodeError(f"nodes {nodes} still differ after {PATIENCE:.0f} s: {counts}")
        time.sleep(0.02)


def fall(cluster: LocalCluster, fallen: tuple[int, ...], freezes: bool) -> tuple[float, int]:
    """Let nodes fall under load; the seconds until the others went on, and what they published."""
    load = Load(cluster)
    before = delivered(cluster, [cluster.ids[0]])[0]
    load.start()
    time.sleep(LOAD)
    began = time.monotonic()
    for node in fallen:
        if freezes:
            cluster.pause(node)
        else:
            cluster.kill(node)
    time.sleep(AFTER)
    load.stop(fallen)
    others = [node for node in cluster.ids if node not in fallen]
    published = sum(load.published[node] for node in others)
    seconds = wait_until_equal(cluster, others, before + published) - began
    for node in fallen:
        if freezes:
            cluster.resume(node)
        else:
            cluster.start(node)
    cluster.wait_ready()
    load.end()
    wait_until_equal(cluster, cluster.ids, before + sum(load.published.values()))
    return seconds, published


def measure(folder: Path, tls: bool, cases: list[tuple[int, ...]], freezes: bool) -> list[float]:
    """Let each of these fall in turn, and print how long the others took."""
    plan = ClusterPlan(nodes=NODES, protocol="locamu", overlay="line", tls=tls, trace_level="none")
    cluster = LocalCluster(folder, plan)
    found: list[float] = []
    try:
        cluster.start_all()
        cluster.wait_linked()
        for fallen in cases:
            seconds, published = fall(cluster, fallen, freezes)
            found.append(seconds)
            how = "stand still" if freezes else "are killed"
            case = {"nodes": fallen, "how": how, "tls": tls, "published": published}
            print(json.dumps({**case, "seconds": round(seconds, 2)}), flush=True)
    finally:
        for node in cluster.ids:
            if cluster.is_running(node):
                cluster.kill(node)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-tls", action="store_true")
    options = parser.parse_args()
    print(f"causalcast {VERSION} ({build_kind()})", file=sys.stderr)
    for freezes in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "cluster"
            measure(path, not options.no_tls, [*SINGLE, *PAIRS], freezes)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
