"""Importing on Spark gives the run that importing in one process gives."""

import gzip
import json
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from causalcast.errors import TraceError
from causalcast.pipeline.foreign.foreign_import import import_logs
from causalcast.testing.random_foreign_logs import leave_out, random_log
from causalcast.testing.random_traces import damage, good_run
from causalcast.trace.export import to_json_lines
from causalcast.trace.foreign_log import import_log, import_records, records_of
from causalcast.trace.log_files import LogFiles, files_at
from causalcast.trace.run_folder import Run, read_run


def same(one: Run, other: Run) -> None:
    """Everything but the clock of logs that have none."""
    assert one.header == other.header
    for name in ("nodes", "groups"):
        assert getattr(one, name).equals(getattr(other, name)), name
    rows = [sorted(map(repr, run.members.to_pylist())) for run in (one, other)]
    assert rows[0] == rows[1]
    without_clock = [run.events.drop_columns(["at_us"]).to_pylist() for run in (one, other)]
    assert without_clock[0] == without_clock[1]


def with_names(lines: list[str], random: Random) -> list[str]:
    """The same log as another system would write it: names for everything, times, shuffled."""
    events = [json.loads(line) for line in lines[1:]]  # without the header
    clock: dict[str, int] = {}
    for event in events:
        node = event["node"] = f"host {event['node']}"
        clock[node] = clock.get(node, 0) + 1
        event["time"] = clock[node] / 8
        del event["pos"]
        event.pop("at_us", None)
        if "message" in event:
            event["message"] = f"letter {event['message']}"
        if "group" in event:
            event["group"] = f"room {event['group']}"
    return [json.dumps(event) for event in events]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("seed", [3, 8])
def test_it_is_the_same_run(spark: Any, tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    draft = good_run(random)
    damage(draft, random)
    lines = list(to_json_lines(draft.run()))
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(lines if seed == 3 else with_names(lines, random)) + "\n\n")
    import_logs(spark, [log], tmp_path / "run")
    same(read_run(tmp_path / "run"), import_log(log))


@pytest.mark.slow
@pytest.mark.spark
def test_packed_and_torn_files_are_the_same_run_too(spark: Any, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for number, node in enumerate("abcd"):
        lines = [line(node=node, pos=pos, message=f"{node}{pos}") for pos in range(20)]
        text = ("\n".join(lines) + "\n" + '{"node": "' * (number % 2)).encode()
        (logs / f"{node}.jsonl").write_bytes(text if number < 2 else gzip.compress(text))
    last = "".join(line(node="e", pos=pos, message=f"e{pos}") + "\n" for pos in range(20))
    packed = pa.compress(last.encode(), codec="zstd", asbytes=True)
    (logs / "e.jsonl.zst").write_bytes(packed)
    found = import_logs(spark, files_at(logs), tmp_path / "run")
    said = "the last line is torn: no JSON, and no end"
    assert sorted(found["left_out"]) == [f"{logs / name}.jsonl: {said}" for name in "bd"]
    files = LogFiles(files_at(logs))
    same(read_run(tmp_path / "run"), import_records(records_of(files), files.title))


def line(**values: Any) -> str:
    return json.dumps({"node": "a", "pos": 0, "kind": "publish", "message": "m", **values})


def foreign(random: Random) -> list[str]:
    """A log with every fact that only other systems know; some rows are missing."""
    lines, _ = random_log(random)
    rest = leave_out(lines, random)
    rest += [
        {"node": "x", "pos": 0, "kind": "publish", "message": "letter", "group": "t0"},
        {"node": "y", "pos": 0, "kind": "deliver", "message": "letter", "group": "t0"},
        {"node": "y", "pos": 1, "kind": "publish", "message": "letter", "group": "dead"},
        {"node": "y", "pos": 2, "kind": "publish", "message": "letter", "group": "dead"},
        {"node": "y", "pos": 3, "kind": "publish", "message": "reply", "causes": ["letter"]},
        {"node": "z", "pos": 0, "kind": "deliver", "message": "3.9", "tied": True},
        {"node": "z", "pos": 1, "kind": "deliver", "message": "letter", "tied": True},
        {"node": "w", "at_ns": 5, "kind": "deliver", "message": "reply"},
        {"node": "w", "at_ns": 5, "kind": "deliver", "message": "ghost"},
        {"node": "w", "at_ns": 6, "kind": "deliver", "message": "ghost"},
    ]
    return [json.dumps(line) for line in rest]


@pytest.mark.spark
@pytest.mark.parametrize("seed", [1, pytest.param(6, marks=pytest.mark.slow)])
def test_what_other_systems_know_comes_along(spark: Any, tmp_path: Path, seed: int) -> None:
    lines = foreign(Random(seed))
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(lines))
    import_logs(spark, [log], tmp_path / "run")
    here = import_log(log)
    assert here.header.schema == 2
    same(read_run(tmp_path / "run"), here)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ([line(), "", line(pos="x")], "line 3: not JSON, or a value of the wrong type"),
        ([line(), line(node="b")], "line 2: message 'm' is published twice"),
        ([line(), line(node="b", kind="deliver", attempt=0)], "line 2: 'attempt' must be 1, 2, 3"),
        ([line(), line(node="b", kind="deliver", key="k")], "line 2: 'key' belongs to publish"),
        ([line(), '{"kind": "header", "redelivery": "x"}'], "line 2: 'redelivery' must be one of"),
        ([line(), line(kind="deliver", pos=0)], "pos 0 of 'a' repeated"),
        ([line(), line(pos=1, kind="leave")], "'a' leaves"),
        ([""], "no events"),
    ],
)
def test_what_is_wrong_is_named_by_its_line(
    spark: Any, tmp_path: Path, lines: list[str], complaint: str
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(lines))
    if "leaves" in complaint:
        log.write_text("\n".join([lines[0], json.dumps(json.loads(lines[1]) | {"group": "all"})]))
    with pytest.raises(TraceError) as caught:
        import_logs(spark, [log], tmp_path / "run")
    assert complaint in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"], "nothing half done is left"
