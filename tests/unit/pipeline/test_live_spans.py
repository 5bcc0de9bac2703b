"""Spans while they are written: each moment once, in order, and only when it is settled."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from causalcast.errors import TraceError
from causalcast.pipeline.live.live_spans import GrowingSpans
from causalcast.pipeline.live.live_table import LiveLines, json_lines_in
from causalcast.trace.log_files import LogFiles, files_at
from causalcast.trace.spans.rules import SpanRules
from causalcast.trace.spans.span_files import spans_of
from causalcast.trace.spans.span_log import span_records

SPANS = Path(__file__).parents[3] / "examples" / "spans"


def growing(folder: Path, settled_after: float = 0.0) -> GrowingSpans:
    return GrowingSpans(lambda: json_lines_in(folder), SpanRules(), settled_after)


def single_spans() -> list[tuple[int, str, str]]:
    """The spans of the example, one line each: when it ended, whose it is, the line."""
    found = []
    for path in files_at(SPANS):
        for line in gzip.decompress(path.read_bytes()).splitlines():
            for group in json.loads(line)["resourceSpans"]:
                for scope in group["scopeSpans"]:
                    for span in scope["spans"]:
                        alone = {"resource": group["resource"], "scopeSpans": [{"spans": [span]}]}
                        text = json.dumps({"resourceSpans": [alone]}) + "\n"
                        found.append((int(span["endTimeUnixNano"]), path.name[:3], text))
    return sorted(found)


def rows(raw: dict[str, Any]) -> tuple[Any, ...]:
    return raw["node"], raw["kind"], raw.get("group"), raw.get("note")


def test_what_is_told_while_it_grows_is_what_the_whole_says(tmp_path: Path) -> None:
    spans = growing(tmp_path, settled_after=0.05)
    live = LiveLines()
    came = []
    for number, (_, name, line) in enumerate(single_spans()):
        with (tmp_path / f"{name}.jsonl").open("a") as file:
            file.write(line)
        if number % 50 == 0:
            records = spans.records()
            came += records
            live.take(records)
    came += (rest := spans.records() + spans.finish())
    live.take(rest)
    live.check.finish()
    rules = SpanRules()
    expected, _ = span_records(spans_of(LogFiles(files_at(SPANS)), "otlp", rules.wanted), rules)
    kinds = [sorted((r.raw["node"], r.raw["kind"]) for r in one) for one in (came, expected)]
    assert kinds[0] == kinds[1]
    assert live.out_of_order == 0
    assert live.check.violations > 0
    names = {record.raw["message"] for record in came}
    assert {"ada-1", "bob-1"} <= names and not any(len(name) > 20 for name in names)


def test_a_message_without_a_name_is_called_by_its_span(tmp_path: Path) -> None:
    spans = growing(tmp_path)
    lines = [line.replace("messaging.message.id", "other") for _, _, line in single_spans()]
    (tmp_path / "a.jsonl").write_text("".join(lines))
    named = {record.raw["message"] for record in spans.records() + spans.finish()}
    assert {len(name) for name in named} == {16}


def test_what_is_young_is_held_back(tmp_path: Path) -> None:
    spans = growing(tmp_path, settled_after=3600.0)
    (tmp_path / "a.jsonl").write_text("".join(line for _, _, line in single_spans()))
    assert spans.records() == []
    assert len(spans.finish()) == 580
    assert spans.finish() == []


def test_half_a_line_waits_for_the_rest(tmp_path: Path) -> None:
    spans = growing(tmp_path)
    _, _, line = single_spans()[0]
    path = tmp_path / "a.jsonl"
    path.write_text(line[:100])
    assert spans.records() == []
    with path.open("a") as file:
        file.write(line[100:])
    spans.records()
    path.write_text(path.read_text() + "{}\n")
    with pytest.raises(TraceError, match=r"a.jsonl: line 2: not OTLP"):
        spans.records()
