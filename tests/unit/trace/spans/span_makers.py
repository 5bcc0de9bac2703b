"""Spans for tests, written as OTLP in JSON and in protobuf, and as Jaeger writes them."""

import json
import struct
from dataclasses import dataclass, field
from typing import Any

KINDS = {4: "producer", 5: "consumer", 1: "internal"}


@dataclass
class Made:
    """A span of one process; ids are small numbers, times nanoseconds."""

    process: str
    span: int
    kind: int
    start: int
    end: int
    trace: int = 1
    parent: int = 0
    links: list[tuple[int, int]] = field(default_factory=list)
    failed: bool = False
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"{self.trace:032x}{self.span:016x}"

    def attributes(self) -> dict[str, Any]:
        operation = {4: "send", 5: "process"}.get(self.kind)
        told = {"messaging.operation.type": operation, "messaging.destination.name": "chat"}
        return {**(told if operation else {}), **self.more}


def sent(process: str, span: int, at: int, **more: Any) -> Made:
    """A producer span of 10 ns."""
    return Made(process, span, 4, at, at + 10, **more)


def handled(process: str, span: int, start: int, end: int, *links: int, **more: Any) -> Made:
    """A consumer span that links to producer spans of trace 1."""
    return Made(process, span, 5, start, end, links=[(1, link) for link in links], **more)


def resource(process: str) -> dict[str, str]:
    return {"service.name": "shop", "service.instance.id": process} if process else {}


def otlp(*spans: Made) -> dict[str, Any]:
    """One object for all spans, a resource per process."""
    groups: dict[str, list[Made]] = {}
    for span in spans:
        groups.setdefault(span.process, []).append(span)
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _pairs(resource(process))},
                "scopeSpans": [{"spans": [_otlp_span(span) for span in group]}],
            }
            for process, group in groups.items()
        ]
    }


def _otlp_span(span: Made) -> dict[str, Any]:
    made = {
        "traceId": f"{span.trace:032x}",
        "spanId": f"{span.span:016x}",
        "name": "anything",
        "kind": span.kind,
        "startTimeUnixNano": str(span.start),
        "endTimeUnixNano": str(span.end),
        "attributes": _pairs(span.attributes()),
        "links": [{"traceId": f"{t:032x}", "spanId": f"{s:016x}"} for t, s in span.links],
        "status": {"code": 2} if span.failed else {},
    }
    return made | ({"parentSpanId": f"{span.parent:016x}"} if span.parent else {})


def _pairs(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": value}


def jaeger(*spans: Made) -> dict[str, Any]:
    """The same as Jaeger's query service answers; its clock has microseconds."""
    processes = {name: f"p{number}" for number, name in enumerate({s.process for s in spans})}
    traces: dict[int, list[dict[str, Any]]] = {}
    for span in spans:
        refs = [("FOLLOWS_FROM", trace, to) for trace, to in span.links]
        refs += [("CHILD_OF", span.trace, span.parent)] if span.parent else []
        tags = {**span.attributes(), "span.kind": KINDS[span.kind], "error": span.failed}
        traces.setdefault(span.trace, []).append(
            {
                "traceID": f"{span.trace:x}",
                "spanID": f"{span.span:016x}",
                "references": [
                    {"refType": kind, "traceID": f"{t:x}", "spanID": f"{s:016x}"}
                    for kind, t, s in refs
                ],
                "startTime": span.start // 1000,
                "duration": (span.end - span.start) // 1000,
                "tags": [{"key": key, "value": value} for key, value in tags.items()],
                "processID": processes[span.process],
            }
        )
    told = {
        number: {
            "serviceName": "shop",
            "tags": [{"key": "service.instance.id", "value": name}] if name else [],
        }
        for name, number in processes.items()
    }
    return {"data": [{"traceID": "1", "spans": group, "processes": told}
                     for group in traces.values()]}  # fmt: skip


def protobuf(traces: dict[str, Any]) -> bytes:
    """OTLP's JSON object as protobuf."""
    return b"".join(_bytes(1, _resource_spans(group)) for group in traces["resourceSpans"])


def framed(*traces: dict[str, Any]) -> bytes:
    """As the collector's file exporter writes protobuf: each with its length before it."""
    messages = [protobuf(one) for one in traces]
    return b"".join(struct.pack(">I", len(message)) + message for message in messages)


def _resource_spans(group: dict[str, Any]) -> bytes:
    spans = b"".join(
        _bytes(2, _span(span)) for scope in group["scopeSpans"] for span in scope["spans"]
    )
    scope = _bytes(1, _bytes(1, b"a library")) + spans
    # Resource and scope in the other order than usual: protobuf allows any.
    return _bytes(2, scope) + _bytes(1, _attributes(1, group["resource"]["attributes"]))


def _span(span: dict[str, Any]) -> bytes:
    data = _bytes(1, bytes.fromhex(span["traceId"])) + _bytes(2, bytes.fromhex(span["spanId"]))
    data += _bytes(4, bytes.fromhex(span.get("parentSpanId", "")))
    data += _bytes(5, span["name"].encode()) + _varint(6 << 3) + _varint(span["kind"])
    data += _varint(7 << 3 | 1) + struct.pack("<Q", int(span["startTimeUnixNano"]))
    data += _varint(8 << 3 | 1) + struct.pack("<Q", int(span["endTimeUnixNano"]))
    data += _attributes(9, span["attributes"])
    for link in span.get("links", []):
        ids = _bytes(1, bytes.fromhex(link["traceId"])) + _bytes(2, bytes.fromhex(link["spanId"]))
        data += _bytes(13, ids + _varint(6 << 3 | 5) + struct.pack("<I", 768))
    status = _bytes(2, b"why") + _varint(3 << 3) + _varint(span["status"].get("code", 0))
    return data + _bytes(15, status) + _varint(16 << 3 | 5) + struct.pack("<I", 256)


def _attributes(field_number: int, pairs: list[dict[str, Any]]) -> bytes:
    data = b""
    for pair in pairs:
        (kind, value), *_ = pair["value"].items()
        if kind == "stringValue":
            encoded = _bytes(1, value.encode())
        elif kind == "boolValue":
            encoded = _varint(2 << 3) + _varint(int(value))
        elif kind == "intValue":
            encoded = _varint(3 << 3) + _varint(int(value) % (1 << 64))
        else:
            encoded = _varint(4 << 3 | 1) + struct.pack("<d", value)
        data += _bytes(field_number, _bytes(1, pair["key"].encode()) + _bytes(2, encoded))
    return data


def _bytes(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    data = bytearray()
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


def json_line(*spans: Made) -> str:
    return json.dumps(otlp(*spans)) + "\n"
