"""A position as one short word, for headers and addresses.

`s.…` is what its holder has been sent, with the log that counts it: a subscription goes on there.
`p.…` is what it has seen or published. Both say what a node must have before it serves the holder.
"""

import base64
import binascii
from typing import Final

import msgspec

from causalcast.clients.protocol import Position
from causalcast.errors import WireError

LONGEST: Final = 64 << 10
SENT: Final = "s."
PAST: Final = "p."

_decoder: Final = msgspec.json.Decoder(tuple[str, Position])
_encoder: Final = msgspec.json.Encoder()


def sent_token(log: str, seen: Position) -> str:
    """Where a subscription is."""
    return _token(SENT, log, seen)


def past_token(past: Position) -> str:
    """What somebody has seen or published."""
    return _token(PAST, "", past)


def position_in(token: str) -> tuple[str, Position]:
    """The log and the position of either; WireError if it is none."""
    kind, text = token[: len(SENT)], token[len(SENT) :]
    if kind in (SENT, PAST) and len(text) <= LONGEST:
        try:
            data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            return _decoder.decode(data)
        except (binascii.Error, ValueError, msgspec.DecodeError):
            pass
    raise WireError(f"{token[:20]!r} is no position: expected what a node gave out")


def merged(*positions: Position) -> Position:
    """All of them together."""
    whole: Position = {}
    for position in positions:
        for group, by_origin in position.items():
            of_group = whole.setdefault(group, {})
            for origin, number in by_origin.items():
                of_group[origin] = max(number, of_group.get(origin, 0))
    return whole


def _token(kind: str, log: str, position: Position) -> str:
    data = _encoder.encode((log, position))
    return kind + base64.urlsafe_b64encode(data).decode().rstrip("=")
