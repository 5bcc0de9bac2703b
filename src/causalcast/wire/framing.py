"""Where messages begin and end in a stream: four bytes of length, then a message or several.

Messages that leave together share a frame: a msgpack array of them with a head of five bytes, which
no message begins with. So the other end takes them apart in one pass. The length is checked before
anything is allocated for it.
"""

import struct
from typing import Final

from causalcast.errors import WireError

LENGTH_BYTES: Final = 4
_LENGTH: Final = struct.Struct(">I")
MANY: Final = 0xDD  # the first byte of a frame of several messages
_MANY_HEAD: Final = struct.Struct(">BI")
# Beyond it a further frame begins: what a few bytes unfold to in memory is many times their size.
MOST_TOGETHER: Final = 1 << 16
# One read takes what a busy link has ready; larger frames grow the buffer as their bytes arrive.
_USUAL_BUFFER: Final = 1 << 18


def frame(body: bytes) -> bytes:
    """The bytes that carry `body` on a stream."""
    return _LENGTH.pack(len(body)) + body


def frame_all(bodies: list[bytes]) -> bytes:
    """The bytes that carry messages together, in order, in as few frames as there may be."""
    if len(bodies) == 1:
        return frame(bodies[0])
    size = sum(map(len, bodies)) + _MANY_HEAD.size
    if size <= MOST_TOGETHER:
        return b"".join((_LENGTH.pack(size), _MANY_HEAD.pack(MANY, len(bodies)), *bodies))
    parts: list[bytes] = []
    together: list[bytes] = []
    size = _MANY_HEAD.size
    for body in bodies:
        if together and size + len(body) > MOST_TOGETHER:
            parts.append(frame_all(together))
            together, size = [], _MANY_HEAD.size
        together.append(body)
        size += len(body)
    if together:
        parts.append(frame_all(together) if len(together) > 1 else frame(together[0]))
    return b"".join(parts)


class FrameReader:
    """Cuts a stream into frames, in a buffer of its own that the transport reads into."""

    def __init__(self, limit: int) -> None:
        self.limit = limit  # of one frame's body
        self._buffer = bytearray(min(_USUAL_BUFFER, limit + LENGTH_BYTES))
        self._view = memoryview(self._buffer)
        self._start = 0  # of what was not cut into frames yet
        self._end = 0  # of what was read

    def writable(self) -> memoryview:
        """Where the next bytes go. Frames handed out before are void from here on."""
        rest = self._end - self._start
        if rest == 0:
            if len(self._buffer) > _USUAL_BUFFER:
                self._move_to(bytearray(_USUAL_BUFFER), rest)
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
            if length > self.limit:
                raise WireError(f"a frame of {length} bytes; at most {self.limit} are accepted")
            stop = start + LENGTH_BYTES + length
            if stop > end:
                break
            frames.append(view[start + LENGTH_BYTES : stop])
            start = stop
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
        """Bytes of a frame that is not whole yet."""
        return self._end - self._start

    def _move_to(self, buffer: bytearray, rest: int) -> None:
        buffer[:rest] = self._buffer[self._start : self._end]
        self._buffer = buffer
        self._view = memoryview(buffer)
        self._start, self._end = 0, rest
