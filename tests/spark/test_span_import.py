"""Spans on Spark give the run that they give in one process."""

import gzip
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from causalcast.errors import TraceError
from causalcast.pipeline.foreign.span_import import import_spans
from causalcast.pipeline.verify import verify
from causalcast.trace.foreign_log import import_records
from causalcast.trace.log_files import LogFiles, files_at
from causalcast.trace.run_folder import read_run
from causalcast.trace.spans.rules import SpanRules
from causalcast.trace.spans.span_files import form_of, spans_of
from causalcast.trace.spans.span_log import span_records

ROLES = ("send", "create", "process", "process", "receive", "settle", "")


def random_spans(random: Random, count: int) -> list[dict[str, Any]]:
    """Anything that spans may be: batches, retries, ties, spans between, missing parents."""
    spans: list[dict[str, Any]] = []
    for number in range(1, count + 1):
        role = random.choice(ROLES)
        parent = random.choice(spans) if spans and random.random() < 0.5 else None
        start = random.randrange(1, 60) * random.choice((1, 1000))
        attributes = {"messaging.operation.type": role, "messaging.destination.name":
                      random.choice("ab"), "shared": random.choice("kl")}  # fmt: skip
        process = random.choice(("p0", "p1", "p2"))
        if process == "p2":  # all of it shares
            attributes["messaging.consumer.group.name"] = "workers"
        if random.random() < 0.3:
            attributes["messaging.message.id"] = f"m{number % 7}"
        links = random.sample(spans, min(len(spans), random.randrange(3)))
        spans.append({
            "process": process,
            "traceId": parent["traceId"] if parent else f"{number:032x}",
            "spanId": f"{number:016x}",
            "parentSpanId": parent["spanId"] if parent else random.choice(("", "00000000000000ff")),
            "kind": {"send": 4, "create": 4, "process": 5, "receive": 5}.get(role, 1),
            "startTimeUnixNano": str(start),
            "endTimeUnixNano": str(start + random.randrange(9)),
            "attributes": [{"key": k, "value": {"stringValue": v}} for k, v in attributes.items()],
            "links": [{key: to[key] for key in ("traceId", "spanId")} for to in links],
            "status": {"code": random.choice((0, 0, 2))},
        })  # fmt: skip
    return spans


def write(spans: list[dict[str, Any]], folder: Path) -> None:
    """A file per process, one of them packed."""
    folder.mkdir()
    for process in ("p0", "p1", "p2"):
        lines = [
            json.dumps({"resourceSpans": [{
                "resource": {"attributes": [
                    {"key": "service.instance.id", "value": {"stringValue": process}},
                    {"key": "service.name", "value": {"stringValue": "shop"}}]},
                "scopeSpans": [{"spans": [span]}],
            }]})
            for span in spans if span["process"] == process
        ]  # fmt: skip
        text = "".join(line + "\n" for line in lines).encode()
        (folder / f"{process}.jsonl").write_bytes(gzip.compress(text) if process == "p1" else text)


def same_run(spark: Any, spans: Path, out: Path, rules: SpanRules) -> None:
    paths = files_at(spans)
    found = import_spans(spark, paths, form_of(paths[0]), out, rules, None, False)
    files = LogFiles(paths)
    records, counts = span_records(spans_of(files, form_of(paths[0]), rules.wanted), rules)
    circular = counts.circular
    expected = import_records(records, files.title, whole=False, circular_spans=circular)
    assert found["spans"] == counts.told()
    there = read_run(out)
    assert there.header == expected.header
    for name in ("nodes", "groups", "events"):
        assert rows_of(there, name) == rows_of(expected, name)
    assert sorted(rows_of(there, "members"), key=str) == sorted(rows_of(expected, "members"),
                                                                key=str)  # fmt: skip


def rows_of(run: Any, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = getattr(run, name).to_pylist()
    return rows


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    ("seed", "rules"),
    [
        (1, SpanRules()),
        (3, SpanRules(process=("service.instance.id", "shared"), delivered="start",
                      retries="all", key="shared", subscriptions={"p0:k": ["a"]})),
        (5, SpanRules(message="id")),
    ],
)  # fmt: skip
def test_it_is_the_same_run(spark: Any, tmp_path: Path, seed: int, rules: SpanRules) -> None:
    write(random_spans(Random(seed), 120), tmp_path / "spans")
    same_run(spark, tmp_path / "spans", tmp_path / "run", rules)


@pytest.mark.slow
@pytest.mark.spark
def test_spans_that_are_their_own_ancestors_make_a_faulty_log(spark: Any, tmp_path: Path) -> None:
    spans = random_spans(Random(2), 60)
    for number, parent in ((10, 11), (11, 12), (12, 10), (20, 20)):
        spans[number].update(traceId=f"{number // 10:032x}", links=[], kind=5,
                             parentSpanId=spans[parent]["spanId"])  # fmt: skip
    write(spans, tmp_path / "spans")
    same_run(spark, tmp_path / "spans", tmp_path / "run", SpanRules())
    verdict = verify(tmp_path / "run")
    assert verdict.verdict == "faulty_log"
    assert verdict.fault is not None and verdict.fault.circular_spans == 4
    assert "4 spans are their own ancestors" in verdict.fault.sentence(verdict.names)


@pytest.mark.slow
@pytest.mark.spark
def test_ids_that_are_none_are_refused_as_in_one_process(spark: Any, tmp_path: Path) -> None:
    spans = random_spans(Random(4), 30)
    spans[7]["spanId"] = "not hexadecimal!"
    write(spans, tmp_path / "spans")
    paths, rules = files_at(tmp_path / "spans"), SpanRules()
    with pytest.raises(TraceError) as told:
        import_spans(spark, paths, "otlp", tmp_path / "run", rules, None, None)
    with pytest.raises(TraceError) as expected:
        span_records(spans_of(LogFiles(paths), "otlp", rules.wanted), rules)
    said = "not OTLP ('not hexadecimal!' is no hexadecimal id)"
    assert str(told.value).endswith(said) and str(expected.value).endswith(said)


@pytest.mark.slow
@pytest.mark.spark
def test_who_never_fails_or_repeats_gets_each_message_once(spark: Any, tmp_path: Path) -> None:
    spans = [span for span in random_spans(Random(8), 300) if span["process"] != "p1"]
    sent = [span for span in spans if span["kind"] == 4]
    for number, to in enumerate(sent, 1000):  # p1 reads each once; the others repeat and fail
        spans.append({**to, "process": "p1", "spanId": f"{number:016x}", "kind": 5,
                      "attributes": [], "links": [{k: to[k] for k in ("traceId", "spanId")}],
                      "parentSpanId": "", "status": {}})  # fmt: skip
    write(spans, tmp_path / "spans")
    same_run(spark, tmp_path / "spans", tmp_path / "run", SpanRules())
    events = [row for row in rows_of(read_run(tmp_path / "run"), "events")
              if row["kind"] == "deliver"]  # fmt: skip
    assert {row["attempt"] for row in events if row["node"] == 1} == {1}
    assert {row["attempt"] for row in events if row["node"] != 1} >= {None, 2}


@pytest.mark.slow
@pytest.mark.spark
def test_long_logs_are_put_in_order_slice_by_slice(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("causalcast.pipeline.foreign.span_slices.ROWS_PER_SLICE", 400)
    monkeypatch.setattr("causalcast.pipeline.foreign.span_slices.ROWS_PER_FILE", 2000)
    write(random_spans(Random(6), 6000), tmp_path / "spans")
    same_run(spark, tmp_path / "spans", tmp_path / "run", SpanRules())
    assert len(list((tmp_path / "run" / "events").glob("*.parquet"))) > 1


@pytest.mark.slow
@pytest.mark.spark
def test_who_publishes_what_never_came_to_it_is_refused(spark: Any, tmp_path: Path) -> None:
    write(random_spans(Random(5), 120), tmp_path / "spans")
    paths, rules = files_at(tmp_path / "spans"), SpanRules(message="id")
    with pytest.raises(TraceError, match="is published twice") as told:
        import_spans(spark, paths, "otlp", tmp_path / "run", rules, None, True)
    records, _ = span_records(spans_of(LogFiles(paths), "otlp", rules.wanted), rules)
    with pytest.raises(TraceError, match="is published twice") as expected:
        import_records(records, "spans", whole=True)
    assert str(told.value).rpartition(": ")[2] == str(expected.value).rpartition(": ")[2]


@pytest.mark.slow
@pytest.mark.spark
def test_what_is_wrong_is_said_in_a_sentence(spark: Any, tmp_path: Path) -> None:
    write(random_spans(Random(4), 30), tmp_path / "spans")
    path = tmp_path / "spans" / "p0.jsonl"
    path.write_text(path.read_text().replace("service.instance.id", "something"))
    paths = files_at(tmp_path / "spans")
    with pytest.raises(TraceError, match="set OTEL_RESOURCE_ATTRIBUTES"):
        import_spans(spark, paths, "otlp", tmp_path / "run", SpanRules(), None, None)
    assert not (tmp_path / "run").exists()
