"""`up`, `pub`, `sub`, `status`, `trace gather` and `demo` as people type them."""

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from causalcast import connect
from causalcast.cli.main import main

SOURCE = Path(__file__).parents[2] / "src"


def start(*arguments: str | Path, where: Path, typed: str = "") -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "COLUMNS": "120"}
    (where / "typed.txt").write_text(typed)
    return subprocess.Popen(
        [sys.executable, "-m", "causalcast", *map(str, arguments)],
        cwd=where,
        env=environment,
        stdin=(where / "typed.txt").open(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def causalcast(*arguments: str | Path, where: Path) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end."""
    process = start(*arguments, where=where)
    output, errors = process.communicate(timeout=60)
    return subprocess.CompletedProcess(arguments, process.returncode, output, errors)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """`causalcast up` in a folder of its own, with all its nodes running."""
    process = start(
        "up", "--nodes", "3", "--overlay", "line", "--groups", "chat=*", "pair=1,2", where=tmp_path
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "Ctrl-C" in line:
            break
    else:
        raise AssertionError(process.communicate()[1])
    yield process
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)


def test_a_message_goes_from_pub_to_sub_and_into_a_run(
    cluster: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    listening = start("sub", "chat", "--node", "3", "--count", "2", "--json", where=tmp_path)
    published = causalcast("pub", "chat", "hello", "--node", "1", where=tmp_path)
    assert (published.returncode, published.stdout) == (0, "published 1.1\n")
    causalcast("pub", "chat", "grüezi", "--node", "2", where=tmp_path)
    output, _ = listening.communicate(timeout=30)
    heard = [json.loads(line) for line in output.splitlines()]
    assert sorted(message["text"] for message in heard) == ["grüezi", "hello"]
    status = json.loads(causalcast("status", "--node", "3", "--json", where=tmp_path).stdout)
    assert status["delivered"] == {"chat": 2}
    refused = causalcast("pub", "chta", "x", "--node", "1", where=tmp_path)
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
    assert "no group 'chta'" in refused.stderr
    explained = causalcast("explain", "1.1", "--node", "3", where=tmp_path)
    assert explained.stdout == "1.1 is not held at node 3\n"

    cluster.send_signal(signal.SIGINT)
    output, _ = cluster.communicate(timeout=30)
    assert cluster.returncode == 0
    assert "trace gather causalcast-cluster --out" in output
    gathered = causalcast("trace", "gather", "causalcast-cluster", "--out", "run", where=tmp_path)
    assert gathered.returncode == 0, gathered.stderr
    assert "of 3 nodes, 0 crashes" in gathered.stdout
    again = causalcast("trace", "gather", "causalcast-cluster", "--out", "run", where=tmp_path)
    assert again.returncode == 2
    assert "already exists" in again.stderr


def test_wrong_usage_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "causalcast-cluster/node-1").mkdir(parents=True)
    (tmp_path / "old/nodes/node-1").mkdir(parents=True)
    for arguments, expected in (
        (["pub", "chat", "x", "--node", "7"], "no node 7"),
        (["pub", "chat", "x", "--node", "1"], "node 1 does not run"),
        (["up"], "not empty"),
        (["demo", "--out", "old"], "not empty"),
        (["up", "--dir", "other", "--protocol", "naive_flod"], "did you mean naive_flood?"),
        (["up", "--dir", "other", "--groups", "a=1,9"], "the nodes are 1 to 5"),
        (["up", "--dir", "other", "--groups", "a=x"], "expected name=1,2,3"),
        (["up", "--dir", "other", "--set", "window"], "expected option=value"),
        (["node", "missing.toml"], "missing.toml: no such file"),
        (["trace", "gather", "nowhere", "--out", "run"], "no node log"),
    ):
        assert main(arguments) == 2, arguments
        errors = capsys.readouterr().err
        assert expected in errors
        assert len(errors.splitlines()) == 1, errors


def test_nodes_end_with_whoever_started_them(
    cluster: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    """`up` is killed and cannot stop its nodes: they notice, and leave in good order."""
    cluster.kill()
    cluster.wait()
    logs = [tmp_path / f"causalcast-cluster/node-{node}/node.log" for node in (1, 2, 3)]
    deadline = time.monotonic() + 20
    while not all("stopped in good order" in log.read_text() for log in logs):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_up_runs_a_protocol_file_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from causalcast.core import *\n"
        "class Mine(Multicast):\n"
        "    def on_publish(self, publication, out):\n"
        "        out.deliver(publication)\n"
        "SPEC = ProtocolSpec('mine', 'Only here.', lambda setup: Mine(), [], [])\n"
    )
    process = start("up", "--nodes", "1", "--protocol", "./mine.py", "--dir", "c", where=tmp_path)
    assert process.stdout is not None
    assert any("Ctrl-C" in line for line in process.stdout), process.communicate()[1]
    published = causalcast("pub", "all", "x", "--node", "1", "--dir", "c", where=tmp_path)
    heard = causalcast("sub", "all", "--node", "1", "--count=1", "--dir", "c", where=tmp_path)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert published.stdout == "published 1.1\n"
    assert heard.stdout.split() == ["1.1", "x"]


@pytest.mark.slow
def test_the_demo_kills_two_nodes_and_everybody_has_everything(tmp_path: Path) -> None:
    result = causalcast("demo", "--no-verify", "--seconds", "4", "--out", "demo", where=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "node 3 killed" in result.stdout
    assert "node 5 is back" in result.stdout
    assert "everybody has everything" in result.stdout
    header = json.loads((tmp_path / "demo/run/run.json").read_text())
    assert header["faults"] == {"crash": 2}
    assert header["complete"]


def up_again(where: Path, *more: str) -> "subprocess.Popen[str]":
    words = ("up", "--nodes", "3", "--overlay", "line", "--groups", "chat=*", "pair=1,2", *more)
    return start(*words, where=where)


def test_a_cluster_that_was_made_is_started_again_and_goes_on(
    cluster: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    lines = tmp_path / "lines.bin"
    lines.write_bytes(b"\x00\xff")
    pub = start("pub", "chat", "-", "--node", "1", where=tmp_path, typed="one\ntwo\n")
    assert pub.communicate(timeout=30)[0] == "published 1.1\npublished 1.2\n"
    more = causalcast("pub", "chat", "x", "--count", "2", "--rate", "50", "--node", "1",
                      where=tmp_path)  # fmt: skip
    assert more.stdout == "published 1.3\npublished 1.4\n"
    binary = causalcast("pub", "chat", "--file", "lines.bin", "--node", "1", where=tmp_path)
    assert binary.stdout == "published 1.5\n"
    cluster.send_signal(signal.SIGINT)
    cluster.communicate(timeout=30)

    other = up_again(tmp_path, "--insecure")
    assert "another cluster is there, with other tls" in other.communicate(timeout=30)[1]
    again = up_again(tmp_path)
    try:
        assert again.stdout is not None
        shown = []
        for line in again.stdout:
            shown.append(line)
            if "Ctrl-C" in line:
                break
        table = [line.split("│")[3].strip() for line in shown if line.startswith("│")]
        assert table == ["2", "1, 3", "2"], "links are shown when they stand"
        heard = causalcast("sub", "chat", "--count", "5", "--node", "3", where=tmp_path).stdout
        assert [line.split()[1] for line in heard.splitlines()][:2] == ["one", "two"]
        published = causalcast("pub", "chat", "on it goes", "--node", "1", where=tmp_path)
        assert published.stdout == "published 1.6\n"
    finally:
        again.send_signal(signal.SIGINT)
        again.communicate(timeout=30)


def test_joining_a_fixed_cluster_or_nobody_is_refused_clearly(
    cluster: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    text = (tmp_path / "causalcast-cluster/node-1/node.toml").read_text()
    address = text.partition('listen = "')[2].partition('"')[0]
    refused = causalcast("join", address, "--dir", "guests", where=tmp_path)
    assert refused.returncode == 2 and "wants a --token" in refused.stderr
    authority = "causalcast-cluster/authority"
    token = causalcast("keys", "token", authority, where=tmp_path).stdout.strip()
    refused = causalcast("join", address, "--token", token, "--dir", "guests", where=tmp_path)
    assert refused.returncode == 2 and "has a fixed overlay" in refused.stderr
    refused = causalcast("join", "127.0.0.1:1", where=tmp_path)
    assert refused.returncode == 2 and "nobody listens at 127.0.0.1:1" in refused.stderr
    refused = causalcast("join", "somewhere", where=tmp_path)
    assert refused.returncode == 2 and "expected host:port" in refused.stderr
    assert not (tmp_path / "guests").exists()


def test_clients_find_the_doors_of_a_cluster(tmp_path: Path) -> None:
    process = start("up", "--nodes", "2", "--clients", "--dir", "doors", where=tmp_path)
    assert process.stdout is not None
    shown = []
    for line in process.stdout:
        shown.append(line)
        if "Ctrl-C" in line:
            break
    try:
        text = "".join(shown)
        urls = re.findall(r"clients of node \d: (wss://\S+)", text)
        assert len(urls) == 2, text
        (command,) = re.findall(r"a token: causalcast (.*)", text)
        made = causalcast(*shlex.split(command), where=tmp_path)
        assert made.returncode == 0, made.stderr

        async def speak() -> bytes:
            token = made.stdout.strip()
            async with (
                connect(urls[0], token) as one,
                connect(urls[1], token) as other,
                other.group("all") as group,
            ):
                await one.group("all").publish(b"hello")
                return (await anext(group)).payload

        assert asyncio.run(asyncio.wait_for(speak(), 30)) == b"hello"
        listed = causalcast("keys", "list", "doors/authority", where=tmp_path).stdout
        assert re.search(r"client me +until \S+ +valid", listed), listed
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
