"""`causalcast dashboard` and `up --dashboard`, over real nodes, as people type them."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import pytest

from causalcast.cli.main import main

SOURCE = Path(__file__).parents[2] / "src"


def started(*arguments: str, where: Path) -> tuple["subprocess.Popen[str]", str]:
    """A command that serves a dashboard, and the address that it printed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "causalcast", *arguments],
        cwd=where,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        found = re.search(r"the dashboard is at (http://127\.0\.0\.1:\d+/\?token=\S+)", line)
        if found:
            return process, found[1]
    process.wait()
    raise AssertionError(said)


def seen(address: str) -> dict[str, Any]:
    """What a browser would show that opened the address."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    with browser.open(address, timeout=30) as page:
        assert b"causalcast dashboard" in page.read() and "token" not in page.url
    with browser.open(address.partition("?")[0] + "state.json", timeout=30) as state:
        found: dict[str, Any] = json.load(state)
        return found


def ended(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_up_serves_a_live_view_of_its_nodes(tmp_path: Path) -> None:
    words = ("up", "--nodes", "2", "--overlay", "line", "--dir", "c", "--dashboard", "127.0.0.1:0")
    cluster, address = started(*words, where=tmp_path)
    picture = seen(address)
    assert [(node["name"], node["state"]) for node in picture["nodes"]] == [
        ("1", "up"),
        ("2", "up"),
    ]
    assert [(link["a"], link["b"], link["up"]) for link in picture["links"]] == [("1", "2", True)]
    assert [alarm for alarm in picture["alarms"] if alarm["level"] == "bad"] == []
    assert picture["groups"][0]["members"] == ["1", "2"]
    beside, other = started("dashboard", "c", "--listen", "127.0.0.1:0", where=tmp_path)
    assert len(seen(other)["nodes"]) == 2
    with pytest.raises(urllib.error.HTTPError, match="403"):  # of another dashboard
        seen(other.partition("?")[0] + "?" + address.partition("?")[2])
    ended(cluster)
    deadline = time.monotonic() + 30
    picture = seen(other)
    while {node["state"] for node in picture["nodes"]} != {"down"}:  # it looks once a second
        assert time.monotonic() < deadline, picture
        time.sleep(0.3)
        picture = seen(other)
    assert [link["up"] for link in picture["links"]] == [False]  # by the plan there is one
    ended(beside)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["dashboard", "nowhere"], "nowhere: no such folder"),
        (["dashboard", "--listen", "8766"], "--listen 8766: expected host:port"),
        (["up", "--dir", "new", "--dashboard", "x"], "--dashboard x: expected host:port"),
    ],
)
def test_wrong_words_are_one_line(
    words: list[str],
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    said = capsys.readouterr().err
    assert text in said and len(said.splitlines()) == 1
