"""A span as far as messaging is concerned, whatever file it came from."""

from dataclasses import dataclass
from typing import Final

PRODUCER: Final = 4
CONSUMER: Final = 5
KINDS: Final = {"internal": 1, "server": 2, "client": 3, "producer": PRODUCER, "consumer": CONSUMER}
TRACE_DIGITS, SPAN_DIGITS = 32, 16


@dataclass(slots=True)
class Span:
    """One operation of one process, with the attributes that somebody asked for."""

    trace: str
    key: str
    """Trace and span id together: span ids alone need not be unique."""
    parent: str
    """The parent's key; empty for a root."""
    kind: int
    start: int
    """Nanoseconds, as `end`."""
    end: int
    failed: bool
    attributes: dict[str, str]
    """The span's own, and those of its resource that it does not have itself."""
    links: list[str]
    """Keys of the spans that it points to."""


def hexadecimal(text: str) -> str:
    """An id in small letters, or a `ValueError`: all that compares ids relies on it."""
    if not text.isalnum():
        raise ValueError(f"{text!r} is no hexadecimal id")
    try:
        bytes.fromhex(text)
    except ValueError:
        raise ValueError(f"{text!r} is no hexadecimal id") from None
    return text.lower()


def key_of(trace: str, span: str) -> str:
    """The key of a span, or nothing if there is none."""
    return trace + span if span else ""
