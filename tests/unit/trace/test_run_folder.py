"""A run folder is written whole, read back as it was, and refused if it is damaged."""

from pathlib import Path
from random import Random

import pytest

from causalcast.errors import TraceError
from causalcast.testing.random_traces import good_run
from causalcast.trace.run_folder import event_files, read_run, write_run
from causalcast.trace.run_header import RunHeader


def test_what_is_written_is_read(tmp_path: Path) -> None:
    for seed in range(20):
        run = good_run(Random(seed)).run()
        write_run(tmp_path / str(seed), run)
        again = read_run(tmp_path / str(seed))
        assert again.header == run.header
        assert again.events.to_pylist() == run.events.to_pylist()
        assert again.members.equals(run.members)


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    run = good_run(Random(1)).run()
    for name in ("one", "two"):
        write_run(tmp_path / name, run)
    one = {p.relative_to(tmp_path / "one"): p for p in (tmp_path / "one").rglob("*.*")}
    for relative, path in one.items():
        if path.is_file():
            assert path.read_bytes() == (tmp_path / "two" / relative).read_bytes()


def test_a_log_is_never_split_between_files(tmp_path: Path) -> None:
    run = good_run(Random(3)).run()
    write_run(tmp_path / "run", run)
    from pyarrow import parquet

    nodes = [set(parquet.read_table(f)["node"].to_pylist()) for f in event_files(tmp_path / "run")]
    assert len(nodes) > 1
    assert sum(map(len, nodes)) == len(set().union(*nodes))


def test_an_existing_run_is_not_overwritten(tmp_path: Path) -> None:
    run = good_run(Random(1)).run()
    write_run(tmp_path / "run", run)
    with pytest.raises(TraceError, match="already exists"):
        write_run(tmp_path / "run", run)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[]", "expected an object"),
        ('{"schema": 3}', "schema 3, this version reads 1 and 2"),
        ('{"schema": 1, "world": "real"}', "key 'run_id' is missing"),
        ('{"schema": 1, "run_id": "x", "world": "flat"}', "world 'flat'"),
        ('{"schema": 1, "run_id": "x", "world": "real", "guarantees": 1}', "must be a list"),
        ('{"schema": 1, "run_id": "x", "world": "real", "guarantees": ["luck"]}', "'luck'"),
    ],
)
def test_a_wrong_header_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(TraceError, match=complaint):
        RunHeader.from_json(text, tmp_path / "run.json")
