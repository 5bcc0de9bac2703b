"""`causalcast watch`: violations told within seconds, several runs at once, on after a restart."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

import pyarrow.dataset as ds
import pytest

from causalcast.cli.main import main
from causalcast.testing.draft_run import DraftRun, message_id
from causalcast.trace.node_log import NodeLog, NodeLogHeader
from causalcast.trace.run_folder import write_events, write_run
from causalcast.trace.schema import KIND_CODE

A, B = 0, 1
PATIENCE = 120  # seconds until Spark is up on a busy machine


class Watching:
    """A `causalcast watch` of its own, and the lines it prints."""

    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "causalcast", "watch", *map(str, arguments), "--json"]
        source = Path(__file__).parents[2] / "src"
        environment = {**os.environ, "PYTHONPATH": str(source)}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
        self.lines: Queue[dict[str, Any]] = Queue()
        Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(json.loads(line))

    def next_line(self, key: str, seconds: float = PATIENCE) -> dict[str, Any]:
        """The next line that has `key`."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                line = self.lines.get(timeout=1)
            except Empty:
                assert self.process.poll() is None, "it has stopped"
                continue
            if key in line:
                return line
        raise AssertionError(f"no line with {key} in {seconds} s")

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def begin_run(folder: Path) -> DraftRun:
    """A run that has its members and no rows yet."""
    draft = DraftRun()
    draft.found(0, A, B)
    write_run(folder, draft.run())
    return draft


def add_file(folder: Path, draft: DraftRun, node: int, since: int) -> None:
    """The rows of a log from `since` on, as a file of their own."""
    rows = draft.run().events
    table = rows.filter((ds.field("node") == node) & (ds.field("pos") >= since))
    name = f"part-{node:05d}-{since:012d}.parquet"
    write_events(folder / "events" / f".{name}", table)
    (folder / "events" / f".{name}").rename(folder / "events" / name)


def publish_two(folder: Path, draft: DraftRun, first: int) -> None:
    """A publishes two more messages, and delivers them."""
    since = len(draft.logs[A])
    for number in (first, first + 1):
        draft.add(A, "publish", message_id(A, number), 0)
        draft.add(A, "deliver", message_id(A, number), 0)
    add_file(folder, draft, A, since)


def deliver(folder: Path, draft: DraftRun, *numbers: int) -> None:
    since = len(draft.logs[B])
    for number in numbers:
        draft.add(B, "deliver", message_id(A, number), 0)
    add_file(folder, draft, B, since)


@pytest.mark.spark
@pytest.mark.slow
def test_watch_flags_at_once_survives_a_kill_and_sees_new_runs(tmp_path: Path) -> None:
    runs, state = tmp_path / "runs", tmp_path / "state"
    first = begin_run(runs / "first")
    publish_two(runs / "first", first, 1)
    deliver(runs / "first", first, 1, 2)
    watching = Watching(runs, "--state", state)
    try:
        assert watching.next_line("rows")["violations"] == 0

        for number in range(3, 13, 2):  # five times: the second before the first
            publish_two(runs / "first", first, number)
            deliver(runs / "first", first, number + 1, number)
            line = watching.next_line("violation", 30)
            assert (line["node"], line["cause"]) == (B, message_id(A, number))
            assert {line["violation"], watching.next_line("violation", 5)["violation"]} == {
                "fifo_order",
                "causal_order",
            }
    finally:
        watching.kill()  # no farewell

    publish_two(runs / "first", first, 13)  # while nobody watches
    second = begin_run(runs / "second")
    publish_two(runs / "second", second, 1)
    watching = Watching(runs, "--state", state)
    try:
        deliver(runs / "first", first, 14, 13)
        line = watching.next_line("violation")
        while line["cause"] == message_id(A, 11):  # killed before it was kept: told once more
            line = watching.next_line("violation")
        assert line["cause"] == message_id(A, 13), "nothing else is told twice or left out"
        watching.next_line("violation", 5)
        deliver(runs / "second", second, 2, 1)
        line = watching.next_line("violation", 30)
        assert (Path(line["run"]).name, line["cause"]) == ("second", message_id(A, 1))
        watching.next_line("violation", 5)
    finally:
        code = watching.stop()
    assert code == 1
    last = {}
    while not watching.lines.empty():
        line = watching.lines.get()
        if "rows" in line:
            last[Path(line["run"]).name] = line
    assert last["first"]["violations"] == 12
    assert last["first"]["deliveries"] == 28
    assert last["first"]["in_flight"] == 0


@pytest.mark.spark
@pytest.mark.slow
def test_logs_of_running_nodes_are_followed(tmp_path: Path) -> None:
    logs = []
    for node in (A, B):
        header = NodeLogHeader(
            node=node, name=f"n{node}", address="", cluster="c", protocol="p", options={},
            overlay="o", guarantees=["causal_order"], groups={"all": [A, B]}, level="deliveries",
            version="0", started_at="2026-01-01T00:00:00+00:00",
        )  # fmt: skip
        logs.append(NodeLog(tmp_path / "trace" / f"node-{node}.nodelog", header))
    for number in (1, 2):
        logs[A].add(number, KIND_CODE["publish"], message_id(A, number), 0)
        logs[A].add(number, KIND_CODE["deliver"], message_id(A, number), 0)
    logs[A].write(1)
    watching = Watching(tmp_path, "--until-idle", 6, "--overdue", 1)
    try:
        line = watching.next_line("overdue")  # A has delivered both
        assert (line["overdue"], line["node"], line["message"]) == (
            "agreement",
            B,
            message_id(A, 1),
        )
        assert watching.next_line("overdue", 5)["message"] == message_id(A, 2)
        logs[A].add(9, KIND_CODE["publish"], message_id(A, 3), 0)
        for number in (2, 1):
            logs[B].add(10, KIND_CODE["deliver"], message_id(A, number), 0)
        for log in logs:
            log.add(11, KIND_CODE["leave"])
            log.write(1)
        assert watching.next_line("violation", 30)["cause"] == message_id(A, 1)
        assert watching.next_line("caught_up", 5)["node"] == B
        verdict = watching.next_line("verdict", 60)
        assert verdict["verdict"] == "violated"
        wrong = {name for name, status in verdict["checked"].items() if status == "violated"}
        assert wrong == {"fifo_order", "causal_order", "validity"}
        assert watching.process.wait(60) == 1
    finally:
        watching.kill()
        for log in logs:
            log.close()


@pytest.mark.spark
def test_a_folder_in_which_nothing_comes_is_told(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", str(tmp_path), "--until-idle", "1"]) == 2
    assert "nothing came: no run, no node log, no JSON lines" in capsys.readouterr().err
