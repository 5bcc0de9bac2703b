"""Spans in OTLP's protobuf form, read by hand: few fields of five messages are needed.

The numbers are those of opentelemetry/proto/trace/v1/trace.proto, which are stable. A file is one
`TracesData` (or several, one after another: that is one with all their parts), or the collector's
file exporter wrote each with its length in four bytes before it.
"""

from collections.abc import Collection, Iterator
from struct import Struct

from causalcast.errors import TraceError
from causalcast.trace.spans.span import Span

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
RESOURCE_SPANS = 1
RESOURCE, SCOPE_SPANS = 1, 2
RESOURCE_ATTRIBUTES = 1
SPANS = 2
TRACE_ID, SPAN_ID, PARENT_ID, KIND, START, END, ATTRIBUTES, LINKS, STATUS = (
    1,
    2,
    4,
    6,
    7,
    8,
    9,
    13,
    15,
)
STATUS_CODE = 3
KEY, VALUE = 1, 2
STRING, BOOL, INT, DOUBLE = 1, 2, 3, 4
FAILED = 2
_FIXED64, _DOUBLE = Struct("<Q"), Struct("<d")

Field = tuple[int, int | bytes]


class TornMessage(Exception):
    """The bytes end inside a message."""


def read_otlp_protobuf(data: bytes, wanted: Collection[str]) -> Iterator[Span]:
    """The spans of one `TracesData` or `ExportTraceServiceRequest`."""
    names = {name.encode(): name for name in wanted}
    for number, group in _fields(data):
        if number == RESOURCE_SPANS and isinstance(group, bytes):
            yield from _resource_spans(group, names)


def split_frames(data: bytes) -> Iterator[bytes]:
    """Messages with their length in four bytes before each; `TornMessage` if the last is torn."""
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        if at + 4 + size > len(data):
            raise TornMessage
        yield data[at + 4 : at + 4 + size]
        at += 4 + size


def _resource_spans(data: bytes, names: dict[bytes, str]) -> Iterator[Span]:
    shared: dict[str, str] = {}
    scopes: list[bytes] = []
    for number, value in _fields(data):
        if number == RESOURCE and isinstance(value, bytes):
            found = [x for n, x in _fields(value) if n == RESOURCE_ATTRIBUTES]
            shared.update(_attributes(found, names))
        elif number == SCOPE_SPANS and isinstance(value, bytes):
            scopes.append(value)
    for scope in scopes:
        for number, value in _fields(scope):
            if number == SPANS and isinstance(value, bytes):
                yield _span(value, shared, names)


def _span(data: bytes, shared: dict[str, str], names: dict[bytes, str]) -> Span:
    trace = span = parent = b""
    kind = start = end = 0
    failed = False
    attributes: list[int | bytes] = []
    links: list[str] = []
    for number, value in _fields(data):
        if number == ATTRIBUTES:
            attributes.append(value)
        elif number == TRACE_ID:
            trace = _bytes(value)
        elif number == SPAN_ID:
            span = _bytes(value)
        elif number == PARENT_ID:
            parent = _bytes(value)
        elif number == KIND:
            kind = _number(value)
        elif number == START:
            start = _number(value)
        elif number == END:
            end = _number(value)
        elif number == LINKS:
            link = dict(_fields(_bytes(value)))
            links.append(_bytes(link.get(1, b"")).hex() + _bytes(link.get(2, b"")).hex())
        elif number == STATUS:
            failed = dict(_fields(_bytes(value))).get(STATUS_CODE) == FAILED
    own = _attributes(attributes, names)
    return Span(
        trace.hex(), (trace + span).hex(), (trace + parent).hex() if parent.strip(b"\0") else "",
        kind, start, end, failed, shared | own if own else shared, links,
    )  # fmt: skip


def _attributes(found: list[int | bytes], names: dict[bytes, str]) -> dict[str, str]:
    attributes = {}
    for data in found:
        pair = dict(_fields(_bytes(data)))
        name = names.get(_bytes(pair.get(KEY, b"")))
        if name is not None:
            attributes[name] = _text(_bytes(pair.get(VALUE, b"")))
    return attributes


def _text(data: bytes) -> str:
    for number, value in _fields(data):
        if number == STRING:
            return _bytes(value).decode("utf-8", "replace")
        if number == BOOL:
            return "true" if value else "false"
        if number == INT:
            whole = _number(value)
            return str(whole - (1 << 64) if whole >> 63 else whole)
        if number == DOUBLE:
            return str(_DOUBLE.unpack(_FIXED64.pack(_number(value)))[0])
    return ""


def _fields(data: bytes) -> Iterator[Field]:
    """The fields of a message in their order: numbers as they are, all else as bytes."""
    at, end = 0, len(data)
    try:
        while at < end:
            tag = data[at]
            at += 1
            if tag >= 0x80:
                tag, at = _varint(data, at - 1)
            wire = tag & 7
            if wire == BYTES:
                size = data[at]
                at += 1
                if size >= 0x80:
                    size, at = _varint(data, at - 1)
                if at + size > end:
                    raise TornMessage
                yield tag >> 3, data[at : at + size]
                at += size
            elif wire == VARINT:
                value, at = _varint(data, at)
                yield tag >> 3, value
            elif wire == FIXED64:
                if at + 8 > end:
                    raise TornMessage
                yield tag >> 3, _FIXED64.unpack_from(data, at)[0]
                at += 8
            elif wire == FIXED32:
                at += 4
            else:
                raise TraceError(f"not OTLP: a field of wire type {wire}")
    except IndexError:
        raise TornMessage from None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise TraceError("not OTLP: a number of more than 64 bits")


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, bytes):
        return value
    raise TraceError("not OTLP: a number where bytes are expected")


def _number(value: int | bytes) -> int:
    if isinstance(value, int):
        return value
    raise TraceError("not OTLP: bytes where a number is expected")
