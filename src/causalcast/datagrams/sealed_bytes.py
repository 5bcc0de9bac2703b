"""Datagrams of the UDP transport as bytes.

    call      kind, caller's session, caller's key, cookie, proof
    retry     kind, caller's session, cookie
    reply     kind, caller's session, callee's session, callee's key, proof
    sealed    kind, receiver's session, counter, sealed content
    unknown   kind, receiver's session, proof

The first three set up a session; the last answers a sealed datagram for a session that a node has
forgotten by a restart. Each answer is shorter than what it answers, so that nobody can be flooded
through us. The content of a sealed datagram is a datagram of the point-to-point layer
without its tokens: the session stands for them. The map of what came early has the length it needs.
"""

import struct
from typing import Any, Final

from causalcast.datagrams.point_to_point import ACK_OF_ACK, EARLY_BITS, WIDEST, Datagram
from causalcast.errors import WireError

CALL: Final = 0xC1
RETRY: Final = 0xC2
REPLY: Final = 0xC3
SEALED: Final = 0xC4
UNKNOWN: Final = 0xC5
RESET: Final = 0xFF  # as the kind of a content: the sender hung up, hear nothing more

KEY_BYTES: Final = 32
COOKIE_BYTES: Final = 16
PROOF_BYTES: Final = 32
NO_COOKIE: Final = bytes(COOKIE_BYTES)

CALL_FORM: Final = struct.Struct(f"!BQ{KEY_BYTES}s{COOKIE_BYTES}s{PROOF_BYTES}s")
RETRY_FORM: Final = struct.Struct(f"!BQ{COOKIE_BYTES}s")
REPLY_FORM: Final = struct.Struct(f"!BQQ{KEY_BYTES}s{PROOF_BYTES}s")
UNKNOWN_FORM: Final = struct.Struct(f"!BQ{PROOF_BYTES}s")
SEALED_HEAD: Final = struct.Struct("!BQQ")
# kind, number and transmission, answered number and its transmission, ack, settled, room, and how
# many bytes the map of early ones has, which follow
_CONTENT: Final = struct.Struct("!BIBIBIIHB")
SEAL_BYTES: Final = 16
OVERHEAD: Final = SEALED_HEAD.size + _CONTENT.size + EARLY_BITS // 8 + SEAL_BYTES
_FORMS: Final = {
    CALL: CALL_FORM,
    RETRY: RETRY_FORM,
    REPLY: REPLY_FORM,
    UNKNOWN: UNKNOWN_FORM,
}


def read_setup(data: bytes | memoryview) -> tuple[Any, ...]:
    """The fields of anything that is not sealed, the kind first; WireError if it is not ours."""
    form = _FORMS.get(data[0]) if data else None
    if form is None or len(data) != form.size:
        raise WireError("no datagram of ours")
    return form.unpack(data)


def read_head(data: bytes | memoryview) -> tuple[int, int]:
    """Session and counter of a sealed datagram; WireError if it is too short for one."""
    if len(data) < SEALED_HEAD.size + _CONTENT.size + SEAL_BYTES or data[0] != SEALED:
        raise WireError("no sealed datagram")
    _, session, counter = SEALED_HEAD.unpack_from(data)
    return session, counter


def pack_content(datagram: Datagram) -> bytes:
    """What is sealed."""
    early = datagram.early.to_bytes((datagram.early.bit_length() + 7) // 8)
    head = _CONTENT.pack(
        datagram.kind,
        datagram.number,
        datagram.transmission,
        datagram.answers,
        datagram.answered_transmission,
        datagram.ack,
        datagram.settled,
        datagram.room,
        len(early),
    )
    return head + early + datagram.body


def read_content(content: bytes, source: int, target: int) -> Datagram:
    """The datagram in what was sealed, with the tokens of its session; WireError if none."""
    if len(content) < _CONTENT.size:
        raise WireError("a sealed datagram without content")
    (kind, number, transmission, answers, answered, ack, settled, room, size) = (
        _CONTENT.unpack_from(content)
    )
    if kind > ACK_OF_ACK and kind != RESET:
        raise WireError(f"a sealed datagram of kind {kind}")
    body = _CONTENT.size + size
    if len(content) < body or size > WIDEST // 8:
        raise WireError("a sealed datagram with half a map")
    early = int.from_bytes(content[_CONTENT.size : body]) if size else 0
    return Datagram(
        kind,
        source,
        target,
        number,
        transmission,
        answers,
        answered,
        ack,
        early,
        settled,
        room,
        content[body:],
    )
