"""Text that came from elsewhere is shown on terminals, in logs and reports, and never obeyed."""

import argparse
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from causalcast.cli.main import main
from causalcast.cli.run import node as node_commands
from causalcast.cli.run.chat import _line
from causalcast.printable import printable, printable_lines
from causalcast.runtime.links.greeting import differences, first_greeting
from causalcast.runtime.observing.histogram import Histogram
from causalcast.runtime.observing.metrics import exposition
from causalcast.runtime.observing.node_logging import TextLines

CLEAR = "\x1b[2J\x1b[1;1H"
FORGED = "hi\n     3.9  forged"


def is_harmless(text: str) -> bool:
    return all(one.isprintable() or one == "\n" for one in text)


def test_what_cannot_be_seen_is_escaped() -> None:
    assert printable("déjà vu ☕") == "déjà vu ☕"
    assert printable(f"a{CLEAR}b") == r"a\x1b[2J\x1b[1;1Hb"
    assert printable("a\nb\r\t\x7f\x9b") == r"a\nb\r\t\x7f\x9b"
    assert printable("\u202egnp.exe\u2028\U000e0001") == r"\u202egnp.exe\u2028\U000e0001"
    assert printable_lines("one\n\x1btwo") == "one\n\\x1btwo"


def test_sub_prints_one_line_per_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Client:
        def __enter__(self) -> "Client":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def messages(self, group: str, reader: str) -> Iterator[dict[str, Any]]:
            for text in (CLEAR, FORGED):
                yield {"message": "3.1", "origin": 3, "text": text}

        def acknowledge(self, message: object) -> None:
            pass

    monkeypatch.setattr(node_commands, "client_of", lambda options: Client())
    options = argparse.Namespace(group="all", reader="", count=None, json=False)
    assert node_commands.run_sub(options) == 0
    said = capsys.readouterr().out
    assert is_harmless(said) and len(said.splitlines()) == 2


@pytest.mark.parametrize("says", [CLEAR, FORGED, "\u202eback"])
def test_chat_names_the_node_and_shows_no_escapes(says: str) -> None:
    for text in (says, json.dumps({"name": f"node-1{CLEAR}", "says": says})):
        line = _line({"origin": 3, "message": "3.1", "text": text})
        assert line.isprintable() and "node-3" in line
    claimed = _line({"origin": 3, "text": json.dumps({"name": "node-1", "says": "trust me"})})
    assert claimed == "node-1 (node-3): trust me"


def test_a_greeting_writes_no_line_of_its_own_into_the_log() -> None:
    theirs = first_greeting("c", 2, 0, "", "other", {"detector\n2026 ERROR": CLEAR})
    found = differences(first_greeting("c", 1, 0, "", "", {}), theirs)
    assert all(one.isprintable() for one in found)
    record = logging.LogRecord("a", logging.INFO, "f", 1, "refused: %s", (f"x\n{CLEAR}",), None)
    assert TextLines().format(record).isprintable()


def test_labels_end_where_they_end() -> None:
    status: dict[str, Any] = {
        "node": 1,
        "links": [],
        "suspected": [],
        "publishers_wait": [],
        "starts": 1,
        "waiting": 0,
        "unacknowledged": 0,
        "kept_bytes": 0,
        "trace": None,
        "trouble": {},
        "journal": {"bytes": 0, "held_bytes": 0, "syncs": 0, "sync_seconds": 0.0},
        "published": {'we"ird': 1, 'a"} 1\nforged{x="': 2, "back\\": 3},
        "delivered": {},
        "notes": {},
        "conditions": {'x"} 1\ny{z="': 4},
        "kept_for": {},
        "held": {"messages": 0, "bytes": 0, "oldest_seconds": 0.0},
        "inbox": {'in"} 1\nforged{x="': 5},
        "traffic": {},
        "queues": {},
        "repeated": {'part"} 1\nforged{x="': 6},
        "delivery_seconds": Histogram().as_numbers(),
        "whole_way_seconds": Histogram().as_numbers(),
        "from_the_future": 0,
        "process": {},
    }
    lines = [line for line in exposition(status).splitlines() if not line.startswith("#")]
    assert all(line.startswith("causalcast_") for line in lines)
    assert r'causalcast_published_total{node="1",group="we\"ird"} 1' in lines
    assert r'causalcast_published_total{node="1",group="a\"} 1\nforged{x=\""} 2' in lines
    assert r'causalcast_published_total{node="1",group="back\\"} 3' in lines


@pytest.fixture
def hostile_run(tmp_path: Path) -> Path:
    """A run in which the nodes, groups and messages of another system have hostile names."""
    names = {"ada": CLEAR, "bob": "$\\frac{$", "cleo": "[red]cleo[/]\nverdict: ok"}
    rows = [
        ("ada", 0, "publish", "cause\x1b[8m"),
        ("bob", 0, "deliver", "cause\x1b[8m"),
        ("bob", 1, "publish", FORGED),
        ("cleo", 0, "deliver", FORGED),
        ("cleo", 1, "deliver", "cause\x1b[8m"),
    ]
    lines = [
        {"node": names[node], "pos": pos, "kind": kind, "message": message, "group": f"g{CLEAR}"}
        for node, pos, kind, message in rows
    ]
    log = tmp_path / "bus.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["trace", "import", str(log), "--out", str(tmp_path / "run")]) == 0
    return tmp_path / "run"


def test_verify_report_and_trace_show_names_and_obey_none(
    hostile_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["verify", str(hostile_run), "--local"]) == 1
    said = capsys.readouterr().out
    assert is_harmless(said) and r"\x1b[2J" in said
    assert "\nverdict: ok" not in said
    out = tmp_path / "report.html"
    assert main(["report", str(hostile_run), "--local", "--out", str(out)]) == 1
    page = out.read_text()
    assert "$\\frac{$" in page and "\x1b" not in page
