"""What travels with a payload: when it was published, and what its application says of it.

A body is the payload alone, or the payload, its metadata, their length and a mark. A payload that
ends like the mark gets metadata in any case, so that nothing is taken for what it is not. Protocols
know nothing of it: to them a body is bytes.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, final

import msgspec

from causalcast.errors import NodeError
from causalcast.limits import Limit

MARK: Final = b"\xc1md\xc1"  # neither text nor MessagePack ends so
LENGTH_BYTES: Final = 2
TAIL_BYTES: Final = LENGTH_BYTES + len(MARK)
LATEST_US: Final = 253_402_300_800_000_000  # the end of the year 9999
METADATA_BYTES: Final = Limit(
    "runtime.metadata.metadata_bytes",
    4096,
    least=64,
    most=(1 << 16) - 1,
    unit="bytes",
    about="what travels with the payload of a message: times, headers, content type",
)

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[list[Any]]] = msgspec.msgpack.Decoder(list[Any])


@final
class Metadata:
    """What is known of a message beside its payload."""

    __slots__ = ("content_type", "headers", "published_us")

    def __init__(
        self,
        published_us: int = 0,
        headers: Mapping[str, str] | None = None,
        content_type: str = "",
    ) -> None:
        self.published_us = published_us  # by its publisher's clock; 0: it does not say
        self.headers: Mapping[str, str] = {} if headers is None else headers
        self.content_type = content_type

    def published_at(self) -> datetime | None:
        """The time of its publication; None where it does not say."""
        if not 0 < self.published_us < LATEST_US:
            return None
        return datetime.fromtimestamp(self.published_us / 1e6, UTC)


NOTHING_KNOWN: Final = Metadata()


def most_overhead() -> int:
    """By so many bytes a body can be longer than its payload."""
    return METADATA_BYTES.value + TAIL_BYTES


def said_of(headers: Mapping[str, str] | None, content_type: str) -> Metadata | None:
    """What an application says of a message; None if nothing. NodeError for what cannot travel."""
    if not headers and not content_type:
        return None
    said = Metadata(LATEST_US - 1, {} if headers is None else dict(headers), content_type)
    texts = [content_type, *said.headers.keys(), *said.headers.values()]
    for text in texts:
        if not isinstance(text, str):
            raise NodeError(f"headers and content type are text, not {type(text).__name__}")
    try:
        size = len(_coded(said))
    except UnicodeEncodeError as error:
        raise NodeError(f"headers and content type are text that UTF-8 has: {error}") from None
    if size > METADATA_BYTES.value:
        raise NodeError(
            f"headers and content type take {size} bytes; at most {METADATA_BYTES.value} travel "
            "with a message: put the rest into its body"
        )
    return said


def with_metadata(payload: bytes, metadata: Metadata) -> bytes:
    """The body that carries both."""
    coded = _coded(metadata)
    return payload + coded + len(coded).to_bytes(LENGTH_BYTES) + MARK


def body_of(payload: bytes, said: Metadata | None, at_us: int, stamps: bool) -> bytes:
    """What travels: with whatever is said of a payload goes the time at which it was published,
    and with `stamps` in any case."""
    if said is not None:
        return with_metadata(payload, Metadata(at_us, said.headers, said.content_type))
    if stamps or has_metadata(payload):
        return with_metadata(payload, Metadata(at_us))
    return payload


def _coded(metadata: Metadata) -> bytes:
    if not metadata.headers and not metadata.content_type:
        return _encoder.encode([metadata.published_us])
    return _encoder.encode([metadata.published_us, metadata.headers, metadata.content_type])


def has_metadata(body: bytes) -> bool:
    """Whether there is more in a body than a payload."""
    return body.endswith(MARK)


def payload_in(body: bytes) -> bytes:
    """What was published."""
    return body if not body.endswith(MARK) else body[: _end(body)]


def payload_size(body: bytes) -> int:
    """How many bytes were published."""
    return len(body) if not body.endswith(MARK) else _end(body)


def metadata_in(body: bytes) -> Metadata:
    """What travelled with the payload. Of what makes no sense nothing is known: it is a relay's or
    a publisher's lie about itself, and no reason to lose a message."""
    if not body.endswith(MARK):
        return NOTHING_KNOWN
    try:
        fields = _decoder.decode(body[_end(body) : -TAIL_BYTES])
    except (ValueError, TypeError, RecursionError):  # of others: it may be anything
        return NOTHING_KNOWN
    published_us, headers, content_type = (*fields, *(0, {}, "")[len(fields) :])[:3]
    if type(published_us) is not int or not 0 <= published_us < LATEST_US:
        published_us = 0
    if not isinstance(headers, dict) or not all(
        isinstance(text, str) for header in headers.items() for text in header
    ):
        headers = {}
    return Metadata(published_us, headers, content_type if isinstance(content_type, str) else "")


def _end(body: bytes) -> int:
    """Where the payload of a body with metadata ends; who lies about that has published nothing."""
    return max(0, len(body) - TAIL_BYTES - int.from_bytes(body[-TAIL_BYTES : -len(MARK)]))
