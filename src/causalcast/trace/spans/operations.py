"""What one span says of messages by itself, once the rules have picked its attributes."""

from dataclasses import dataclass

from causalcast.errors import TraceError
from causalcast.trace.spans.rules import (
    ATTEMPTS,
    CONSUMER_GROUPS,
    DESTINATIONS,
    HOST_AND_PID,
    INSTANCE,
    MESSAGE_IDS,
    OPERATIONS,
    PROCESSES,
    PUBLISHES,
    RECEIVES,
    SERVICE,
    SpanRules,
)
from causalcast.trace.spans.span import CONSUMER, PRODUCER, Span

PUBLISH, PROCESS, RECEIVE, OTHER = "publish", "process", "receive", ""


@dataclass(slots=True)
class Operation:
    """A span as far as the log of a messaging system is concerned."""

    trace: str
    key: str
    parent: str
    role: str
    """`publish`, `process`, `receive`, or nothing: a span between others."""
    start: int
    end: int
    failed: bool
    links: list[str]
    service: str = ""
    process: str = ""
    topic: str = ""
    name: str = ""
    """`messaging.message.id`"""
    share: str = ""
    order_key: str = ""
    attempt: int = 0
    creates: bool = False
    """Whether it only makes a message, which another span sends."""


def operation_of(span: Span, rules: SpanRules) -> Operation:
    """The operation of a span; a process that cannot be told from others is refused."""
    role = _role_of(span)
    found = Operation(
        span.trace, span.key, span.parent, role, span.start, span.end, span.failed, span.links
    )
    if role != OTHER:
        attempt = _first_of(span, ATTEMPTS)
        found.service = span.attributes.get(SERVICE, "")
        found.process = _process_of(span, rules)
        found.topic = _first_of(span, DESTINATIONS)
        found.name = _first_of(span, MESSAGE_IDS)
        found.share = _first_of(span, CONSUMER_GROUPS)
        found.order_key = span.attributes.get(rules.key, "")
        found.attempt = int(attempt) if attempt.isdecimal() else 0
        found.creates = _first_of(span, OPERATIONS) == "create"
    return found


def _role_of(span: Span) -> str:
    """By the operation, where one is told; else by the kind."""
    operation = _first_of(span, OPERATIONS)
    if operation in PUBLISHES:
        return PUBLISH
    if operation in PROCESSES:
        return PROCESS
    if operation in RECEIVES:
        return RECEIVE
    if operation == "settle":
        return OTHER
    return {PRODUCER: PUBLISH, CONSUMER: PROCESS}.get(span.kind, OTHER)


def _process_of(span: Span, rules: SpanRules) -> str:
    """The name of the process, or a refusal: processes that cannot be told apart are not merged."""
    found = span.attributes
    for names in (rules.process,) if rules.process else ((INSTANCE,), HOST_AND_PID):
        values = [found.get(name, "") for name in names]
        if all(values):
            return ":".join(values)
    service = found.get(SERVICE, "?")
    if rules.process:
        lacking = next(name for name in rules.process if not found.get(name))
        raise TraceError(f"spans of service {service!r} have no {lacking!r}, as --process wants")
    raise TraceError(
        f"spans of service {service!r} do not say which process they are of: set"
        f" OTEL_RESOURCE_ATTRIBUTES={INSTANCE}=NAME, another NAME in each process"
        f" (or {' and '.join(HOST_AND_PID)}), or name other attributes with --process"
    )


def _first_of(span: Span, names: tuple[str, ...]) -> str:
    """The first of some attributes that is there."""
    for name in names:
        value = span.attributes.get(name)
        if value:
            return value
    return ""
