"""What people who run a node want to hear of: the events that its protocol names.

An event is kept for whoever asks a little later, and told at once to whoever waits.
"""

import asyncio
import collections
from dataclasses import dataclass
from typing import Final

from causalcast.limits import Limit

KEPT: Final = Limit(
    "runtime.observing.events.kept",
    1000,
    least=1,
    most=1 << 20,
    unit="events",
    about="events that can be asked for; older ones are forgotten",
)


@dataclass(frozen=True)
class Event:
    """Something that happened at a node, when, and what it is about (often another node)."""

    name: str
    subject: int
    at_us: int
    meaning: str


class Events:
    """The last events of a node, numbered from 0 over its whole life."""

    def __init__(self) -> None:
        self.count = 0
        self._kept: collections.deque[Event] = collections.deque(maxlen=KEPT.value)
        self._arrived = asyncio.Event()

    def add(self, event: Event) -> None:
        """It happened."""
        self._kept.append(event)
        self.count += 1
        self.wake()

    def wake(self) -> None:
        """Let whoever waits look again."""
        self._arrived.set()
        self._arrived = asyncio.Event()

    def since(self, number: int) -> list[Event]:
        """Those from this number on, as far as they are kept."""
        first = self.count - len(self._kept)
        return list(self._kept)[max(0, number - first) :]

    async def arrival(self) -> None:
        """Return when there is another one, or the node stops."""
        await self._arrived.wait()
