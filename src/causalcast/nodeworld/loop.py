"""An event loop of asyncio without a clock: when everybody waits, time jumps to what is next."""

import asyncio
import contextvars
import functools
import selectors
from collections.abc import Callable
from typing import Any

from causalcast.nodeworld.lives import make_task, schedule
from causalcast.nodeworld.network import Network
from causalcast.nodeworld.sockets import SimServer, connected


class Livelock(Exception):
    """So many callbacks ran that the run would not end."""


class WorldLoop(asyncio.SelectorEventLoop):
    """Virtual time; callbacks come in the order of asyncio, the same for the same seed."""

    def __init__(self, most_callbacks: int) -> None:
        self.network: Network | None = None  # that sockets of this loop belong to
        self._now = 0.0
        self.callbacks = 0
        self._most_callbacks = most_callbacks
        self._is_swept = False
        super().__init__(_Waiting(self))
        self.set_task_factory(make_task)  # type: ignore[arg-type]  # its stub lacks the context

    def time(self) -> float:
        """Seconds since the world began."""
        return self._now

    def pass_time(self, seconds: float) -> None:
        """Nobody has anything to do before that."""
        self._now += seconds

    def sweep(self) -> None:
        """The run is over: whatever is still asked for, by what is collected, never happens."""
        self._is_swept = True
        self._ready.clear()  # type: ignore[attr-defined]
        self.set_exception_handler(lambda _loop, _context: None)
        self.close()

    def _check_closed(self) -> None:
        if not self._is_swept:
            super()._check_closed()  # type: ignore[misc]

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
        handle: asyncio.Handle = schedule(super().call_soon, callback, args, context)
        return handle

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """As in asyncio, unless the life it belongs to has ended by then."""
        later = functools.partial(super().call_at, when)
        handle: asyncio.TimerHandle = schedule(later, callback, args, context)
        return handle

    async def create_connection(self, factory: Any, *_: Any, port: int, **__: Any) -> Any:  # type: ignore[override]
        """As in asyncio, in the network of the world; nothing is encrypted there."""
        assert self.network is not None
        return await connected(self.network, factory, port)

    async def create_server(self, factory: Any, _: Any, port: int, **__: Any) -> Any:  # type: ignore[override]
        """The same for who listens."""
        assert self.network is not None
        return SimServer(self.network, factory, port)


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
