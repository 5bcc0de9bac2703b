"""Experiments with many real nodes, as their commands run them."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from causalcast.cli.main import main
from causalcast.errors import ConfigError, NodeError
from causalcast.experiments.experiment import Experiment
from causalcast.experiments.plan import spread
from causalcast.experiments.site import read_site
from causalcast.trace.run_folder import read_run

SOURCE = Path(__file__).parents[2] / "src"
TWO_MACHINES = """
[[machine]]
name = "first"

[[machine]]
name = "second"
address = "127.0.0.2"
run = ["env", "WHERE=there"]
"""


Bootstrap = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def bootstrap() -> Iterator[Bootstrap]:
    """The command in a process of its own, as people run it in a terminal of its own."""
    started: list[subprocess.Popen[bytes]] = []

    def start(folder: Path, *arguments: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "causalcast", "experiment", "bootstrap", "--no-tls"]
        process = subprocess.Popen(
            [*command, "--dir", str(folder), *arguments],
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            stdout=subprocess.PIPE,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.terminate()  # it stops its nodes then
        process.wait(60)


@pytest.mark.slow
def test_twelve_nodes_on_two_machines(
    bootstrap: Bootstrap, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Bootstrap, two triggers at different nodes, and one command that gathers and judges."""
    site, folder = tmp_path / "site.toml", tmp_path / "experiment"
    site.write_text(TWO_MACHINES)
    where = ["--dir", str(folder)]
    nodes = bootstrap(folder, "--site", str(site), "--processes", "6", "--broadcasters", "3")
    experiment = wait_for_nodes(folder, 12)
    assert experiment.plan.broadcasters == [1, 5, 9]
    assert experiment.plan.machines == {
        "first": [1, 2, 3, 4, 5, 6],
        "second": [7, 8, 9, 10, 11, 12],
    }
    told = ["--broadcasts", "10", "--payload", "100", "--interval-ms", "10"]
    assert main(["experiment", "trigger", *told, *where]) == 0
    assert main(["experiment", "trigger", *told, "--node", "8", *where]) == 0
    assert main(["experiment", "collect", "--local", *where]) == 0
    assert nodes.wait(30) == 0

    assert "verdict: ok  (12 nodes, 62 publications, 744 deliveries)" in capfd.readouterr().out
    rows = read_run(folder / "run").events.to_pylist()
    published = [(row["node"], row["payload_bytes"]) for row in rows if row["kind"] == "publish"]
    by_node = {node: [size for n, size in published if n == node] for node, _ in published}
    assert {node: len(sizes) for node, sizes in by_node.items()} == {1: 21, 5: 20, 8: 1, 9: 20}
    assert by_node[5] == [100] * 20
    hosts = [
        re.findall(r'^listen = "(.*):', (folder / f"node-{node}/node.toml").read_text(), re.M)
        for node in (1, 12)
    ]
    assert hosts == [["127.0.0.1"], ["127.0.0.2"]]


def test_a_node_that_is_missing_is_not_overlooked(bootstrap: Bootstrap, tmp_path: Path) -> None:
    """With one node stopped, not everybody can have everything, and the experiment says so."""
    folder = tmp_path / "experiment"
    nodes = bootstrap(folder, "--processes", "4")
    experiment = wait_for_nodes(folder, 4)
    assert nodes.stdout is not None
    assert nodes.stdout.readline()  # it has seen all of them run, and no longer waits for any
    with pytest.raises(NodeError, match="payload: expected a number from 0 to"):
        experiment.trigger(1, -1, 0)
    experiment.ask(3, "stop")
    experiment.trigger(broadcasts=3, payload=8, interval_ms=1)
    assert not experiment.wait_until_over(1.0, lambda text: None)
    progress = experiment.progress()
    assert (progress.answering, progress.nodes, progress.complete) == (3, 4, 3)
    experiment.stop()
    assert nodes.wait(30) == 0


def test_wrong_parameters_are_told_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected `local` or a TOML file"):
        read_site("rennes")
    (tmp_path / "site.toml").write_text('[[machine]]\nname = "a"\naddress = "somewhere"\n')
    with pytest.raises(ConfigError, match="an IP address"):
        read_site(str(tmp_path / "site.toml"))
    (tmp_path / "site.toml").write_text('[[machine]]\nname = "a"\n[[machine]]\nname = "a"\n')
    with pytest.raises(ConfigError, match="different names"):
        read_site(str(tmp_path / "site.toml"))
    with pytest.raises(ConfigError, match="expected 1 to 3"):
        spread([1, 2, 3], 4)
    with pytest.raises(ConfigError, match="no experiment was started here"):
        Experiment(tmp_path)


def wait_for_nodes(folder: Path, count: int) -> Experiment:
    """Wait until so many nodes take part."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if (folder / "experiment.json").exists():
            experiment = Experiment(folder)
            if sum(experiment.takes_part(node) for node in experiment.plan.nodes) == count:
                return experiment
        time.sleep(0.1)
    raise AssertionError("the nodes do not start")
