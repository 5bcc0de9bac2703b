"""`causalcast trace`: a foreign log becomes a run that can be judged, and a run leaves again."""

import gzip
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from causalcast.cli.main import main
from causalcast.trace.run_folder import read_run


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
    said = capsys.readouterr().out
    assert "carol delivered a message before one of its causes: answer at pos 0" in said
    assert "✗ deliver question @1 too late" in said


def test_a_bad_line_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"node": 1, "pos": 0, "kind": "crash"}\n\n{"node": 1,\n')
    assert main(["trace", "import", str(log), "--out", str(tmp_path / "run")]) == 2
    assert f"{log}: line 3: not JSON" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_folder_of_packed_logs_needs_no_spark(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    logs, run = tmp_path / "logs", tmp_path / "run"
    logs.mkdir()
    for node in ("ada", "bob"):
        line = {"node": node, "pos": 0, "kind": "publish", "message": f"of {node}"}
        text = json.dumps(line) + "\n" + '{"node": "' * (node == "bob")
        (logs / f"{node}.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    assert main(["trace", "import", str(logs), "--out", str(run), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["events"], said["nodes"]) == (2, 2)
    assert said["left_out"] == [
        f"{logs / 'bob.jsonl.gz'}: line 2: torn: no JSON, and no end of line after it"
    ]
    assert main(["trace", "import", str(logs), "--out", str(tmp_path / "again")]) == 0
    assert "left out: " in capsys.readouterr().out


@pytest.mark.parametrize("form", ["shiviz", "jsonl"])
def test_a_run_is_exported(good: Path, tmp_path: Path, form: str) -> None:
    out = tmp_path / f"run.{form}"
    assert main(["trace", "export", str(good), "--format", form, "--out", str(out)]) == 0
    assert len(out.read_text().splitlines()) == {"shiviz": 2 + 2 * 8, "jsonl": 1 + 3 + 8}[form]


def test_an_export_says_how_many_events_it_wrote(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """ShiViz draws some kinds of events; a full trace has many more."""
    run, out = tmp_path / "run", tmp_path / "run.shiviz"
    scenario = str(Path(__file__).parents[2] / "scenarios" / "revoke_then_post.toml")
    assert main(["simulate", scenario, "--out", str(run)]) == 0
    capsys.readouterr()
    assert main(["trace", "export", str(run), "--format", "shiviz", "--out", str(out)]) == 0
    written = (len(out.read_text().splitlines()) - 2) // 2
    said = capsys.readouterr().out
    assert f"{out}: {written} events of 3 nodes" in said
    left_out = len(read_run(run).events) - written
    assert left_out > 0 and f"left out: {left_out} events of other kinds than publish" in said


def test_an_export_comes_back(good: Path, tmp_path: Path) -> None:
    first, again, second = (tmp_path / name for name in ("first.jsonl", "again", "second.jsonl"))
    assert main(["trace", "export", str(good), "--format", "jsonl", "--out", str(first)]) == 0
    assert main(["trace", "import", str(first), "--out", str(again)]) == 0
    assert main(["trace", "export", str(again), "--format", "jsonl", "--out", str(second)]) == 0
    assert first.read_text() == second.read_text()


def cut_into_rows(run: Path) -> int:
    """One file per row, as if every row had been written by itself."""
    rows = 0
    for path in sorted((run / "events").iterdir()):
        table = pq.read_table(path)
        path.unlink()
        for row in range(len(table)):
            node, pos = table["node"][row].as_py(), table["pos"][row].as_py()
            pq.write_table(table.slice(row, 1), run / "events" / f"part-{node}-{pos}.parquet")
            rows += 1
    return rows


def test_compact_makes_whole_logs_of_pieces(
    bad: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = read_run(bad)
    pieces = cut_into_rows(bad)
    arguments = ["trace", "compact", str(bad), "--out", str(tmp_path / "compact"), "--json"]
    assert main(arguments) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["events"], said["files_before"], said["files"]) == (pieces, pieces, 1)
    after = read_run(tmp_path / "compact")
    assert after.events.equals(before.events)
    assert after.header == before.header


def test_compact_refuses_a_log_with_a_gap(
    bad: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut_into_rows(bad)
    (bad / "events" / "part-0-1.parquet").unlink()
    assert main(["trace", "compact", str(bad), "--out", str(tmp_path / "compact")]) == 2
    said = capsys.readouterr().err
    assert "the log of node 0 has a gap" in said
    assert said.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad"]
