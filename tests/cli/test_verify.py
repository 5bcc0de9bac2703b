"""`causalcast verify` as a user types it: what it prints, and the exit code."""

import json
import shutil
import socket
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from causalcast.cli.main import main
from causalcast.pipeline.spark import session, spark_job
from causalcast.testing.draft_run import DraftRun, message_id
from causalcast.trace.run_folder import write_run
from causalcast.trace.schema import GUARANTEES


def answer_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert captured.err == ""
    return code, captured.out


def complaint_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line on stderr of a command that ends with 2 and says nothing else."""
    assert main([str(argument) for argument in arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    return captured.err


def test_a_good_run_is_ok(capsys: pytest.CaptureFixture[str], good: Path) -> None:
    code, out = answer_of(capsys, "verify", good, "--local")
    assert code == 0
    assert "verdict: ok" in out
    assert all(name in out for name in GUARANTEES)


def test_a_violation_is_told_in_words_and_drawn(
    capsys: pytest.CaptureFixture[str], bad: Path
) -> None:
    code, out = answer_of(capsys, "verify", bad, "--local")
    assert code == 1
    assert "verdict: violated" in out
    assert "n2 delivered a message before one of its causes: 1.1 at pos 0" in out
    drawing = [line.split() for line in out.splitlines() if "│" in line]
    assert drawing == [
        ["●", "publish", "0.1", "@0", "│", "│"],
        ["│", "○", "deliver", "0.1", "@0", "│"],
        ["│", "●", "publish", "1.1", "@1", "│"],
        ["│", "│", "✗", "deliver", "1.1", "@0", "too", "early"],
        ["│", "│", "✗", "deliver", "0.1", "@1", "too", "late"],
    ]


def test_the_json_has_the_promised_shape(capsys: pytest.CaptureFixture[str], bad: Path) -> None:
    code, out = answer_of(capsys, "verify", bad, "--local", "--json")
    said = json.loads(out)
    assert code == 1
    assert said["verdict"] == "violated"
    assert said["promised"] == list(GUARANTEES)
    assert (said["deliveries"], said["publications"], said["nodes"]) == (6, 2, 3)
    assert said["seconds"] > 0
    assert {name: one["ok"] for name, one in said["checked"].items()} == {
        name: name != "causal_order" for name in GUARANTEES
    }
    assert said["checked"]["causal_order"]["violations"] == 1
    [example] = said["checked"]["causal_order"]["counter_examples"]
    assert (example["node"], example["cause"]) == (2, message_id(0, 1))


def test_an_incomplete_run_is_incomplete(
    capsys: pytest.CaptureFixture[str], incomplete: Path
) -> None:
    code, out = answer_of(capsys, "verify", incomplete, "--local", "--json")
    said = json.loads(out)
    assert (code, said["verdict"]) == (1, "incomplete")
    assert said["checked"]["agreement"]["status"] == "pending"


def test_promise_chooses_what_counts(capsys: pytest.CaptureFixture[str], bad: Path) -> None:
    assert answer_of(capsys, "verify", bad, "--local", "--promise", "fifo_order")[0] == 0
    assert answer_of(capsys, "verify", bad, "--local", "--promise", "causal_order")[0] == 1
    header = json.loads((bad / "run.json").read_text())
    (bad / "run.json").write_text(json.dumps({**header, "guarantees": ["validity"]}))
    assert answer_of(capsys, "verify", bad, "--local", "--promise", "promised")[0] == 0
    assert answer_of(capsys, "verify", bad, "--local")[0] == 1


def test_several_runs_are_judged_together(
    capsys: pytest.CaptureFixture[str], good: Path, bad: Path
) -> None:
    code, out = answer_of(capsys, "verify", good, bad, "--local", "--json")
    said = json.loads(out)
    assert (code, said["verdict"], said["deliveries"]) == (1, "violated", 12)
    assert [run["verdict"] for run in said["runs"]] == ["ok", "violated"]
    code, out = answer_of(capsys, "verify", good, bad, "--local")
    assert "2 runs: 1 ok, 1 violated" in out


def test_pieces_of_a_log_are_put_together(capsys: pytest.CaptureFixture[str], good: Path) -> None:
    """A gathered run may hold one node's log in several files."""
    for path in sorted((good / "events").iterdir()):
        table = pq.read_table(path)
        path.unlink()
        for row in range(len(table)):
            node, pos = table["node"][row].as_py(), table["pos"][row].as_py()
            pq.write_table(table.slice(row, 1), good / "events" / f"part-{node}-{pos}.parquet")
    assert answer_of(capsys, "verify", good, "--local")[0] == 0


@pytest.mark.spark
def test_spark_says_the_same(
    capsys: pytest.CaptureFixture[str], good: Path, bad: Path, incomplete: Path, spark: Any
) -> None:
    runs = (good, bad, incomplete)
    with_spark = json.loads(answer_of(capsys, "verify", *runs, "--json")[1])
    without = json.loads(answer_of(capsys, "verify", *runs, "--json", "--local")[1])
    del with_spark["seconds"], without["seconds"]
    assert with_spark == without


def first_file(run: Path) -> Path:
    return min((run / "events").iterdir())


def truncate(run: Path) -> None:
    first_file(run).write_bytes(first_file(run).read_bytes()[:-40])


def corrupt(run: Path) -> None:
    """Damage the data pages, not the footer."""
    data = bytearray(first_file(run).read_bytes())
    data[8:200] = bytes(192)
    first_file(run).write_bytes(bytes(data))


def drop_column(run: Path) -> None:
    pq.write_table(pq.read_table(first_file(run)).drop_columns(["message"]), first_file(run))


def lose_a_row(run: Path) -> None:
    pq.write_table(pq.read_table(first_file(run)).slice(1), first_file(run))


def another_version(run: Path) -> None:
    text = (run / "run.json").read_text()
    (run / "run.json").write_text(text.replace('"schema": 1', '"schema": 9'))


def unknown_kind(run: Path) -> None:
    table = pq.read_table(first_file(run))
    kinds = pa.array(["explode"] * len(table))
    place = table.column_names.index("kind")
    pq.write_table(table.set_column(place, "kind", kinds), first_file(run))


def wrong_numbers(run: Path) -> None:
    table = pq.read_table(first_file(run))
    place = table.column_names.index("message")
    messages = pa.array([5] * len(table), pa.int64())
    pq.write_table(table.set_column(place, "message", messages), first_file(run))


def replace_column(run: Path, name: str, values: pa.Array) -> None:
    table = pq.read_table(first_file(run))
    place = table.column_names.index(name)
    pq.write_table(table.set_column(place, name, values), first_file(run))


def rows_of(run: Path) -> int:
    return int(pq.read_metadata(first_file(run)).num_rows)


def no_positions(run: Path) -> None:
    replace_column(run, "pos", pa.nulls(rows_of(run), pa.int64()))


def words_for_nodes(run: Path) -> None:
    replace_column(run, "node", pa.array(["here"] * rows_of(run)))


def no_groups(run: Path) -> None:
    replace_column(run, "group", pa.nulls(rows_of(run), pa.int32()))


def stranger(run: Path) -> None:
    """A log of a node that nobody listed."""
    table = pq.read_table(first_file(run)).slice(0, 0)
    row = {"node": 77, "pos": 0, "at_us": 0, "kind": "crash"}
    new = pa.Table.from_pylist([row], schema=table.schema)
    pq.write_table(new, run / "events" / "part-99999.parquet")


def same_log_twice(run: Path) -> None:
    shutil.copy(first_file(run), run / "events" / "part-99999.parquet")


def two_memberships(run: Path) -> None:
    table = pq.read_table(run / "members.parquet")
    pq.write_table(pa.concat_tables([table, table]), run / "members.parquet")


DAMAGE = [
    (truncate, "unreadable or truncated"),
    (corrupt, "unreadable or truncated"),
    (drop_column, "column 'message' is missing"),
    (lose_a_row, "the log of node 0 has a gap"),
    (another_version, "schema 9, this version reads 1"),
    (unknown_kind, "unknown kind 'explode'"),
    (wrong_numbers, "published message 5 where 1 was expected"),
    (no_positions, "column 'pos' has nulls"),
    (words_for_nodes, "column 'node' has the wrong type"),
    (no_groups, "a publish without message or group"),
    (stranger, "node 77 has a log but does not stand in nodes.parquet"),
    (same_log_twice, "has a gap or repeats a position"),
    (two_memberships, "two memberships of node 0 in group 0 overlap"),
    (lambda run: (run / "members.parquet").unlink(), "members.parquet is missing"),
    (lambda run: first_file(run).write_bytes(b""), "unreadable or truncated"),
    (lambda run: (run / "run.json").unlink(), "not a run"),
    (lambda run: (run / "run.json").write_text("{"), "not JSON"),
    (lambda run: [path.unlink() for path in (run / "events").iterdir()], "no event files"),
]


@pytest.mark.parametrize(("damage", "complaint"), DAMAGE)
def test_unusable_input_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str], good: Path, damage: Any, complaint: str
) -> None:
    damage(good)
    assert complaint in complaint_of(capsys, "verify", good, "--local")


@pytest.mark.spark
@pytest.mark.parametrize(("damage", "complaint"), DAMAGE)
def test_spark_complains_in_the_same_words(
    capsys: pytest.CaptureFixture[str], good: Path, damage: Any, complaint: str, spark: Any
) -> None:
    damage(good)
    assert complaint in complaint_of(capsys, "verify", good)


@pytest.mark.spark
@pytest.mark.parametrize(("damage", "complaint"), DAMAGE)
def test_file_by_file_spark_complains_in_the_same_words(
    capsys: pytest.CaptureFixture[str],
    good: Path,
    damage: Any,
    complaint: str,
    spark: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As for a run that is large enough to be spread over tasks."""
    monkeypatch.setattr(spark_job, "LARGE", 1)
    monkeypatch.setattr(spark_job, "SURELY_SMALL", 0)
    damage(good)
    assert complaint in complaint_of(capsys, "verify", good)


def test_runs_of_two_versions_are_not_mixed(
    capsys: pytest.CaptureFixture[str], good: Path, bad: Path
) -> None:
    another_version(bad)
    assert "bad/run.json: schema 9" in complaint_of(capsys, "verify", good, bad, "--local")


def test_an_empty_run_is_not_called_fine(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    draft = DraftRun()
    draft.found(0, 0, 1)
    write_run(tmp_path / "empty", draft.run())
    code, out = answer_of(capsys, "verify", tmp_path / "empty", "--local")
    assert code == 1
    assert "verdict: incomplete" in out
    assert "nothing was published" in out


def test_a_publication_that_nobody_delivers_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """From a member it breaks validity; from outside no property, but it is not passed over."""
    draft = DraftRun()
    draft.found(0, 1, 2)
    draft.add(0, "publish", message_id(0, 1), 0)
    write_run(tmp_path / "outside", draft.run())
    code, out = answer_of(capsys, "verify", tmp_path / "outside", "--local")
    assert code == 0
    assert "1 publication was delivered by nobody" in out
    draft.found(0, 0)
    write_run(tmp_path / "inside", draft.run())
    code, out = answer_of(capsys, "verify", tmp_path / "inside", "--local", "--json")
    assert json.loads(out)["checked"]["validity"]["violations"] == 1
    assert json.loads(out)["undelivered"] == 1


def test_wrong_usage_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str], good: Path, tmp_path: Path
) -> None:
    assert "no such run" in complaint_of(capsys, "verify", tmp_path / "nowhere", "--local")
    (tmp_path / "empty").mkdir()
    assert "not a run" in complaint_of(capsys, "verify", tmp_path / "empty", "--local")
    said = complaint_of(capsys, "verify", good, "--promise", "speed", "--local")
    assert "unknown property 'speed'" in said
    said = complaint_of(capsys, "verify", good, "--local", "--master", "local[1]")
    assert "--local runs without Spark" in said


def test_help_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["verify"], ["report"], ["metrics"], ["trace"], ["trace", "import"]):
        with pytest.raises(SystemExit) as stopped:
            main([*command, "--help"])
        assert stopped.value.code == 0
        assert "usage: causalcast" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("option", "url", "complaint"),
    [
        ("--master", "spark://127.0.0.1:1", "nobody answers there"),
        ("--master", "spark://127.0.0.1:1,127.0.0.1:2", "nobody answers there"),
        ("--remote", "sc://127.0.0.1:1", "nobody answers there"),
        ("--master", "spark://127.0.0.1:door", "expected spark://HOST:PORT"),
    ],
)
def test_a_dead_address_is_told_at_once(
    capsys: pytest.CaptureFixture[str], good: Path, option: str, url: str, complaint: str
) -> None:
    assert complaint in complaint_of(capsys, "verify", good, option, url)


@pytest.mark.parametrize(("option", "scheme"), [("--master", "spark"), ("--remote", "sc")])
def test_something_else_at_an_address_is_told_soon(
    capsys: pytest.CaptureFixture[str],
    good: Path,
    option: str,
    scheme: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "WAIT_SECONDS", 0.2)
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        url = f"{scheme}://127.0.0.1:{deaf.getsockname()[1]}"
        assert "is silent: no Spark" in complaint_of(capsys, "verify", good, option, url)
