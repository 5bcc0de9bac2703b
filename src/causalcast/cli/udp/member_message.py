"""Messages of the member list's causal layer as bytes: text, then a vector of constant size.

As in the report: 128 bytes of text, and one slot for each member there may be. In front stand what
kind of message it is, which member it is about, and how long the text is.
"""

import struct
from typing import Final, final

from causalcast.errors import WireError
from causalcast.protocols.member_multicast.members import MOST_MEMBERS, Stamped

LONGEST_TEXT: Final = 128
_FORM: Final = struct.Struct(f"!BBB{LONGEST_TEXT}s{MOST_MEMBERS}I")

COUNTED: Final = 0  # a message of its sender that is not for the receiver
ADDRESSED: Final = 1  # one that is
FOR_ALL: Final = 2  # … and for everybody else
PASSED_ON: Final = 3  # a message for everybody, of the member that is named
COUNTED_ON: Final = 4  # a message of the member that is named, which is not for everybody
LOST: Final = 5  # no link to that member any more; its slot says how many messages came


@final
class MemberMessage:
    """What one member tells another: a message of its own or of a third, or that a link is lost."""

    def __init__(self, kind: int, member: int, stamped: Stamped) -> None:
        self.kind = kind
        self.member = member
        self.stamped = stamped


def encode(stamped: Stamped) -> bytes:
    """The body that the point-to-point layer carries for a message of the sender's own."""
    kind = FOR_ALL if stamped.for_all else ADDRESSED
    return _packed(kind if stamped.addressed else COUNTED, 0, stamped)


def encode_passed_on(origin: int, stamped: Stamped) -> bytes:
    """The same for a message of another member."""
    return _packed(PASSED_ON if stamped.for_all else COUNTED_ON, origin, stamped)


def encode_lost(member: int, has: int) -> bytes:
    """That the link to a member is lost, of whom so many messages came."""
    vector = [0] * MOST_MEMBERS
    vector[member] = has
    return _packed(LOST, member, Stamped(vector, False, b""))


def _packed(kind: int, member: int, stamped: Stamped) -> bytes:
    assert len(stamped.text) <= LONGEST_TEXT
    slots = stamped.vector + [0] * (MOST_MEMBERS - len(stamped.vector))
    return _FORM.pack(kind, member, len(stamped.text), stamped.text, *slots)


def decode(body: bytes) -> MemberMessage:
    """The message in a body; WireError if it is none."""
    if len(body) != _FORM.size:
        raise WireError(f"a message of {len(body)} bytes, expected {_FORM.size}")
    kind, member, length, text, *vector = _FORM.unpack(body)
    if kind > LOST or member >= MOST_MEMBERS or length > LONGEST_TEXT:
        raise WireError("a message that contradicts itself")
    for_all = kind in (FOR_ALL, PASSED_ON)
    stamped = Stamped(vector, for_all or kind == ADDRESSED, text[:length], 0, for_all)
    return MemberMessage(kind, member, stamped)
