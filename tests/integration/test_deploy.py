"""The command of the systemd unit and of the container file starts a node, and SIGTERM ends it.

Neither systemd nor a container engine is needed: their files are read, and what they would run is
run, with the folder of a test in the place of theirs.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import causalcast
from causalcast.errors import NodeError
from causalcast.runtime.operating.control_client import ControlClient
from causalcast.runtime.operating.local_cluster import ClusterPlan, LocalCluster

DEPLOY = Path(__file__).parents[2] / "deploy"


def settings(unit: str) -> dict[str, str]:
    """The keys of a unit file; their sections do not matter here."""
    lines = [line for line in unit.splitlines() if "=" in line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def command_of_unit(folder: Path) -> list[str]:
    unit = settings((DEPLOY / "causalcast@.service").read_text())
    home = "/var/lib/causalcast/%i"
    assert unit["WorkingDirectory"] == home and unit["StateDirectory"] == "causalcast/%i"
    return unit["ExecStart"].replace(home, str(folder)).split()


def command_of_container(folder: Path) -> list[str]:
    lines = (DEPLOY / "Containerfile").read_text().splitlines()
    said = dict(line.split(" ", 1) for line in lines if line and line[0].isupper())
    assert said["VOLUME"] == said["WORKDIR"] == "/node" and said["STOPSIGNAL"] == "SIGTERM"
    command: list[str] = json.loads(said["ENTRYPOINT"]) + json.loads(said["CMD"])
    return [word.replace("/node/", f"{folder}/") for word in command]


@pytest.mark.parametrize("command_of", [command_of_unit, command_of_container])
def test_what_the_file_runs_is_a_node(
    command_of: Callable[[Path], list[str]], tmp_path: Path
) -> None:
    cluster = LocalCluster(tmp_path / "nodes", ClusterPlan(nodes=1, overlay="full_mesh"))
    folder = cluster.folder_of(1)
    program, *arguments = command_of(folder)
    assert Path(program).name == "causalcast"
    source = str(Path(causalcast.__file__).parents[1])  # installed or not
    node = subprocess.Popen(
        [sys.executable, "-m", "causalcast", *arguments],
        cwd=folder,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": source},
    )
    try:
        deadline = time.monotonic() + 20
        while not _answers(folder):
            assert node.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        node.send_signal(signal.SIGTERM)
        _, said = node.communicate(timeout=30)
    assert node.returncode == 0 and b"stopped in good order" in said


def _answers(folder: Path) -> bool:
    try:
        with ControlClient(folder, 1) as client:
            return bool(client.ask("status")["takes_part"])
    except NodeError:
        return False


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_the_unit_exposes_little() -> None:
    unit = DEPLOY / "causalcast@.service"
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    if "unrecognized option" in done.stderr:
        pytest.skip("a systemd-analyze that cannot look at files")
    assert done.returncode == 0, done.stdout[-400:]  # 20 is an exposure of 2.0


def test_the_container_file_keeps_to_good_practice() -> None:
    """What a linter of container files looks at first."""
    lines = (DEPLOY / "Containerfile").read_text().splitlines()
    words = [line.split() for line in lines if line and line[0].isupper()]
    images = [line[1] for line in words if line[0] == "FROM"]
    assert all(":" in image and not image.endswith(":latest") for image in images)
    assert all(Path(line[1]).is_absolute() for line in words if line[0] == "WORKDIR")
    users = [line[1] for line in words if line[0] == "USER"]
    assert users and users[-1] not in ("root", "0")
    assert not [line for line in words if line[0] == "ADD" or "sudo" in line]
    runs = [line for line in lines if "pip install" in line]
    assert runs and all("--no-cache-dir" in line for line in runs)
    for line in lines:
        if line.startswith(("ENTRYPOINT", "CMD")):
            assert json.loads(line.split(" ", 1)[1]), "in the form that needs no shell"
    (health,) = [line for line in lines if line.startswith("HEALTHCHECK")]
    assert json.loads(health.partition("CMD ")[2]) == ["causalcast", "status", "--dir", "/node"]
