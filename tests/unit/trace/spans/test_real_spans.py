"""Spans of three processes at a cluster of NATS with one slow route, from OpenTelemetry's SDK.

The application's own log of that run has 650 deliveries before one of their causes; of 195 the
cause is in the message's own chain of answers. Spans must say the same, and less if less is known.
"""

import dataclasses
import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from span_makers import protobuf

from causalcast.judge import judge
from causalcast.trace.foreign_log import import_records
from causalcast.trace.log_files import LogFiles, files_at
from causalcast.trace.spans.rules import SpanRules
from causalcast.trace.spans.span import Span
from causalcast.trace.spans.span_files import form_of, spans_of
from causalcast.trace.spans.span_log import span_records

FOLDER = Path(__file__).parent / "nats_spans"
MILLISECOND = 1_000_000


def read(folder: Path = FOLDER) -> list[Span]:
    paths = files_at(folder)
    return list(spans_of(LogFiles(paths), form_of(paths[0]), SpanRules().wanted))


def found(spans: Iterable[Span], **decided: Any) -> dict[str, set[tuple[str, str]]]:
    """By property: at which process which message came too early."""
    records, _ = span_records(spans, SpanRules(**decided))
    run = import_records(records, "spans", whole=False)
    nodes = dict(zip(run.nodes["node"].to_pylist(), run.nodes["name"].to_pylist(), strict=True))
    columns = (run.events["message"].to_pylist(), run.events["note"].to_pylist())
    names = {message: note for message, note in zip(*columns, strict=True) if note}
    return {
        name: {(nodes[one.node], names.get(one.message, "?")) for one in violations}
        for name, violations in judge(run).violations.items()
    }


@pytest.fixture(scope="module")
def whole() -> dict[str, set[tuple[str, str]]]:
    return found(read())


def test_the_counts_are_those_of_the_application(whole: dict[str, set[tuple[str, str]]]) -> None:
    assert {name: len(of) for name, of in whole.items() if of} == {
        "causal_order": 650,
        "reply_order": 195,
    }
    assert whole["reply_order"] <= whole["causal_order"]


def test_protobuf_says_the_same(tmp_path: Path, whole: dict[str, set[tuple[str, str]]]) -> None:
    for path in files_at(FOLDER):
        lines = gzip.decompress(path.read_bytes()).splitlines()
        data = b"".join(protobuf(json.loads(line)) for line in lines)
        (tmp_path / path.name.removesuffix(".jsonl.gz")).write_bytes(data)
    assert found(read(tmp_path)) == whole


def test_coarse_clocks_find_less_and_nothing_false(whole: dict[str, set[tuple[str, str]]]) -> None:
    cut = [
        dataclasses.replace(
            span,
            start=span.start // MILLISECOND * MILLISECOND,
            end=span.end // MILLISECOND * MILLISECOND,
        )
        for span in read()
    ]
    told = found(cut)
    assert 300 < len(told["causal_order"]) < 650
    assert told["causal_order"] <= whole["causal_order"]
    assert not told["fifo_order"]


@pytest.mark.parametrize("kept", [0.9, 0.5])
def test_sampled_spans_find_less_and_nothing_false(
    whole: dict[str, set[tuple[str, str]]], kept: float
) -> None:
    random = Random(5)
    told = found([span for span in read() if random.random() < kept])
    assert told["causal_order"] and told["causal_order"] <= whole["causal_order"]
    assert {name for name, of in told.items() if of} <= {"causal_order", "reply_order"}
