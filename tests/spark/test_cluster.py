"""A real standalone master with two workers on loopback, and Spark Connect: the same commands.

The daemons are started here from what pip installed, and stopped by their process ids.
"""

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from causalcast.cli.main import main
from causalcast.pipeline.spark.java import find_java
from causalcast.testing.draft_run import DraftRun, message_id
from causalcast.trace.run_folder import write_run

ROOT = Path(__file__).parents[2]
PATIENCE = 120


@dataclass
class Standalone:
    """Where the master answers, and the working folders of its workers."""

    url: str
    work: list[Path]


def environment() -> dict[str, str]:
    paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        "JAVA_HOME": str(find_java().home),
        "PYTHONPATH": os.pathsep.join(paths),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def spark_home() -> Path:
    found = importlib.util.find_spec("pyspark")
    assert found is not None and found.origin is not None
    return Path(found.origin).parent


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    folder = tmp_path_factory.mktemp("cluster")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"spark://127.0.0.1:{port}"
    log = folder / "master.log"
    daemons = [start(log, "master.Master", "--port", str(port))]
    try:
        wait_for(log, "Starting Spark master", 1)
        work = [folder / "work1", folder / "work2"]
        for place in work:
            arguments = ("-c", "1", "-m", "1g", "-d", str(place), url)
            daemons.append(start(folder / f"{place.name}.log", "worker.Worker", *arguments))
        wait_for(log, "Registering worker", 2)
        yield Standalone(url, work)
    finally:
        for daemon in daemons:
            daemon.terminate()
        for daemon in daemons:
            daemon.wait(30)


def start(log: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    command = [str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
    command += ["--host", "127.0.0.1", "--webui-port", "0", *arguments]
    with log.open("wb") as out:
        return subprocess.Popen(command, env=environment(), stdout=out, stderr=out)


def wait_for(log: Path, text: str, times: int) -> None:
    end = time.monotonic() + PATIENCE
    while log.read_text().count(text) < times:
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.2)


def large_and_bad(folder: Path) -> list[Path]:
    """A run that is large enough to be spread over files, and a small one with an inversion."""
    spec = importlib.util.spec_from_file_location("large_runs", ROOT / "benchmarks/large_runs.py")
    assert spec is not None and spec.loader is not None
    large_runs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(large_runs)
    large_runs.ROWS_PER_FILE = 50_000
    large_runs.write_large_run(folder / "large", 200, 1600)
    return [folder / "large", bad_run(folder)]


def bad_run(folder: Path) -> Path:
    """One member delivers two messages in the wrong order."""
    draft = DraftRun()
    draft.found(0, 0, 1)
    for number in (1, 2):
        draft.add(0, "publish", message_id(0, number), 0)
        draft.add(0, "deliver", message_id(0, number), 0)
    for number in (2, 1):
        draft.add(1, "deliver", message_id(0, number), 0)
    write_run(folder / "bad", draft.run())
    return folder / "bad"


def told(command: list[str], **variables: str) -> dict[str, Any]:
    """What a command in a process of its own prints as JSON; the runs hold a violation."""
    known = {**environment(), **variables}
    done = subprocess.run(command, env=known, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    del result["seconds"]
    return result


@pytest.mark.spark
@pytest.mark.slow
def test_two_workers_say_what_one_process_says(
    standalone: Standalone, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [str(run) for run in large_and_bad(tmp_path)]
    assert main(["verify", *runs, "--local", "--json"]) == 1
    here = json.loads(capsys.readouterr().out)
    del here["seconds"]
    assert here["deliveries"] == 320_004
    verify = ["verify", *runs, "--json"]
    assert told([sys.executable, "-m", "causalcast", *verify, "--master", standalone.url]) == here
    for place in standalone.work:
        assert list(place.glob("app-*")), f"{place.name} had nothing to do"


@pytest.mark.spark
@pytest.mark.slow
def test_spark_submit_says_where(tmp_path: Path) -> None:
    """`verify` without `--master` takes the one that spark-submit was given."""
    bad = bad_run(tmp_path)
    submit = [str(spark_home() / "bin" / "spark-submit"), "--master", "local[1]"]
    submit += ["--conf", "spark.log.level=ERROR", str(ROOT / "src/causalcast/__main__.py")]
    # As in an activated environment: spark-submit takes the first python3 on the path otherwise.
    said = told([*submit, "verify", str(bad), "--json"], PYSPARK_PYTHON=sys.executable)
    assert said["verdict"] == "violated"


@pytest.mark.spark
@pytest.mark.slow
def test_connect_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("grpc", reason="the extra `connect` is not installed")
    runs = [str(run) for run in large_and_bad(tmp_path)]
    main(["verify", *runs, "--local", "--json"])
    here = json.loads(capsys.readouterr().out)
    del here["seconds"]
    command = [sys.executable, "-m", "causalcast", "verify", *runs, "--json"]
    assert told([*command, "--remote", "local[2]"]) == here
