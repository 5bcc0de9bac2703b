"""Where messages begin and end in a stream: four bytes of length, then a message or several.

Messages that leave together share a frame: a msgpack array of them with a head of five bytes, which
no message begins with. So the other end takes them apart in one pass. The length is checked before
anything is allocated for it.

A message that is longer than a frame may be travels in pieces: the first bit of the length says
that the next frame has more of the same message. What grows with a node's state may so be sent as
it is, up to `LONGEST_MESSAGE`.
"""

import struct
from typing import Final

from causalcast.errors import WireError
from causalcast.limits import Limit

LENGTH_BYTES: Final = 4
_LENGTH: Final = struct.Struct(">I")
MANY: Final = 0xDD  # the first byte of a frame of several messages
BESIDE: Final = 0xC1  # that of a frame beside the protocol; msgpack never uses it
_MANY_HEAD: Final = struct.Struct(">BI")
MOST_TOGETHER: Final = Limit(
    "wire.framing.most_together",
    1 << 16,
    least=16,
    most=1 << 20,
    unit="bytes",
    about="messages in one frame: what a few bytes unfold to in memory is many times their size",
)
MORE: Final = 1 << 31  # in a length: the message goes on in the next frame
LONGEST_FRAME: Final = MORE - 1  # that a length can tell
PIECE: Final = Limit(
    "wire.framing.piece",
    1 << 18,
    least=1,
    most=1 << 26,
    unit="bytes",
    about="one frame of a message that travels in pieces",
)
LONGEST_MESSAGE: Final = Limit(
    "wire.framing.longest_message",
    64 << 20,
    least=4 << 20,
    most=1 << 30,
    unit="bytes",
    about="a message in pieces; whoever gets them keeps them all until the last",
)
_USUAL_BUFFER: Final = Limit(
    "wire.framing.usual_buffer",
    1 << 18,
    least=16,
    most=1 << 26,
    unit="bytes",
    about="what one read of a link takes; larger frames grow the buffer as their bytes arrive",
)


def frame(body: bytes, limit: int = LONGEST_FRAME) -> bytes:
    """The bytes that carry `body` on a stream whose frames have at most `limit` bytes."""
    if len(body) <= limit:
        return _LENGTH.pack(len(body)) + body
    size = min(PIECE.value, limit)
    parts: list[bytes] = []
    for start in range(0, len(body), size):
        piece = body[start : start + size]
        more = MORE if start + size < len(body) else 0
        parts += (_LENGTH.pack(more | len(piece)), piece)
    return b"".join(parts)


def frame_all(bodies: list[bytes], limit: int = LONGEST_FRAME) -> bytes:
    """The bytes that carry messages together, in order, in as few frames as there may be."""
    if len(bodies) == 1:
        return frame(bodies[0], limit)
    size = sum(map(len, bodies)) + _MANY_HEAD.size
    most = min(MOST_TOGETHER.value, limit)
    if size <= most:
        return b"".join((_LENGTH.pack(size), _MANY_HEAD.pack(MANY, len(bodies)), *bodies))
    parts: list[bytes] = []
    together: list[bytes] = []
    size = _MANY_HEAD.size
    for body in bodies:
        if together and size + len(body) > most:
            parts.append(frame_all(together, limit))
            together, size = [], _MANY_HEAD.size
        together.append(body)
        size += len(body)
    if together:
        parts.append(frame_all(together, limit))
    return b"".join(parts)


class FrameReader:
    """Cuts a stream into frames, in a buffer of its own that the transport reads into."""

    def __init__(self, limit: int) -> None:
        self.limit = limit  # of one frame's body
        self.longest = limit  # of a message in pieces
        self._pieces: list[bytes] = []  # of a message whose end has not come
        self._pieces_bytes = 0
        self._buffer = bytearray(min(_USUAL_BUFFER.value, limit + LENGTH_BYTES))
        self._view = memoryview(self._buffer)
        self._start = 0  # of what was not cut into frames yet
        self._end = 0  # of what was read

    def writable(self) -> memoryview:
        """Where the next bytes go. Frames handed out before are void from here on."""
        rest = self._end - self._start
        if rest == 0:
            if len(self._buffer) > _USUAL_BUFFER.value:
                self._move_to(bytearray(_USUAL_BUFFER.value), rest)
            self._start = self._end = 0
        elif self._end == len(self._buffer):
            grown = rest * 2 > len(self._buffer)
            size = len(self._buffer) * 2 if grown else len(self._buffer)
            self._move_to(bytearray(size) if grown else self._buffer, rest)
        return self._view[self._end :]

    def filled(self, count: int, at_most: int = 1 << 30) -> list[memoryview]:
        """`count` bytes were read: the bodies of all frames that are whole now.

        Raises WireError as soon as a frame announces more than the limit. With `at_most`, further
        frames stay for the next call.
        """
        self._end += count
        start, end, view = self._start, self._end, self._view
        frames: list[memoryview] = []
        while end - start >= LENGTH_BYTES and len(frames) < at_most:
            (length,) = _LENGTH.unpack_from(view, start)
            more = length & MORE
            length &= MORE - 1
            if length > self.limit:
                raise WireError(f"a frame of {length} bytes; at most {self.limit} are accepted")
            stop = start + LENGTH_BYTES + length
            if stop > end:
                break
            body = view[start + LENGTH_BYTES : stop]
            start = stop
            if not more and not self._pieces:
                frames.append(body)
            elif self._add_piece(body) and not more:
                frames.append(memoryview(b"".join(self._pieces)))
                self._pieces, self._pieces_bytes = [], 0
        self._start = start
        return frames

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        """The bodies of all frames that are whole now that `data` came."""
        frames: list[bytes] = []
        rest = memoryview(data)
        while rest:
            space = self.writable()
            count = min(len(space), len(rest))
            space[:count] = rest[:count]
            frames.extend(bytes(body) for body in self.filled(count))
            rest = rest[count:]
        return frames

    def pending(self) -> int:
        """Bytes of a message that is not whole yet."""
        return self._end - self._start + self._pieces_bytes

    def _add_piece(self, body: memoryview) -> bool:
        """Keep a piece; raises WireError where the message would be too long, or has no end."""
        self._pieces_bytes += len(body)
        if self._pieces_bytes > self.longest or not len(body):
            raise WireError(
                f"a message of {self._pieces_bytes} bytes in pieces; at most {self.longest} are "
                "accepted, and no empty ones"
            )
        self._pieces.append(bytes(body))
        return True

    def _move_to(self, buffer: bytearray, rest: int) -> None:
        buffer[:rest] = self._buffer[self._start : self._end]
        self._buffer = buffer
        self._view = memoryview(buffer)
        self._start, self._end = 0, rest
