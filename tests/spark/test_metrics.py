"""Each metric on a handful of rows whose figures can be computed in the head."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from causalcast.pipeline.metrics.summary import summary, summary_by
from causalcast.pipeline.report.report_data import figures
from causalcast.pipeline.spark import tables as tables_module
from causalcast.pipeline.spark.tables import read_tables
from causalcast.testing.draft_run import message_id
from causalcast.trace.recorder import Recorder, code_of
from causalcast.trace.run_folder import Run, write_run
from causalcast.trace.run_header import RunHeader
from causalcast.trace.schema import GROUPS, MEMBERS, NODES

A, B, C, D = 0, 1, 2, 3
M = message_id(A, 1)


def small_run() -> Run:
    """A publishes at 1 ms; B gets it at 3 ms, twice; C at 4 ms, and holds it until 11 ms; D is not
    in the group."""
    recorder = Recorder("full")

    def row(node: int, at_us: int, kind: str, **more: Any) -> None:
        recorder.add(node, at_us, code_of(kind), M, 0, **more)

    row(A, 1000, "publish", payload_bytes=100)
    row(A, 1000, "deliver", payload_bytes=100)
    for peer, metadata, entries in ((B, 10, 1), (C, 20, 2), (B, 30, 0)):
        sizes = {"payload_bytes": 100, "metadata_bytes": metadata}
        row(A, 1000, "send", peer=peer, value=entries, **sizes)
    recorder.add(B, 2000, code_of("send"), peer=A, metadata_bytes=7)  # control, no payload
    row(B, 3000, "deliver", value=1, payload_bytes=100)
    row(B, 3500, "duplicate", peer=A)
    row(C, 4000, "hold", value=message_id(A, 9), note="a cause")
    row(C, 11000, "release")
    row(C, 11000, "deliver", value=2, payload_bytes=100)
    recorder.add(C, 12000, code_of("crash"))
    recorder.add(A, 2000, code_of("note"), value=4, note="state")
    recorder.add(B, 2000, code_of("note"), value=8, note="state")
    members = [A, B, C]
    none = [None] * 4
    return Run(
        RunHeader("small", "simulated"),
        pa.table([[*members, D], ["a", "b", "c", "d"], none, none], schema=NODES),
        pa.table([[0], ["most"]], schema=GROUPS),
        pa.table([[0, 0, 0], members, [0, 0, 0], none[:3]], schema=MEMBERS),
        recorder.table(),
    )


@pytest.mark.spark
@pytest.mark.parametrize("runs_in_an_expression", [64, 0])
def test_rows_know_their_run(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs_in_an_expression: int
) -> None:
    monkeypatch.setattr(tables_module, "RUNS_IN_AN_EXPRESSION", runs_in_an_expression)
    folders = [tmp_path / "a run", tmp_path / "a=50% of it+1"]  # blanks and signs confuse nobody
    write_run(folders[0], small_run())
    write_run(folders[1], restarted_run())
    counted = read_tables(spark, folders).deliveries.groupBy("run").count().collect()
    assert {row["run"]: row["count"] for row in counted} == {0: 3, 1: 8}


@pytest.mark.spark
def test_every_metric(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "a run"  # a blank in the name must not confuse anybody
    write_run(folder, small_run())
    [measured] = summary(read_tables(spark, [folder]), 1)
    assert measured == {
        "publications": 1,
        "deliveries": 3,
        "deliveries_per_second": pytest.approx(300),
        "goodput_bytes_per_second": pytest.approx(20_000),
        "fastest_origin_per_second": None,  # one publication has no rate
        "reliability": 1.0,  # C crashed for good, and is not counted
        "latency_mean_ms": pytest.approx(6),
        "latency_p50_ms": pytest.approx(2),
        "latency_p95_ms": pytest.approx(10),
        "latency_p99_ms": pytest.approx(10),
        "latency_max_ms": pytest.approx(10),
        "redundancy": pytest.approx(3 / 2 - 1),
        "held_share": pytest.approx(1 / 3),
        "wait_mean_ms": pytest.approx(7),
        "wait_max_ms": pytest.approx(7),
        "metadata_mean_bytes": pytest.approx(20),
        "metadata_max_bytes": 30,
        "payload_sent_bytes": 300,
        "metadata_sent_bytes": 67,
        "state_mean": pytest.approx(6),
        "state_max": 8,
        "recoveries": None,
        "recovery_mean_ms": None,
        "recovery_max_ms": None,
        "hops_mean": pytest.approx(1.5),
        "hops_max": 2,
        "clock_entries_mean": pytest.approx(1),
        # A whole vector would name B, C and D, who may be a cause from outside the group.
        "compaction_degree": pytest.approx(1 / 3),
        "compaction_degree_max": pytest.approx(2 / 3),
    }


@pytest.mark.spark
def test_figures_for_the_report(spark: Any, tmp_path: Path) -> None:
    write_run(tmp_path / "run", small_run())
    [drawn] = figures(read_tables(spark, [tmp_path / "run"]), 1)
    assert (drawn.first_us, drawn.last_us) == (1000, 12000)
    assert sum(count for _, count in drawn.latency) == 2
    assert sum(published for _, published, _ in drawn.over_time) == 1
    assert sum(delivered for _, _, delivered in drawn.over_time) == 3
    counts = [(n.node, n.published, n.delivered, n.duplicates, n.held) for n in drawn.nodes]
    assert counts == [(A, 1, 1, 0, 0), (B, 0, 1, 1, 0), (C, 0, 1, 0, 1)]
    assert drawn.waited_for == [(A, 1)]
    assert [(c.node, c.at_us, c.kind) for c in drawn.changes] == [(C, 12000, "crash")]


# Metrics of the literature, by the columns that tell them: M1 throughput of one sender, M2 of all,
# M3 goodput, M4 and M5 metadata, M6 memory, M7 reliability, M8 latency, M9 redundancy, M11
# compaction. (M10, violations, is what `verify` finds.)
KEYS = {
    "M1": "fastest_origin_per_second", "M2": "deliveries_per_second",
    "M3": "goodput_bytes_per_second", "M4": "metadata_mean_bytes", "M5": "metadata_max_bytes",
    "M6": "state_max", "M7": "reliability", "M8": "latency_p50_ms", "M9": "redundancy",
    "M11": "compaction_degree",
}  # fmt: skip


def table_of(rows: list[dict[str, Any]], key: str) -> dict[int, dict[str, Any]]:
    return {row[key]: {name: row.get(column) for name, column in KEYS.items()} for row in rows}


@pytest.mark.slow
@pytest.mark.spark
def test_by_node_group_and_second(spark: Any, tmp_path: Path) -> None:
    """A publishes a second message at 3 s, which B gets at once and C, being down, never."""
    run = small_run()
    recorder = Recorder("full")
    second = message_id(A, 2)
    recorder.add(A, 3_000_000, code_of("publish"), second, 0, payload_bytes=50)
    recorder.add(
        A, 3_000_000, code_of("send"), second, 0, B, payload_bytes=50, metadata_bytes=5, value=2
    )
    recorder.add(B, 3_001_000, code_of("deliver"), second, 0, payload_bytes=50)
    more = recorder.table()
    rows = run.events.to_pylist() + [
        row | {"pos": row["pos"] + {A: 6, B: 4}[row["node"]]} for row in more.to_pylist()
    ]
    rows.sort(key=lambda row: (row["node"], row["pos"]))
    run.events = pa.Table.from_pylist(rows, schema=run.events.schema)
    write_run(tmp_path / "run", run)
    tables = read_tables(spark, [tmp_path / "run"])

    [by_node] = summary_by(tables, 1, "node")
    nodes = table_of(by_node, "node")
    assert nodes[A] == {
        "M1": pytest.approx(1 / 2.999), "M2": None, "M3": None, "M4": pytest.approx(65 / 4),
        "M5": 30, "M6": 4, "M7": None, "M8": None, "M9": None, "M11": pytest.approx(5 / 4 / 3),
    }  # fmt: skip
    assert (nodes[B]["M7"], nodes[B]["M8"], nodes[B]["M9"]) == (1.0, 1.0, pytest.approx(3 / 2 - 1))
    assert (nodes[C]["M7"], nodes[C]["M8"], nodes[C]["M9"]) == (None, 10.0, 0.0)
    assert [row["wait_max_ms"] for row in by_node] == [None, None, 7.0]

    [[group]] = summary_by(tables, 1, "group")
    assert table_of([group], "group")[0] == {
        "M1": pytest.approx(1 / 2.999), "M2": pytest.approx(4 / 3.0),
        "M3": pytest.approx(250 / 3.0),
        "M4": pytest.approx(65 / 4), "M5": 30, "M6": None, "M7": 1.0,  # of B: C is down
        "M8": 2.0, "M9": pytest.approx(4 / 3 - 1), "M11": pytest.approx(5 / 4 / 3),
    }  # fmt: skip
    assert group["wait_max_ms"] == 7.0

    [by_second] = summary_by(tables, 1, "second")
    seconds = table_of(by_second, "second")
    assert sorted(seconds) == [0, 3]
    assert [seconds[s]["M2"] for s in (0, 3)] == [3.0, 1.0]
    assert [seconds[s]["M3"] for s in (0, 3)] == [200.0, 50.0]
    assert [seconds[s]["M4"] for s in (0, 3)] == [20.0, 5.0]
    assert [seconds[s]["M6"] for s in (0, 3)] == [8, None]
    assert [seconds[s]["M7"] for s in (0, 3)] == [1.0, 1.0]
    assert [seconds[s]["M8"] for s in (0, 3)] == [2.0, 1.0]
    assert [seconds[s]["M9"] for s in (0, 3)] == [0.5, 0.0]
    assert [seconds[s]["M11"] for s in (0, 3)] == [pytest.approx(1 / 3), pytest.approx(2 / 3)]


def restarted_run() -> Run:
    """A publishes at 1 and 2 ms and, twice, at 20 ms and later. B is down from 1.5 to 10 ms, gets
    the second message at 14 ms and the third at 25 ms; it restarts once more and missed nothing.
    C never gets the third.
    """
    recorder = Recorder("full")
    for number, at_us in ((1, 1000), (2, 2000), (3, 20_000)):
        recorder.add(A, at_us, code_of("publish"), message_id(A, number), 0)
        recorder.add(A, at_us, code_of("deliver"), message_id(A, number), 0)
        if number < 3:
            recorder.add(C, at_us + 500, code_of("deliver"), message_id(A, number), 0)
    recorder.add(B, 1200, code_of("deliver"), message_id(A, 1), 0)
    recorder.add(B, 1500, code_of("crash"))
    recorder.add(B, 10_000, code_of("recover"))
    recorder.add(B, 14_000, code_of("deliver"), message_id(A, 2), 0)
    recorder.add(B, 25_000, code_of("deliver"), message_id(A, 3), 0)
    recorder.add(B, 30_000, code_of("crash"))
    recorder.add(B, 31_000, code_of("recover"))
    run = small_run()
    run.events = recorder.table()
    return run


@pytest.mark.slow
@pytest.mark.spark
def test_recovery_time_reliability_and_the_fastest_publisher(spark: Any, tmp_path: Path) -> None:
    write_run(tmp_path / "run", restarted_run())
    [measured] = summary(read_tables(spark, [tmp_path / "run"]), 1)
    assert measured["recoveries"] == 2
    assert measured["recovery_max_ms"] == pytest.approx(4)
    assert measured["recovery_mean_ms"] == pytest.approx(2)
    assert measured["reliability"] == pytest.approx(5 / 6)
    assert measured["fastest_origin_per_second"] == pytest.approx(2 / 0.019)
    assert measured["held_share"] == 0
    assert measured["redundancy"] is None
