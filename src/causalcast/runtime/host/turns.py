"""Turns of the event loop: what is to leave in one leaves together, when it ends."""

import asyncio
from collections.abc import Callable
from typing import final


@final
class Turns:
    """Plans the end of the turn that is under way, once."""

    def __init__(self, loop: asyncio.AbstractEventLoop, end: Callable[[], None]) -> None:
        self._loop = loop
        self._end = end
        self.is_planned = False
        self.has_left = False  # something that was published in this turn

    def plan(self) -> None:
        """Something happened: the turn has an end of its own."""
        if not self.is_planned:
            self.is_planned = True
            self._loop.call_soon(self._end)

    def ended(self) -> None:
        """What happens from now on belongs to the next one."""
        self.is_planned = self.has_left = False
