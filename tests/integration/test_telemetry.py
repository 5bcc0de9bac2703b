"""Trace contexts travel with messages, and spans are those of the conventions.

Real nodes, the SDK of OpenTelemetry, and our own import of spans, which judges them.
"""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from door_nodes import Doors, run
from loopback_nodes import PATIENCE, Neighbourhood, until

import causalcast
from causalcast import Node
from causalcast.errors import NodeError

sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="no SDK: pip install opentelemetry-sdk")
from opentelemetry import baggage, context, trace  # noqa: E402
from opentelemetry.sdk.resources import Resource  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import (  # noqa: E402
    InMemorySpanExporter,
)
from opentelemetry.trace import SpanKind, StatusCode  # noqa: E402

from causalcast.telemetry import CONTEXT_LEFT_OUT, Telemetry  # noqa: E402


class Process:
    """What one process of an application has set up."""

    def __init__(self, name: str) -> None:
        self.name = name
        provider = sdk.TracerProvider(resource=Resource({"service.instance.id": name}))
        self.exporter = InMemorySpanExporter()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.telemetry = Telemetry(provider)
        self.tracer = provider.get_tracer("application")

    def spans(self, name: str = "") -> list[Any]:
        return [one for one in self.exporter.get_finished_spans() if name in ("", one.name)]

    def write(self, path: Path) -> None:
        """As file exporters write: OTLP in JSON."""
        spans = [
            {
                "traceId": f"{one.context.trace_id:032x}",
                "spanId": f"{one.context.span_id:016x}",
                "parentSpanId": f"{one.parent.span_id:016x}" if one.parent else "",
                "name": one.name,
                "kind": one.kind.value + 1,
                "startTimeUnixNano": str(one.start_time),
                "endTimeUnixNano": str(one.end_time),
                "attributes": [
                    {"key": key, "value": {"stringValue": str(value)}}
                    for key, value in one.attributes.items()
                ],
                "links": [
                    {
                        "traceId": f"{link.context.trace_id:032x}",
                        "spanId": f"{link.context.span_id:016x}",
                    }
                    for link in one.links
                ],
            }
            for one in self.spans()
        ]
        me = [{"key": "service.instance.id", "value": {"stringValue": self.name}}]
        resource = {"resource": {"attributes": me}, "scopeSpans": [{"spans": spans}]}
        path.write_text(json.dumps({"resourceSpans": [resource]}) + "\n")


async def next_of(node: Node) -> Any:
    message = await node.group("all").receive(PATIENCE)
    assert message is not None
    return message


def test_a_trace_goes_through_two_nodes(tmp_path: Path) -> None:
    ada, bob = Process("ada"), Process("bob")

    async def story() -> None:
        nodes = Neighbourhood(tmp_path, 2)
        async with nodes.node(1) as one, nodes.node(2) as two:
            with ada.tracer.start_as_current_span("request"):
                receipt = await ada.telemetry.publish(one.group("all"), b"hello", {"mine": "kept"})
            assert str(receipt) == "<receipt 1.1 in 'all'>"
            message = await next_of(two)
            assert message.headers["mine"] == "kept"
            with bob.telemetry.handling(message):
                await bob.telemetry.publish(two.group("all"), b"answer")
            for node in (one, two):
                while (await next_of(node)).payload != b"answer":
                    pass

    run(story())
    (published,), (request,) = ada.spans("publish all"), ada.spans("request")
    (handled,), (answered,) = bob.spans("process all"), bob.spans("publish all")
    spans = (request, published, handled, answered)
    assert len({span.context.trace_id for span in spans}) == 1, "one trace"
    for inner, outer in zip(spans[1:], spans, strict=False):
        assert inner.parent.span_id == outer.context.span_id
    assert (published.kind, handled.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert [link.context.span_id for link in handled.links] == [published.context.span_id]
    assert dict(published.attributes) == {
        "messaging.system": "causalcast",
        "messaging.operation.name": "publish",
        "messaging.operation.type": "send",
        "messaging.destination.name": "all",
        "messaging.message.body.size": 5,
        "messaging.message.id": "1.1",
    }
    assert handled.attributes["messaging.operation.type"] == "process"
    assert handled.attributes["messaging.message.id"] == "1.1"


@pytest.mark.parametrize("is_soon", [False, True])
def test_callbacks_have_spans_and_failures_are_told(tmp_path: Path, is_soon: bool) -> None:
    process = Process("ada")
    handled: list[bytes] = []

    def handle(message: Any) -> None:
        assert trace.get_current_span().is_recording()
        handled.append(message.payload)
        if message.payload == b"bad" and handled.count(b"bad") == 1:
            raise ValueError("not today")

    async def handle_soon(message: Any) -> None:
        handle(message)

    async def story() -> None:
        async with Neighbourhood(tmp_path, 1).node(1) as node:
            callback: Callable[[Any], object] = handle_soon if is_soon else handle
            wrapped = process.telemetry.handler(callback)
            for body in (b"good", b"bad"):
                await process.telemetry.publish(node.group("all"), body)
            good, bad = await next_of(node), await next_of(node)
            for message, fails in ((good, False), (bad, True)):
                try:
                    found = wrapped(message)
                    if is_soon:
                        await found  # type: ignore[misc]
                    assert not fails
                except ValueError:
                    assert fails

    run(story())
    good, bad = process.spans("process all")
    assert good.status.status_code is StatusCode.UNSET
    assert (bad.status.status_code, bad.status.description) == (StatusCode.ERROR, "not today")
    assert bad.attributes["error.type"] == "ValueError" and bad.events[0].name == "exception"


def test_a_context_that_does_not_fit_is_left_out_and_told(tmp_path: Path) -> None:
    process = Process("ada")

    async def story() -> None:
        async with Neighbourhood(tmp_path, 1).node(1) as node:
            large = baggage.set_baggage("first", "x" * 3000)
            token = context.attach(baggage.set_baggage("second", "x" * 3000, large))
            try:
                await process.telemetry.publish(node.group("all"), b"a", {"mine": "kept"})
            finally:
                context.detach(token)
            assert (await next_of(node)).headers == {"mine": "kept"}
            with pytest.raises(NodeError, match="at most"):  # the application's own are too large
                await process.telemetry.publish(node.group("all"), b"a", {"mine": "x" * 5000})

    run(story())
    left_out, failed = process.spans("publish all")
    assert left_out.attributes[CONTEXT_LEFT_OUT] is True
    assert left_out.status.status_code is StatusCode.UNSET
    assert failed.attributes["error.type"] == "NodeError"


def test_clients_and_threads_carry_contexts_too(tmp_path: Path) -> None:
    process = Process("ada")

    async def story() -> None:
        doors = Doors(tmp_path, 1)
        async with doors.node(1):

            def in_a_thread() -> None:
                with causalcast.connect_sync(doors.url(1)) as remote, remote.group("all") as group:
                    process.telemetry.publish_sync(group, "all", b"hello")
                    message = group.receive(PATIENCE)
                    assert message is not None
                    with process.telemetry.handling(message):
                        message.ack()

            await asyncio.to_thread(in_a_thread)

    run(story())
    (published,), (handled,) = process.spans("publish all"), process.spans("process all")
    assert handled.parent.span_id == published.context.span_id


def test_our_own_import_judges_these_spans(tmp_path: Path) -> None:
    """Every publication and every handling is a row, and the order of a causal run is fine."""
    pytest.importorskip("pyarrow")
    from causalcast import verify
    from causalcast.cli.main import main

    processes = [Process("ada"), Process("bob"), Process("cleo")]

    async def story() -> None:
        places = Neighbourhood(tmp_path / "nodes", 3)
        async with places.node(1) as one, places.node(2) as two, places.node(3) as three:
            nodes = (one, two, three)
            for node in nodes:
                await until(lambda node=node: node.status()["links"])  # type: ignore[misc]

            async def live(process: Process, node: Node) -> None:
                for number in range(4):
                    await process.telemetry.publish(node.group("all"), b"%d" % number)
                    message = await next_of(node)
                    with process.telemetry.handling(message):
                        await message.ack()
                for _ in range(8):
                    message = await next_of(node)
                    with process.telemetry.handling(message):
                        await message.ack()

            await asyncio.gather(*map(live, processes, nodes))

    run(story())
    (tmp_path / "spans").mkdir()
    for process in processes:
        process.write(tmp_path / "spans" / f"{process.name}.jsonl")
    found = tmp_path / "run"
    assert main(["trace", "import", str(tmp_path / "spans"), "--out", str(found)]) == 0
    verdict = verify(found)
    assert verdict.is_fine, verdict.to_json()
    told = verdict.to_json()
    assert (told["publications"], told["deliveries"]) == (12, 36), told
