"""Messages of the member list's causal layer as bytes: text, then a vector of constant size.

As in the report: 128 bytes of text, and one slot for each member there may be.
"""

import struct
from typing import Final

from causalcast.errors import WireError
from causalcast.parts.member_multicast import MOST_MEMBERS, Stamped

LONGEST_TEXT: Final = 128
_FORM: Final = struct.Struct(f"!BB{LONGEST_TEXT}s{MOST_MEMBERS}I")


def encode(stamped: Stamped) -> bytes:
    """The body that the point-to-point layer carries."""
    assert len(stamped.text) <= LONGEST_TEXT
    slots = stamped.vector + [0] * (MOST_MEMBERS - len(stamped.vector))
    return _FORM.pack(stamped.addressed, len(stamped.text), stamped.text, *slots)


def decode(body: bytes) -> Stamped:
    """The message in a body; WireError if it is none."""
    if len(body) != _FORM.size:
        raise WireError(f"a message of {len(body)} bytes, expected {_FORM.size}")
    addressed, length, text, *vector = _FORM.unpack(body)
    if addressed > 1 or length > LONGEST_TEXT:
        raise WireError("a message that contradicts itself")
    return Stamped(vector, bool(addressed), text[:length])
