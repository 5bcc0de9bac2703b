"""The example's replicated map on real processes: killed and back, nothing lost or doubled."""

import importlib.util
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from causalcast.errors import NodeError
from causalcast.runtime.operating.local_cluster import ClusterPlan, LocalCluster

EXAMPLE = Path(__file__).parents[2] / "examples" / "replicated_map.py"
NODES = [1, 2, 3]


def load_example() -> Any:
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("replicated_map", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


example = load_example()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Three processes of the example."""
    plan = ClusterPlan(
        nodes=3,
        overlay="full_mesh",
        groups={"map": NODES},
        command=(sys.executable, str(EXAMPLE), "node"),
    )
    made = LocalCluster(tmp_path / "map", plan)
    made.start_all()
    yield made
    for node in NODES:
        if made.is_running(node):
            made.kill(node)


class Adder(threading.Thread):
    """A client that adds at one node after the other, and goes on when one is killed."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(name=name)
        self.folder = folder
        self.answered = self.unanswered = 0
        self.backwards: list[str] = []
        self.is_told_to_stop = False

    def run(self) -> None:
        session, turn, total = "", 0, 0
        while not self.is_told_to_stop:
            turn += 1
            node = NODES[turn % 3]
            try:
                answer = example.ask(self.folder, node, "add", self.name, 1, session=session)
                session = answer["session"]
                self.answered += 1
            except (NodeError, OSError):
                self.unanswered += 1  # it may count or not
                time.sleep(0.05)
                continue
            try:
                node = NODES[(turn + 1) % 3]
                answer = example.ask(self.folder, node, "total", self.name, session=session)
            except (NodeError, OSError):
                continue
            session = answer["session"]
            if answer["result"] < max(total, self.answered):
                self.backwards.append(f"{answer['result']} after {total} and {self.answered}")
            total = answer["result"]


def test_killed_nodes_lose_and_double_nothing(cluster: LocalCluster) -> None:
    """Each node is killed once while two clients add, and move on with every request."""
    adders = [Adder(cluster.folder, name) for name in ("one", "two")]
    for adder in adders:
        adder.start()
    for node in NODES:
        time.sleep(0.3)
        cluster.kill(node)
        cluster.come_back(node)
    time.sleep(0.3)
    session = ""
    for adder in adders:
        adder.is_told_to_stop = True
        adder.join()
        assert adder.backwards == []
        assert adder.answered > 20
    for node in NODES:  # one session at all of them: each has what all of them have
        session = example.ask(cluster.folder, node, "items", session=session)["session"]
    for adder in adders:
        totals = [
            example.ask(cluster.folder, node, "total", adder.name, session=session)["result"]
            for node in NODES
        ]
        assert len(set(totals)) == 1
        assert adder.answered <= totals[0] <= adder.answered + adder.unanswered
    assert sum(adder.unanswered for adder in adders) > 0
    assert cluster.stop_all() == []
