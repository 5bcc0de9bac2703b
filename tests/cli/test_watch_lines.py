"""`causalcast watch` of a folder of JSON lines tells what comes too late, without Spark."""

import gzip
import json
import threading
from pathlib import Path

import pytest

from causalcast.cli.judge.watch import _holds_lines
from causalcast.cli.main import main
from causalcast.errors import ConfigError

INVERSION = [
    {"node": "ada", "pos": 0, "kind": "publish", "message": "revoke"},
    {"node": "bob", "pos": 0, "kind": "deliver", "message": "revoke"},
    {"node": "bob", "pos": 1, "kind": "publish", "message": "post"},
    {"node": "cleo", "pos": 0, "kind": "deliver", "message": "post"},
    {"node": "cleo", "pos": 1, "kind": "deliver", "message": "revoke"},
]


def test_a_folder_of_lines_is_watched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for node in ("ada", "bob", "cleo"):
        lines = [json.dumps(line) for line in INVERSION if line["node"] == node]
        (tmp_path / f"{node}.jsonl").write_text("\n".join(lines) + "\n")
    assert main(["watch", str(tmp_path), "--until-idle", "0.2", "--json"]) == 1
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (told[0]["violation"], told[0]["node"], told[0]["message"], told[0]["cause"]) == (
        "causal_order", "cleo", "post", "revoke",
    )  # fmt: skip
    assert told[-1]["verdict"] == "violated"
    assert main(["watch", str(tmp_path), "--until-idle", "0.2"]) == 1
    assert "and only later, at 1, its cause revoke (all)" in capsys.readouterr().out


def test_a_folder_that_is_empty_is_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever starts the watch before the application; Spark is not asked for."""
    logs = tmp_path / "logs"
    logs.mkdir()
    assert main(["watch", str(logs), "--until-idle", "0.2"]) == 2
    assert "nothing came: no run, no node log, no JSON lines" in capsys.readouterr().err

    def begin() -> None:
        lines = [json.dumps(line) + "\n" for line in INVERSION]
        (tmp_path / "all.part").write_text("".join(lines))
        (tmp_path / "all.part").rename(logs / "all.jsonl")

    timer = threading.Timer(0.7, begin)
    timer.start()
    assert main(["watch", str(logs), "--until-idle", "5"]) == 1
    timer.join()
    told = capsys.readouterr()
    assert "empty so far, waiting" in told.err and "verdict violated" in told.out


def test_a_folder_of_spans_is_watched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (Path(__file__).parents[2] / "examples" / "spans").iterdir():
        (tmp_path / path.name.removesuffix(".gz")).write_bytes(gzip.decompress(path.read_bytes()))
    assert main(["watch", str(tmp_path), "--until-idle", "0.2", "--json"]) == 1
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = {(one["message"], one["cause"]) for one in told if "violation" in one}
    assert ("bob-2", "ada-2") in found
    assert told[-1]["verdict"] == "violated" and told[-1]["checked"]["fifo_order"] == "ok"


def test_lines_and_runs_are_not_mixed(tmp_path: Path) -> None:
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "a.jsonl").write_text("")
    (tmp_path / "runs").mkdir()
    assert _holds_lines([tmp_path / "lines"])
    assert not _holds_lines([tmp_path / "runs"])
    with pytest.raises(ConfigError, match="cannot be watched together"):
        _holds_lines([tmp_path / "lines", tmp_path / "runs"])
