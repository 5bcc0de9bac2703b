"""An event loop of asyncio without a clock: when everybody waits, time jumps to what is next."""

import asyncio
import contextvars
import selectors
from collections.abc import Callable
from typing import Any

from causalcast.nodeworld.lives import make_task, while_it_lives


class Livelock(Exception):
    """So many callbacks ran that the run would not end."""


class WorldLoop(asyncio.SelectorEventLoop):
    """Virtual time; callbacks come in the order of asyncio, the same for the same seed."""

    def __init__(self, most_callbacks: int) -> None:
        self._now = 0.0
        self.callbacks = 0
        self._most_callbacks = most_callbacks
        super().__init__(_Waiting(self))
        self.set_task_factory(make_task)  # type: ignore[arg-type]  # its stub lacks the context

    def time(self) -> float:
        """Seconds since the world began."""
        return self._now

    def pass_time(self, seconds: float) -> None:
        """Nobody has anything to do before that."""
        self._now += seconds

    def call_soon(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """As in asyncio, unless the life it belongs to has ended by then."""
        self.callbacks += 1
        if self.callbacks > self._most_callbacks:
            raise Livelock(f"more than {self._most_callbacks} callbacks")
        return super().call_soon(while_it_lives(callback, context), *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """As in asyncio, unless the life it belongs to has ended by then."""
        return super().call_at(when, while_it_lives(callback, context), *args, context=context)


class _Waiting(selectors.DefaultSelector):
    """Where asyncio would wait for sockets, time passes at once."""

    def __init__(self, loop: WorldLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("everybody waits, and nothing is going to happen")
        if timeout > 0:
            self._loop.pass_time(timeout)
        return []
