"""Logs of real systems: the counts that an independent check found, and no false alarm when rows
are missing or the log is written late.
"""

from pathlib import Path

import pytest

import causalcast
from causalcast.cli.judge import verify
from causalcast.pipeline.report import report
from causalcast.pipeline.report.moving import MovingRun
from causalcast.pipeline.report.report_figures import Figures
from causalcast.pipeline.verdicts.names import Names
from causalcast.pipeline.verdicts.verdict import Verdict
from causalcast.testing import lost_rows
from causalcast.testing.lost_rows import JsonLine, read_lines
from causalcast.testing.partial_logs import imported
from causalcast.trace.run_folder import write_run

LOGS = Path(__file__).parent / "real_logs"
SLOW = read_lines(LOGS / "nats-slow-mod-1sub.jsonl.gz")


def judged(lines: list[JsonLine], folder: Path, whole: bool | None = None) -> Verdict:
    run = imported(lines, None, whole)
    write_run(folder / "run", run)
    return causalcast.verify(folder / "run")


def found(verdict: Verdict) -> dict[str, int]:
    return {result.name: result.violations for result in verdict.results}


@pytest.mark.parametrize(
    ("name", "deliveries", "fifo", "causal", "likely"),
    [
        ("nats-plain-mod", 5_043, 276, 331, "handled by two queues"),
        ("nats-slow-mod-1sub", 3_963, 0, 999, "route p0 → p2 is slower than p0 → p1 → p2"),
        ("zenoh-slow-mod", 9_720, 0, 2_863, "route p0 → p3 is slower than p0 → p1 → p3"),
    ],
)
def test_whole_logs(
    tmp_path: Path, name: str, deliveries: int, fifo: int, causal: int, likely: str
) -> None:
    verdict = judged(read_lines(LOGS / f"{name}.jsonl.gz"), tmp_path)
    assert verdict.counts.deliveries == deliveries
    assert (found(verdict)["fifo_order"], found(verdict)["causal_order"]) == (fifo, causal)
    assert any(likely in mechanism for mechanism in verdict.diagnosis.mechanisms)
    assert verdict.diagnosis.total == causal
    causal_order = verdict.results[5].examples
    mechanisms = [one.cause is not None and one.cause >> 32 != one.message >> 32
                  for one in causal_order[:2]]  # fmt: skip
    assert mechanisms == ([True, False] if fifo else [True, True]), "between senders first"


@pytest.mark.parametrize("seed", range(3))
def test_with_rows_missing_only_true_violations_are_told(tmp_path: Path, seed: int) -> None:
    rest = lost_rows.rows_missing(SLOW, 0.1, seed)
    verdict = judged(rest, tmp_path)
    assert (verdict.verdict, verdict.header.whole) == ("violated", False)
    told = found(verdict)
    assert 300 < told["causal_order"] < 999
    assert told == dict.fromkeys(told, 0) | {"causal_order": told["causal_order"]}
    assert 0 < verdict.counts.unknown < verdict.counts.deliveries
    assert verdict.counts.unseen > 50


def test_a_queue_group_is_owed_nothing(tmp_path: Path) -> None:
    group = read_lines(LOGS / "group-nats.jsonl.gz")
    before = judged(group, tmp_path / "before")
    assert found(before)["causal_order"] > 600, "as if everybody were owed everything"
    now = judged(lost_rows.shared(group, "workers"), tmp_path / "now")
    assert now.verdict == "ok"


def fifo_only() -> list[JsonLine]:
    """A log without any violation: one process delivers what it publishes itself."""
    return [
        {"node": node, "pos": 2 * number + row, "kind": kind, "message": f"{node}{number}"}
        for node in ("a", "b")
        for number in range(40)
        for row, kind in enumerate(("publish", "deliver"))
    ]


def test_a_log_that_is_written_after_the_send_is_named_as_such(tmp_path: Path) -> None:
    clean = fifo_only()
    assert judged(clean, tmp_path / "clean").verdict == "ok"
    verdict = judged(lost_rows.published_late(clean), tmp_path / "late")
    assert verdict.verdict == "faulty_log"
    assert verdict.fault is not None
    assert "logged after the send" in verdict.fault.sentence(verdict.names)
    assert found(verdict)["causal_order"] == found(verdict)["no_creation"] == 0


@pytest.mark.parametrize(
    ("name", "verdict"), [("dlq", "ok"), ("retry", "ok"), ("torn", "incomplete")]
)
def test_small_ones(tmp_path: Path, name: str, verdict: str) -> None:
    assert judged(read_lines(LOGS / f"{name}.jsonl"), tmp_path).verdict == verdict


def test_redelivered_without_a_crash(tmp_path: Path) -> None:
    lines = read_lines(LOGS / "redeliver.jsonl")
    assert judged(lines, tmp_path / "unsaid").verdict == "violated"
    lines[-1]["attempt"] = 2
    lines[-3]["attempt"] = lines[-2]["attempt"] = 1
    assert judged(lines, tmp_path / "numbered").verdict == "ok"


def test_names_and_places_are_those_of_the_log(tmp_path: Path) -> None:
    verdict = judged(SLOW, tmp_path)
    names: Names = verdict.names
    example = verdict.to_json()["checked"]["causal_order"]["counter_examples"][0]["names"]
    assert example["message"].startswith("p1-")
    assert {example["group"], example["cause_group"]} <= {"access", "posts"}
    of_node = [line for line in SLOW if line["node"] == example["node"]]
    delivers = [line for line in of_node if line["kind"] == "deliver"]
    row = next(line for line in delivers if line["message"] == example["message"])
    assert example["pos"] == str(row["pos"]), "not the place after joins were taken out"
    assert names.node(0) == "p0"


def test_a_report_is_called_after_the_log_it_is_about(tmp_path: Path) -> None:
    verdict = judged(SLOW, tmp_path)
    verdict.header.run_id = "monday-night"
    page = report._head([verdict])
    assert "<h1>monday-night</h1>" in page
    told = report._run(MovingRun(0, verdict), {}, Figures(), alone=True)
    assert "Likely: route p0 → p2 is slower than p0 → p1 → p2" in told


def test_what_does_not_count_is_said_not_to() -> None:
    """Beside `verdict: ok` nothing says only `violated`."""
    lines = read_lines(LOGS / "nats-plain-mod.jsonl.gz")
    run = imported(lines, None)
    verdict = causalcast.verify(run, promise="no_creation")
    assert verdict.verdict == "ok"
    fifo = next(result for result in verdict.results if result.name == "fifo_order")
    assert fifo.status == "violated"
    assert "violated (not counted)" in verify._result(fifo)
