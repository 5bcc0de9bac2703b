"""Files of spans: every form gives the same spans, and what is torn or wrong is told."""

import base64
import gzip
import json
from pathlib import Path

import pytest
from span_makers import framed, handled, jaeger, json_line, otlp, protobuf, sent

from causalcast.errors import TraceError
from causalcast.trace.log_files import LogFiles
from causalcast.trace.spans.rules import SpanRules
from causalcast.trace.spans.span import Span
from causalcast.trace.spans.span_files import form_of, spans_of

SPANS = (
    sent("p0", 1, 1_000_000, more={"messaging.message.id": "grüße", "bytes": 70}),
    handled("p1", 2, 2_000_000, 3_000_000, 1, trace=2, failed=True, more={"n": -5, "ok": True}),
    sent("p1", 3, 2_500_000, trace=2, parent=2, more={"half": 0.5}),
)
WANTED = SpanRules().wanted | {"n", "ok", "half"}


def read(path: Path) -> tuple[list[Span], list[str]]:
    files = LogFiles([path])
    return list(spans_of(files, form_of(path), WANTED)), files.left_out


def everything(spans: list[Span]) -> list[tuple[object, ...]]:
    return sorted(
        (s.key, s.parent, s.kind, s.start // 1000, s.end // 1000, s.failed,
         sorted(s.attributes.items()), s.links)
        for s in spans
    )  # fmt: skip


FORMS = {
    "otlp": json_line(*SPANS).encode(),
    "a line per span": "".join(json_line(span) for span in SPANS).encode(),
    "for people": json.dumps(otlp(*SPANS), indent=4).encode(),
    "packed": gzip.compress(json_line(*SPANS).encode()),
    "protobuf": protobuf(otlp(*SPANS)),
    "protobuf, one after another": b"".join(protobuf(otlp(span)) for span in SPANS),
    "protobuf with lengths": framed(*(otlp(span) for span in SPANS)),
    "jaeger": json.dumps(jaeger(*SPANS)).encode(),
    "jaeger for people": json.dumps(jaeger(*SPANS), indent=2).encode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_spans(tmp_path: Path, form: str) -> None:
    path = tmp_path / "spans"
    path.write_bytes(FORMS[form])
    spans, left_out = read(path)
    assert everything(spans) == [
        (SPANS[0].key, "", 4, 1000, 1000, False,
         [("messaging.destination.name", "chat"), ("messaging.message.id", "grüße"),
          ("messaging.operation.type", "send"), ("service.instance.id", "p0"),
          ("service.name", "shop")], []),
        (SPANS[1].key, "", 5, 2000, 3000, True,
         [("messaging.destination.name", "chat"), ("messaging.operation.type", "process"),
          ("n", "-5"), ("ok", "true"), ("service.instance.id", "p1"), ("service.name", "shop")],
         [SPANS[0].key]),
        (SPANS[2].key, SPANS[1].key, 4, 2500, 2500, False,
         [("half", "0.5"), ("messaging.destination.name", "chat"),
          ("messaging.operation.type", "send"), ("service.instance.id", "p1"),
          ("service.name", "shop")], []),
    ]  # fmt: skip
    assert left_out == []


def test_other_ways_to_write_otlp_are_read() -> None:
    text = json.dumps(otlp(SPANS[0]))
    text = text.replace('"kind": 4', '"kind": "SPAN_KIND_PRODUCER"')
    text = text.replace('"1000000"', "1000000")
    text = text.replace('"0000000000000001"', '"AAAAAAAAAAE="')  # base64, as protobuf's JSON has it
    text = text.replace('"status"', '"parentSpanId": "", "status"')
    from causalcast.trace.spans.otlp_json import read_otlp_json

    (span,) = read_otlp_json(text, WANTED)
    assert (span.key, span.kind, span.start, span.parent) == (SPANS[0].key, 4, 1_000_000, "")
    text = text.replace('"parentSpanId": ""', f'"parentSpanId": "{"0" * 16}"')
    (span,) = read_otlp_json(text, WANTED)
    assert span.parent == ""


@pytest.mark.parametrize("form", ["a line per span", "protobuf with lengths", "protobuf"])
def test_a_torn_end_is_told_and_left_out(tmp_path: Path, form: str) -> None:
    """Wherever it is torn: what is read are the first spans, each as it is in the whole."""
    path = tmp_path / "spans"
    path.write_bytes(FORMS[form])
    whole, _ = read(path)
    for cut in range(2, len(FORMS[form]) // 2, 7):
        torn = FORMS[form][:-cut]
        path.write_bytes(torn)
        spans, left_out = read(path)
        assert spans == whole[: len(spans)] and len(spans) < len(whole)
        assert torn.endswith(b"\n") or ["torn" in said for said in left_out] == [True]


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b'{"resourceSpans": 7}\n', "line 1: not OTLP (Expected `array`"),
        (json_line(*SPANS).encode() + b"{}\n", "line 2: not OTLP (Object missing required field"),
        (json_line(*SPANS).replace('"0000000000000002"', '"2"').encode(), "'2' is no id of 16"),
        (json_line(*SPANS).replace('"0000000000000002"', '"000000000000000z"').encode(),
         "line 1: not OTLP ('000000000000000z' is no hexadecimal id)"),
        (json_line(*SPANS).replace('"0000000000000002"', '"0000 000 0000002"').encode(),
         "no hexadecimal id"),
        (json_line(*SPANS).replace('"spanId": "0000000000000002"', '"spanId": ""').encode(),
         "a span without an id"),
        (json.dumps(jaeger(*SPANS)).replace('"0000000000000002"', '"zz"').encode(),
         "not Jaeger's JSON ('00000000000000zz' is no hexadecimal id)"),
        (json.dumps(jaeger(*SPANS)).replace('"0000000000000002"', f'"{2:020}"').encode(),
         "is no id of 16 hexadecimal digits"),
        (protobuf(otlp(*SPANS))[:2] + b"\xff" * 30, "not OTLP"),
        (b'{"data": [{"traceID": "1", "spans": [{"spanID": "2"}]}]}', "not Jaeger's JSON"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(tmp_path: Path, data: bytes, complaint: str) -> None:
    path = tmp_path / "spans"
    path.write_bytes(data)
    with pytest.raises(TraceError) as caught:
        read(path)
    assert str(caught.value).startswith(str(path)) and complaint in str(caught.value)


def test_json_lines_of_ours_are_no_spans(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text('{"node": "a", "pos": 0, "kind": "crash"}\n')
    assert form_of(path) == "jsonl"


# Two spans as OpenTelemetry's own encoder wrote them (opentelemetry-exporter-otlp-proto-common).
REAL = """
CuEDCj4KFgoMc2VydmljZS5uYW1lEgYKBHNob3AKGwoTc2VydmljZS5pbnN0YW5jZS5pZBIECgJwMAoHCgFuEgIYAxKeAwoG
CgF0EgExEpICChCTZbgsL05+mSA+4luzyfQFEgg2ZRxfKGLwBCoJc2VuZCBjaGF0MAQ5bQgo1hLm6BhBJOXK1hLm6BhKJAoa
bWVzc2FnaW5nLmRlc3RpbmF0aW9uLm5hbWUSBgoEY2hhdEocChRtZXNzYWdpbmcubWVzc2FnZS5pZBIECgLDpEoiChhtZXNz
YWdpbmcub3BlcmF0aW9uLnR5cGUSBgoEc2VuZEoTCgRzaXplEgsY+f//////////AUoICgJvaxICEAFKEQoEaGFsZhIJIQAA
AAAAAOA/ShQKBGxpc3QSDCoKCgMKAWEKAwoBYlodCcBzy5kd5ugYEglzb21ldGhpbmcaBwoBeBICGAF6AIUBAAEAABJ/ChAm
TLpgCydkbJJwEeMi6w7+Egjobf+oNaDmEyoMcHJvY2VzcyBjaGF0MAU5f3lP1xLm6BhBTtpP1xLm6BhqLQoQk2W4LC9OfpkgPu
Jbs8n0BRIINmUcXyhi8AQiCgoDd2h5EgMKAXg1AAEAAHoKEgZicm9rZW4YAoUBAAEAAA==
"""


def test_what_opentelemetry_encodes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "spans"
    path.write_bytes(base64.b64decode(REAL))
    files = LogFiles([path])
    assert form_of(path) == "otlp-protobuf"
    sent, handled = spans_of(files, "otlp-protobuf", {"size", "messaging.message.id", "n"})
    assert sent == Span(
        "9365b82c2f4e7e99203ee25bb3c9f405",
        "9365b82c2f4e7e99203ee25bb3c9f40536651c5f2862f004", "", 4,
        1794937420083890285, 1794937420094563620, False,
        {"n": "3", "messaging.message.id": "ä", "size": "-7"}, [],
    )  # fmt: skip
    assert (handled.kind, handled.failed, handled.links) == (5, True, [sent.key])
    assert handled.end == 1794937420103277134
