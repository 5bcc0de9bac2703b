"""Spans in OTLP's JSON form: an object with `resourceSpans`, mostly one per line of a file.

Ids are hexadecimal and numbers of 64 bits are strings, as the OTLP specification says; ids in
base64 and plain numbers, which some exporters write, are read too.
"""

import base64
from collections.abc import Collection, Iterator

import msgspec

from causalcast.errors import TraceError
from causalcast.trace.spans.span import (
    KINDS,
    SPAN_DIGITS,
    TRACE_DIGITS,
    Span,
    hexadecimal,
    key_of,
)

FAILED = (2, "STATUS_CODE_ERROR")


class _Value(msgspec.Struct, gc=False):
    stringValue: str | None = None  # noqa: N815
    intValue: int | str | None = None  # noqa: N815
    boolValue: bool | None = None  # noqa: N815
    doubleValue: float | str | None = None  # noqa: N815

    def text(self) -> str:
        if self.stringValue is not None:
            return self.stringValue
        for value in (self.intValue, self.doubleValue):
            if value is not None:
                return str(value)
        return "" if self.boolValue is None else str(self.boolValue).lower()


class _Attribute(msgspec.Struct, gc=False):
    key: str
    value: _Value | None = None


class _Link(msgspec.Struct, gc=False):
    traceId: str = ""  # noqa: N815
    spanId: str = ""  # noqa: N815


class _Status(msgspec.Struct, gc=False):
    code: int | str = 0


class _Span(msgspec.Struct):
    traceId: str = ""  # noqa: N815
    spanId: str = ""  # noqa: N815
    parentSpanId: str = ""  # noqa: N815
    kind: int | str = 0
    startTimeUnixNano: int | str = 0  # noqa: N815
    endTimeUnixNano: int | str = 0  # noqa: N815
    attributes: list[_Attribute] = []
    links: list[_Link] = []
    status: _Status | None = None


class _Resource(msgspec.Struct):
    attributes: list[_Attribute] = []


class _ScopeSpans(msgspec.Struct):
    spans: list[_Span] = []


class _ResourceSpans(msgspec.Struct):
    resource: _Resource | None = None
    scopeSpans: list[_ScopeSpans] = []  # noqa: N815


class _Traces(msgspec.Struct):
    resourceSpans: list[_ResourceSpans]  # noqa: N815


_DECODER = msgspec.json.Decoder(_Traces)


def read_otlp_json(text: bytes | str, wanted: Collection[str]) -> Iterator[Span]:
    """The spans of one object; a `TraceError` says what is wrong with it."""
    try:
        traces = _DECODER.decode(text)
        for group in traces.resourceSpans:
            shared = _attributes(group.resource.attributes if group.resource else [], wanted)
            for scope in group.scopeSpans:
                for span in scope.spans:
                    yield _span(span, shared, wanted)
    except (msgspec.DecodeError, ValueError) as error:
        raise TraceError(f"not OTLP ({error})") from None


def _span(raw: _Span, shared: dict[str, str], wanted: Collection[str]) -> Span:
    trace, number = _hex(raw.traceId, TRACE_DIGITS), _hex(raw.spanId, SPAN_DIGITS)
    if not trace or not number:
        raise ValueError("a span without an id")
    kind = raw.kind
    if isinstance(kind, str):
        kind = KINDS.get(kind.removeprefix("SPAN_KIND_").lower(), 0)
    own = _attributes(raw.attributes, wanted)
    return Span(
        trace,
        trace + number,
        key_of(trace, _hex(raw.parentSpanId, SPAN_DIGITS)),
        kind,
        int(raw.startTimeUnixNano),
        int(raw.endTimeUnixNano),
        raw.status is not None and raw.status.code in FAILED,
        shared | own if own else shared,
        [key_of(_hex(x.traceId, TRACE_DIGITS), _hex(x.spanId, SPAN_DIGITS)) for x in raw.links],
    )


def _attributes(found: list[_Attribute], wanted: Collection[str]) -> dict[str, str]:
    return {x.key: x.value.text() for x in found if x.key in wanted and x.value is not None}


def _hex(text: str, digits: int) -> str:
    if not text or not text.strip("0"):
        return ""  # some exporters write zeros for "no parent"
    if len(text) == digits:
        return hexadecimal(text)
    if len(text) == -(-digits // 6) * 4:  # as long as base64 of so many bytes is
        return base64.b64decode(text, validate=True).hex()
    raise ValueError(f"{text!r} is no id of {digits} hexadecimal digits")
