"""`causalcast trace import` of spans, as somebody with OpenTelemetry types it."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from causalcast.cli.main import main
from causalcast.trace.run_folder import read_run

SPANS = Path(__file__).parents[2] / "examples" / "spans"  # what traced_album.py left


def said(capsys: pytest.CaptureFixture[str], *arguments: Any) -> dict[str, Any]:
    assert main(["trace", "import", *map(str, arguments), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_folder_of_spans_becomes_a_run_and_is_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "album"
    assert main(["trace", "import", str(SPANS), "--out", str(run)]) == 0
    told = capsys.readouterr().out
    assert "events of 3 nodes in 2 groups" in told
    assert "delivered: when processing ends, or publishes something before that" in told
    assert main(["verify", str(run), "--local", "--promise", "fifo_order"]) == 0
    assert main(["verify", str(run), "--local"]) == 1
    assert "cleo delivered a message before one of its causes" in capsys.readouterr().out


def test_rules_are_chosen_by_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = tmp_path / "known.toml"
    known.write_text('ada = ["access", "posts"]\nbob = ["access"]\n')
    found = said(
        capsys, SPANS, "--out", tmp_path / "run", "--delivered", "start", "--retries", "none",
        "--process", "service.name, service.instance.id", "--subscriptions", known,
    )  # fmt: skip
    rules = "\n".join(found["rules"])
    assert "delivered: when processing starts" in rules
    assert "process: service.name and service.instance.id" in rules
    assert "processed again is delivered twice" in rules
    assert "subscriptions: as declared" in rules
    assert read_run(tmp_path / "run").nodes["name"].to_pylist() == [
        "album:ada",
        "album:bob",
        "album:cleo",
    ]


def test_spans_without_an_instance_are_refused_with_what_to_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spans = tmp_path / "spans.jsonl"
    text = gzip.decompress((SPANS / "ada.jsonl.gz").read_bytes()).decode()
    spans.write_text(text.replace("service.instance.id", "another"))
    assert main(["trace", "import", str(spans), "--out", str(tmp_path / "run")]) == 2
    told = capsys.readouterr().err
    assert "set OTEL_RESOURCE_ATTRIBUTES=service.instance.id=NAME" in told
    assert not (tmp_path / "run").exists()


def test_files_of_several_forms_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log.jsonl").write_text('{"node": "a", "pos": 0, "kind": "crash"}\n')
    logs = [str(SPANS / "ada.jsonl.gz"), str(tmp_path / "log.jsonl")]
    assert main(["trace", "import", *logs, "--out", str(tmp_path / "run")]) == 2
    assert "files of several forms" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["ada = 7", "ada = ", '{"ada": ["x", 1]}'])
def test_subscriptions_that_are_none_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    known = tmp_path / "known.toml"
    known.write_text(text)
    arguments = [str(SPANS), "--out", str(tmp_path / "run"), "--subscriptions", str(known)]
    assert main(["trace", "import", *arguments]) == 2
    assert str(known) in capsys.readouterr().err


def test_spans_that_are_their_own_ancestors_make_a_faulty_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    consumers = [
        {"traceId": "7" * 32, "spanId": f"{n:016x}", "parentSpanId": f"{3 - n:016x}", "kind": 5,
         "startTimeUnixNano": "5", "endTimeUnixNano": "9"}
        for n in (1, 2)
    ]  # fmt: skip
    sent = {"traceId": "8" * 32, "spanId": "3" * 16, "kind": 4, "startTimeUnixNano": "1"}
    attribute = {"key": "service.instance.id", "value": {"stringValue": "ada"}}
    told = {"resource": {"attributes": [attribute]},
            "scopeSpans": [{"spans": [*consumers, sent]}]}  # fmt: skip
    (tmp_path / "spans.jsonl").write_text(json.dumps({"resourceSpans": [told]}) + "\n")
    found = said(capsys, tmp_path / "spans.jsonl", "--out", tmp_path / "run")
    assert any(f"(one is in trace {'7' * 32})" in line for line in found["spans"])
    assert main(["verify", str(tmp_path / "run"), "--local"]) == 1
    out = capsys.readouterr().out
    assert "the log cannot be true: 2 spans are their own ancestors" in out
    assert "verdict: faulty log" in out
    assert main(["verify", str(tmp_path / "run"), "--local", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["log_fault"]["circular_spans"] == 2
