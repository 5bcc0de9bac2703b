"""Spans in Jaeger's JSON form, as its user interface and its query service give them out.

A reference to a parent is CHILD_OF within the trace; whatever else a span refers to is a link.
Times are microseconds. What Jaeger's own clients call `hostname` is `host.name` here.
"""

from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from causalcast.errors import TraceError
from causalcast.trace.spans.span import KINDS, SPAN_DIGITS, TRACE_DIGITS, Span, hexadecimal

RENAMED = {"hostname": "host.name"}
SERVICE = "service.name"


class _Tag(msgspec.Struct, gc=False):
    key: str
    value: Any = None


class _Reference(msgspec.Struct, gc=False):
    traceID: str = ""  # noqa: N815
    spanID: str = ""  # noqa: N815
    refType: str = "CHILD_OF"  # noqa: N815


class _Span(msgspec.Struct):
    traceID: str  # noqa: N815
    spanID: str  # noqa: N815
    startTime: int  # noqa: N815
    duration: int = 0
    references: list[_Reference] = []
    tags: list[_Tag] = []
    processID: str = ""  # noqa: N815


class _Process(msgspec.Struct):
    serviceName: str = ""  # noqa: N815
    tags: list[_Tag] = []


class _Trace(msgspec.Struct):
    spans: list[_Span] = []
    processes: dict[str, _Process] = {}


class _Answer(msgspec.Struct):
    data: list[_Trace]


_DECODER = msgspec.json.Decoder(_Answer)


def read_jaeger(text: bytes | str, wanted: Collection[str]) -> Iterator[Span]:
    """The spans of one answer of Jaeger's; a `TraceError` says what is wrong with it."""
    try:
        answer = _DECODER.decode(text)
        for trace in answer.data:
            shared = {
                name: {SERVICE: process.serviceName} | _attributes(process.tags, wanted)
                for name, process in trace.processes.items()
            }
            for span in trace.spans:
                yield _span(span, shared.get(span.processID, {}), wanted)
    except (msgspec.DecodeError, ValueError) as error:
        raise TraceError(f"not Jaeger's JSON ({error})") from None


def _span(raw: _Span, shared: dict[str, str], wanted: Collection[str]) -> Span:
    trace = _hex(raw.traceID, TRACE_DIGITS)
    tags = {tag.key: tag.value for tag in raw.tags}
    parent, links = "", []
    for reference in raw.references:
        key = _hex(reference.traceID, TRACE_DIGITS) + _hex(reference.spanID, SPAN_DIGITS)
        if reference.refType == "CHILD_OF" and key.startswith(trace) and not parent:
            parent = key
        else:
            links.append(key)
    start = raw.startTime * 1000
    return Span(
        trace,
        trace + _hex(raw.spanID, SPAN_DIGITS),
        parent,
        KINDS.get(str(tags.get("span.kind", "")).lower(), 0),
        start,
        start + raw.duration * 1000,
        tags.get("error") in (True, "true") or tags.get("otel.status_code") == "ERROR",
        shared | _attributes(raw.tags, wanted),
        links,
    )


def _hex(text: str, digits: int) -> str:
    """Zeros at the beginning may be left out."""
    if not text or len(text) > digits:
        raise ValueError(f"{text!r} is no id of {digits} hexadecimal digits")
    return hexadecimal(text.zfill(digits))


def _attributes(tags: list[_Tag], wanted: Collection[str]) -> dict[str, str]:
    named = [(RENAMED.get(tag.key, tag.key), tag.value) for tag in tags]
    return {name: _text(value) for name, value in named if name in wanted and value is not None}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
