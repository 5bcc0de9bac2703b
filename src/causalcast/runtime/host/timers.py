"""Timers of the layers of a node."""

import asyncio
from collections.abc import Callable
from typing import final

from causalcast.core.duration import SECOND
from causalcast.core.effects import CancelTimer, StartTimer

TimerKey = tuple[int, str, int]  # layer, name, subject


@final
class Timers:
    """Those that run; starting one again takes the place of the one before."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, expire: Callable[[int, str, int], None]
    ) -> None:
        self._loop = loop
        self._expire = expire
        self._running: dict[TimerKey, asyncio.TimerHandle] = {}

    def start(self, effect: StartTimer) -> None:
        """Wake a layer later."""
        key = (effect.layer, effect.name, effect.subject)
        before = self._running.get(key)
        if before is not None:
            before.cancel()
        self._running[key] = self._loop.call_later(effect.after / SECOND, self._ran_out, key)

    def cancel(self, effect: CancelTimer) -> None:
        """Do not wake it after all."""
        handle = self._running.pop((effect.layer, effect.name, effect.subject), None)
        if handle is not None:
            handle.cancel()

    def cancel_all(self) -> None:
        """No timer runs out any more: the node stops."""
        for handle in self._running.values():
            handle.cancel()
        self._running.clear()

    def _ran_out(self, key: TimerKey) -> None:
        del self._running[key]
        layer, name, subject = key
        self._expire(layer, name, subject)
