"""How late the event loop is: what blocks it holds up every link, timer and publisher."""

import asyncio
from typing import Final

from causalcast.runtime.observing.histogram import Histogram

EVERY: Final = 0.5  # seconds between two looks


class LoopLag:
    """Plans to be called after a while, again and again, and looks how much later it is."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.took = Histogram()
        self.last = 0.0  # seconds
        self._loop = loop
        self._due = 0.0
        self._planned: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Look from now on."""
        self._plan()

    def stop(self) -> None:
        """Look no more."""
        if self._planned is not None:
            self._planned.cancel()
            self._planned = None

    def _plan(self) -> None:
        self._due = self._loop.time() + EVERY
        self._planned = self._loop.call_at(self._due, self._look)

    def _look(self) -> None:
        self.last = max(0.0, self._loop.time() - self._due)
        self.took.observe(int(self.last * 1e6))
        self._plan()
