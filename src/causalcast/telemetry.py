"""Trace contexts of OpenTelemetry travel with messages; publishing and handling are spans.

    from causalcast.telemetry import Telemetry

    telemetry = Telemetry()
    await telemetry.publish(chat, b"hello")     # a span "publish chat", its context in the headers
    async for message in chat:
        with telemetry.handling(message):       # a span "process chat", a child of the publication
            ...
        await message.ack()
    node.on_message(telemetry.handler(handle))  # the same for callbacks

Names and attributes follow the conventions for messaging. It needs `opentelemetry-api`. What
becomes of spans is decided by whoever sets the SDK up. Without an SDK nothing is recorded, and the
context of whoever called travels on all the same.
"""

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol, TypeVar, final

from causalcast.any_node import AnyGroup, AnyReceipt
from causalcast.core.ids import MessageId, number_of, origin_of
from causalcast.errors import MissingDependency, NodeError
from causalcast.runtime.metadata import said_of
from causalcast.version import VERSION

try:
    from opentelemetry import propagate, trace
    from opentelemetry.trace import Link, SpanKind, Status, StatusCode
except ModuleNotFoundError as error:
    raise MissingDependency(
        "causalcast.telemetry needs opentelemetry-api: pip install 'causalcast[telemetry]'"
    ) from error

SYSTEM: Final = "causalcast"
CONTEXT_LEFT_OUT: Final = "causalcast.context_left_out"


class SyncPublisher(Protocol):
    """A group for threads: that of `open_sync` or of `connect_sync`."""

    def publish(
        self, body: bytes, headers: Mapping[str, str] | None = None, content_type: str = ""
    ) -> Any:
        """Publish; returns a receipt."""


class HasContext(Protocol):
    """A message, of whichever kind of node."""

    @property
    def id(self) -> MessageId:
        """Origin and number in one."""

    @property
    def group(self) -> str:
        """The name of its group."""

    @property
    def payload(self) -> bytes:
        """What was published."""

    @property
    def headers(self) -> Mapping[str, str]:
        """What its publisher says of it."""


Message = TypeVar("Message", bound=HasContext)


@final
class Sending:
    """A publication on its way: the headers to publish it with."""

    def __init__(self, span: Any, headers: dict[str, str]) -> None:
        self._span = span
        self.headers = headers

    def published(self, message: MessageId) -> None:
        """It has an id now."""
        self._span.set_attribute("messaging.message.id", name_of(message))


@final
class Telemetry:
    """Makes spans with one provider of tracers, or with the one that is set for the process."""

    def __init__(self, tracer_provider: Any = None) -> None:
        self._tracer = trace.get_tracer("causalcast", VERSION, tracer_provider)

    async def publish(
        self,
        group: AnyGroup,
        body: bytes,
        headers: Mapping[str, str] | None = None,
        content_type: str = "",
    ) -> AnyReceipt:
        """As `group.publish`, in a span; the receipt is that of the group."""
        with self.publishing(group.name, body, headers, content_type) as sending:
            receipt = await group.publish(body, sending.headers, content_type)
            sending.published(receipt.id)
            return receipt

    def publish_sync(
        self,
        group: SyncPublisher,
        name: str,
        body: bytes,
        headers: Mapping[str, str] | None = None,
        content_type: str = "",
    ) -> Any:
        """The same for threads; `name` is that of the group."""
        with self.publishing(name, body, headers, content_type) as sending:
            receipt = group.publish(body, sending.headers, content_type)
            sending.published(receipt.id)
            return receipt

    @contextlib.contextmanager
    def publishing(
        self,
        group: str,
        body: bytes,
        headers: Mapping[str, str] | None = None,
        content_type: str = "",
    ) -> Iterator[Sending]:
        """A span in which something is published to a group with `headers` of what it yields.

        A context that does not fit beside the application's own headers is left out, and the span
        says so: tracing must not be why a message cannot be published.
        """
        about = _about("publish", "send", group, body)
        name = f"publish {group}"
        with self._tracer.start_as_current_span(
            name, kind=SpanKind.PRODUCER, attributes=about, set_status_on_exception=False
        ) as span:
            carried = dict(headers or {})
            propagate.inject(carried)
            try:
                said_of(carried, content_type)
            except NodeError:
                span.set_attribute(CONTEXT_LEFT_OUT, True)
                carried = dict(headers or {})
            with _failure(span):
                yield Sending(span, carried)

    @contextlib.contextmanager
    def handling(self, message: HasContext) -> Iterator[Any]:
        """A span in which a message is handled: a child of its publication, or of what is current
        here; linked to its publication in both cases."""
        about = _about("process", "process", message.group, message.payload)
        about["messaging.message.id"] = name_of(message.id)
        sent = propagate.extract(message.headers)
        publication = trace.get_current_span(sent).get_span_context()
        links = [Link(publication)] if publication.is_valid else []
        is_inside = trace.get_current_span().get_span_context().is_valid
        with (
            self._tracer.start_as_current_span(
                f"process {message.group}",
                context=None if is_inside else sent,
                kind=SpanKind.CONSUMER,
                attributes=about,
                links=links,
                set_status_on_exception=False,
            ) as span,
            _failure(span),
        ):
            yield span

    def handler(self, callback: Callable[[Message], object]) -> Callable[[Message], object]:
        """`callback` in a span for each message, for `on_message`; asynchronous if it is."""
        if inspect.iscoroutinefunction(callback):

            async def handle_soon(message: Message) -> None:
                with self.handling(message):
                    await callback(message)

            return handle_soon

        def handle(message: Message) -> object:
            with self.handling(message):
                return callback(message)

        return handle


def name_of(message: MessageId) -> str:
    """A message's id as it is written everywhere."""
    return f"{origin_of(message)}.{number_of(message)}"


def _about(name: str, kind: str, group: str, body: bytes) -> dict[str, Any]:
    return {
        "messaging.system": SYSTEM,
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
        "messaging.destination.name": group,
        "messaging.message.body.size": len(body),
    }


@contextlib.contextmanager
def _failure(span: Any) -> Iterator[None]:
    """What fails in it is told by the span, and goes on failing."""
    try:
        yield
    except Exception as error:
        span.set_attribute("error.type", type(error).__qualname__)
        span.set_status(Status(StatusCode.ERROR, str(error)))
        raise
