"""Where a message begins and ends in a stream: four bytes of length, then the message.

The length is checked before anything is allocated for it.
"""

from typing import Final

from causalcast.errors import WireError

LENGTH_BYTES: Final = 4


def frame(body: bytes) -> bytes:
    """The bytes that carry `body` on a stream."""
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


class FrameReader:
    """Cuts a stream of bytes into frames."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        """The bodies of all frames that are whole now; WireError for one beyond the limit."""
        buffer = self._buffer
        buffer += data
        frames = []
        start = 0
        while len(buffer) - start >= LENGTH_BYTES:
            length = int.from_bytes(buffer[start : start + LENGTH_BYTES], "big")
            if length > self._limit:
                raise WireError(f"a frame of {length} bytes; at most {self._limit} are accepted")
            end = start + LENGTH_BYTES + length
            if end > len(buffer):
                break
            frames.append(bytes(buffer[start + LENGTH_BYTES : end]))
            start = end
        if start:
            del buffer[:start]
        return frames

    def pending(self) -> int:
        """Bytes of a frame that is not whole yet."""
        return len(self._buffer)
