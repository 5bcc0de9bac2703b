"""What nodes have sent: frames and bytes of each kind of message, and how many of them at rest."""

from typing import final

from causalcast.core.message import Message


@final
class SentFrames:
    """Counts of one run, for limits on storms; a world of shared objects counts nothing."""

    def __init__(self) -> None:
        self.frames: dict[type[Message], int] = {}
        self.bytes = 0
        self.before_rest: dict[type[Message], int] = {}
        self.bytes_before_rest = 0
        self.rest_us = 0  # how long the rest was; 0 if there was none

    def add(self, kind: type[Message], size: int) -> None:
        """One more left."""
        self.frames[kind] = self.frames.get(kind, 0) + 1
        self.bytes += size

    def begin_rest(self, rest_us: int) -> None:
        """From here on nothing should be left to say."""
        self.before_rest = dict(self.frames)
        self.bytes_before_rest = self.bytes
        self.rest_us = rest_us

    def at_rest(self) -> dict[type[Message], int]:
        """What was sent since."""
        return {
            kind: count - self.before_rest.get(kind, 0)
            for kind, count in self.frames.items()
            if count > self.before_rest.get(kind, 0)
        }
