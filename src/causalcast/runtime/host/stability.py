"""Which of a node's own messages every member has, and who waits to hear that."""

import asyncio

from causalcast.core.ids import MessageId
from causalcast.parts.duplicate_filter import DuplicateFilter


class Stability:
    """Own messages that are stable, as far as the protocol has told."""

    def __init__(self) -> None:
        self._stable = DuplicateFilter()
        self._waiting: dict[MessageId, list[asyncio.Event]] = {}

    def told(self, message: MessageId) -> None:
        """Every member has `message`."""
        self._stable.add(message)
        for waiting in self._waiting.pop(message, []):
            waiting.set()

    def has(self, message: MessageId) -> bool:
        """Whether every member is known to have `message`."""
        return self._stable.has(message)

    async def word_of(self, message: MessageId) -> None:
        """Wait until `message` is stable, or until the node stops."""
        told = asyncio.Event()
        self._waiting.setdefault(message, []).append(told)
        await told.wait()

    def wake_all(self) -> None:
        """Let everybody who waits look again, because the node stops."""
        for events in self._waiting.values():
            for event in events:
                event.set()
