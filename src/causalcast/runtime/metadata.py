"""What travels with a payload: when it was published, and what its application says of it.

A body is the payload alone, or the payload, its metadata, their length and a mark. A payload that
ends like the mark gets metadata in any case, so that nothing is taken for what it is not. Protocols
know nothing of it: to them a body is bytes.
"""

from typing import Any, Final, final

import msgspec

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

    __slots__ = ("published_us",)

    def __init__(self, published_us: int = 0) -> None:
        self.published_us = published_us  # by its publisher's clock; 0: it does not say


NOTHING_KNOWN: Final = Metadata()


def most_overhead() -> int:
    """By so many bytes a body can be longer than its payload."""
    return METADATA_BYTES.value + TAIL_BYTES


def with_metadata(payload: bytes, metadata: Metadata) -> bytes:
    """The body that carries both."""
    coded = _encoder.encode([metadata.published_us])
    return payload + coded + len(coded).to_bytes(LENGTH_BYTES) + MARK


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
    except msgspec.DecodeError:
        return NOTHING_KNOWN
    published_us = fields[0] if fields else 0
    if type(published_us) is not int or not 0 <= published_us < LATEST_US:
        return NOTHING_KNOWN
    return Metadata(published_us)


def _end(body: bytes) -> int:
    """Where the payload of a body with metadata ends; who lies about that has published nothing."""
    return max(0, len(body) - TAIL_BYTES - int.from_bytes(body[-TAIL_BYTES : -len(MARK)]))
