"""`causalcast simulate` and `protocols` as typed: traces, errors in one line, exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from causalcast.cli.main import main
from causalcast.trace.run_folder import read_run

ROOT = Path(__file__).parent.parent.parent
RING = str(ROOT / "scenarios" / "reordering_ring.toml")
TREE = str(ROOT / "scenarios" / "crashes_on_lossy_tree.toml")


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_the_same_seed_gives_the_same_bytes_in_every_file(tmp_path: Path) -> None:
    for name in ("one", "other"):
        assert main(["simulate", TREE, "--seed", "7", "--out", str(tmp_path / name)]) == 0
    assert main(["simulate", TREE, "--seed", "8", "--out", str(tmp_path / "third")]) == 0
    one, other, third = (files_of(tmp_path / name) for name in ("one", "other", "third"))
    assert one == other
    assert one.keys() == third.keys() and one != third


def test_facts_for_machines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert main(["simulate", TREE, "--out", str(out), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    run = read_run(out)
    assert facts["events"] == len(run.events) and facts["nodes"] == 15
    assert facts["fired"] == run.header.faults and facts["fired"]["crash"] >= 2


@pytest.mark.parametrize(
    ("level", "kinds"),
    [
        ("deliveries", {"publish", "deliver", "crash", "recover", "join", "leave"}),
        ("messages", {"send", "receive", "duplicate", "hold", "release", "publish", "deliver"}),
        ("full", {"note", "drop", "suspect", "send"}),
    ],
)
def test_levels(level: str, kinds: set[str], tmp_path: Path) -> None:
    assert main(["simulate", TREE, "--out", str(tmp_path / "run"), "--trace", level]) == 0
    found = set(read_run(tmp_path / "run").events.column("kind").to_pylist())
    if level == "deliveries":
        assert found == kinds
    else:
        assert kinds <= found


def test_settings_reach_the_protocol(tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = ["simulate", RING, "--out", str(out), "--set", "repeat_after=50ms"]
    assert main([*command, "--set", "window=7"]) == 0
    assert read_run(out).header.options["repeat_after"] == 50_000
    assert read_run(out).header.options["window"] == 7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.toml"], "nowhere.toml: no such file"),
        ([RING, "--protocol", "nave_flood"], "no protocol 'nave_flood'; did you mean naive_flood?"),
        ([RING, "--protocol", "nowhere.py"], "nowhere.py: no such file"),
        ([RING, "--set", "window"], "--set window: expected OPTION=VALUE"),
        ([RING, "--set", "window=many"], "window = 'many': expected a whole number from 1 on"),
        ([RING, "--set", "wndow=1"], "wndow: no option of vector_clock_broadcast"),
    ],
)
def test_errors_are_one_line_and_exit_2(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *arguments, "--out", str(tmp_path / "run")]) == 2
    printed = capsys.readouterr()
    assert message in printed.err and printed.err.count("\n") == 1 and printed.out == ""
    assert not (tmp_path / "run").exists()


def test_a_run_is_never_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert main(["simulate", RING, "--out", str(out)]) == 0
    before = files_of(out)
    assert main(["simulate", RING, "--out", str(out)]) == 2
    assert "already exists" in capsys.readouterr().err
    assert files_of(out) == before


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1", "expected a module with SPEC = ProtocolSpec(...)"),
        ("import nonsense_module", "mine.py:1: ModuleNotFoundError"),
        ("def broken(:", "mine.py:1: SyntaxError"),
    ],
)
def test_a_users_broken_file(
    source: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(source)
    assert main(["simulate", RING, "--protocol", str(mine), "--out", str(tmp_path / "run")]) == 2
    assert message in capsys.readouterr().err


def test_protocols_are_listed_for_people_and_machines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["protocols"]) == 0
    assert "vector_clock_broadcast" in capsys.readouterr().out
    assert main(["protocols", "--json"]) == 0
    listed = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert {"naive_flood", "vector_clock_broadcast"} <= listed.keys()
    flood = listed["naive_flood"]
    assert set(flood) >= {"name", "summary", "guarantees", "options", "needs", "cost"}
    for protocol in listed.values():
        assert all(protocol[key] for key in ("summary", "guarantees", "cost")), protocol["name"]
        assert list(protocol["needs"]) == ["overlay", "links", "detector"]
        assert isinstance(protocol["options"], list)
    assert main(["protocols", "vector_clock_broadcast"]) == 0
    assert "repeat_after" in capsys.readouterr().out


def test_where_a_promise_does_not_hold_is_said_beside_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["protocols", "cbcast"]) == 0
    assert "not when  a node joins a group while links to it are slow" in capsys.readouterr().out
    assert main(["protocols", "--json"]) == 0
    listed = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    # As long as schedules that break its promises are kept as expected failures.
    assert [name for name, entry in listed.items() if entry["except_when"]] == ["cbcast", "locamu"]


def test_a_pipe_that_closes_early_is_no_failure() -> None:
    """`causalcast protocols --json | head -1`."""
    command = f"{sys.executable} -m causalcast protocols --json | head -1"
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "src"))
    done = subprocess.run(
        ["bash", "-c", command], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr
