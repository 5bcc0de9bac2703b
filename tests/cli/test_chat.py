"""`causalcast chat` as two people type it."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from causalcast.cli.run import chat
from causalcast.runtime.operating.local_cluster import ClusterPlan, LocalCluster

SOURCE = Path(__file__).parents[2] / "src"


def sit_down(folder: Path, node: int, *arguments: str) -> "subprocess.Popen[str]":
    """Somebody at a terminal, who leaves after a minute if the test has not ended by then."""
    person = subprocess.Popen(
        [sys.executable, "-m", "causalcast", "chat", "--node", str(node), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        bufsize=1,
    )
    leave = threading.Timer(60, person.kill)
    leave.daemon = True
    leave.start()
    return person


def say(person: "subprocess.Popen[str]", text: str) -> None:
    assert person.stdin is not None
    person.stdin.write(text + "\n")


def line_of(person: "subprocess.Popen[str]") -> str:
    assert person.stdout is not None
    return person.stdout.readline().rstrip("\n")


def test_what_is_being_typed_stays_below_what_comes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(chat, "_is_terminal", lambda: True)
    monkeypatch.setattr(chat.readline, "get_line_buffer", lambda: "half a sen")
    chat._print_above("Ada (node-1): tea?")
    assert capsys.readouterr().out == "\r\x1b[KAda (node-1): tea?\n> half a sen"


def test_two_people_talk(tmp_path: Path) -> None:
    plan = ClusterPlan(nodes=2, overlay="line", groups={"kitchen": [1, 2]})
    cluster = LocalCluster(tmp_path / "causalcast-cluster", plan)
    people: list[subprocess.Popen[str]] = []
    try:
        cluster.start_all()
        cluster.ask(1, "publish", group="kitchen", text="is anybody there?")
        ada = sit_down(tmp_path, 1, "--name", "Ada")
        bob = sit_down(tmp_path, 2, "kitchen")
        people += [ada, bob]
        assert line_of(ada) == "you are Ada, in 'kitchen' at node 1; Ctrl-D ends it"
        assert line_of(bob) == "you are node-2, in 'kitchen' at node 2; Ctrl-D ends it"
        assert line_of(bob) == "node-1: is anybody there?"
        say(ada, "tea or coffee?")
        assert line_of(bob) == "Ada (node-1): tea or coffee?"
        say(bob, "tea, ☕ is for the morning")
        assert line_of(ada) == "node-2: tea, ☕ is for the morning"
        for person in people:
            rest, _ = person.communicate(timeout=20)  # closes its input, as Ctrl-D does
            assert (rest, person.returncode) == ("", 0)
        nobody, _ = sit_down(tmp_path, 7).communicate(timeout=20)
        assert nobody.startswith("causalcast: causalcast-cluster: no node 7 there (there are: 1")
    finally:
        for person in people:
            person.kill()
            person.wait()
        cluster.stop_all()
