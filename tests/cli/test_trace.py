"""`causalcast trace`: a foreign log becomes a run that can be judged, and a run leaves again."""

import json
from pathlib import Path

import pytest

from causalcast.cli.main import main


def write_log(path: Path, *events: str) -> None:
    """Each event as "node kind message"; positions are counted."""
    count: dict[str, int] = {}
    lines = []
    for event in events:
        node, kind, message = event.split()
        pos = count.get(node, 0)
        count[node] = pos + 1
        lines.append(json.dumps({"node": node, "pos": pos, "kind": kind, "message": message}))
    path.write_text("\n".join(lines))


def test_a_foreign_log_is_imported_and_judged(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log, run = tmp_path / "log.jsonl", tmp_path / "run"
    write_log(
        log,
        "alice publish question",
        "bob deliver question",
        "bob publish answer",
        "carol deliver answer",
        "carol deliver question",
    )
    assert main(["trace", "import", str(log), "--out", str(run)]) == 0
    assert "5 events of 3 nodes in 1 groups" in capsys.readouterr().out
    assert main(["verify", str(run), "--local"]) == 1
    assert "carol delivered a message before one of its causes" in capsys.readouterr().out


def test_a_bad_line_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"node": 1, "pos": 0, "kind": "crash"}\n\n{"node": 1,\n')
    assert main(["trace", "import", str(log), "--out", str(tmp_path / "run")]) == 2
    assert f"{log}: line 3: not JSON" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("form", ["shiviz", "jsonl"])
def test_a_run_is_exported(good: Path, tmp_path: Path, form: str) -> None:
    out = tmp_path / f"run.{form}"
    assert main(["trace", "export", str(good), "--format", form, "--out", str(out)]) == 0
    assert len(out.read_text().splitlines()) == {"shiviz": 2 + 2 * 8, "jsonl": 3 + 8}[form]


def test_an_export_comes_back(good: Path, tmp_path: Path) -> None:
    first, again, second = (tmp_path / name for name in ("first.jsonl", "again", "second.jsonl"))
    assert main(["trace", "export", str(good), "--format", "jsonl", "--out", str(first)]) == 0
    assert main(["trace", "import", str(first), "--out", str(again)]) == 0
    assert main(["trace", "export", str(again), "--format", "jsonl", "--out", str(second)]) == 0
    assert first.read_text() == second.read_text()
