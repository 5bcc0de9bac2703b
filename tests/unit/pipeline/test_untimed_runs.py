"""Of a log without times nobody is told how long things took."""

import json
from pathlib import Path

import pytest

import causalcast
from causalcast.errors import ConfigError
from causalcast.pipeline.report_runs import measure
from causalcast.trace.foreign_log import import_log
from causalcast.trace.run_folder import read_header, write_run

ROWS = [("a", "publish"), ("a", "deliver"), ("b", "deliver"), ("c", "deliver")]


def imported(folder: Path, clock: str) -> Path:
    lines = [
        {"node": node, clock: place, "kind": kind, "message": "m"}
        for place, (node, kind) in enumerate(ROWS)
    ]
    log = folder / "log.jsonl"
    log.write_text("\n".join(map(json.dumps, lines)) + "\n")
    write_run(folder / clock, import_log(log))
    return folder / clock


def test_without_times_there_is_no_latency(tmp_path: Path) -> None:
    run = imported(tmp_path, "pos")
    assert not read_header(run).timed
    (found,) = measure(run)
    assert found["deliveries"] == 3
    assert found["latency_p50_ms"] is None
    assert found["deliveries_per_second"] is None
    by_node = measure(run, by="node")[0]
    assert [row["latency_max_ms"] for row in by_node] == [None, None, None]
    with pytest.raises(ConfigError, match="its rows say no times"):
        measure(run, by="second")
    causalcast.report(run, str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text()
    assert "The rows of this run say no times" in page
    assert "<h3>Latency</h3>" not in page


def test_with_times_there_is(tmp_path: Path) -> None:
    run = imported(tmp_path, "time")
    assert read_header(run).timed
    (found,) = measure(run)
    assert found["latency_max_ms"] == 3000.0
    causalcast.report(run, str(tmp_path / "page.html"))
    assert "<h3>Latency</h3>" in (tmp_path / "page.html").read_text()
