"""An event loop of asyncio whose time is that of a simulated cluster.

When all coroutines wait, the simulation goes on: to the next thing that happens there, or to the
moment somebody sleeps until. No real second passes, and the same seed gives the same order.

What belongs to a `Life` stands still for ever once that life has ended. A killed process does not
get to run its `finally` either.
"""

import asyncio
import contextvars
import functools
import math
import selectors
from collections.abc import Callable
from typing import Any, Final

from causalcast.nodeworld.lives import LIFE, Life, make_task, schedule
from causalcast.simulator.worlds.simulation import Simulation

__all__ = ["LIFE", "Life", "VirtualLoop"]

SECOND: Final = 1_000_000  # microseconds
NEVER: Final = 1 << 60


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs coroutines between the events of a simulation."""

    def __init__(self, world: Simulation, on_progress: Callable[[], None]) -> None:
        """`on_progress` is called after each instant at which something happened in the world."""
        self._world = world
        self._on_progress = on_progress
        self._something_is_due = False
        super().__init__(_Waiting(self))
        self.set_task_factory(make_task)  # type: ignore[arg-type]  # its stub lacks the context

    def time(self) -> float:
        """Seconds since the cluster began."""
        return self._world.now / SECOND

    def call_soon(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """As in asyncio, unless the life it belongs to has ended by then."""
        self._something_is_due = True
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

    def let_time_pass(self, seconds: float | None) -> None:
        """Run the world until somebody here has something to do, or for so long."""
        world = self._world
        end = NEVER if seconds is None else world.now + max(1, math.ceil(seconds * SECOND))
        self._something_is_due = False
        while not self._something_is_due and world.now < end:
            if world.schedule.turn_to(end):
                world.run(world.schedule.open[world.schedule.position].at)
            elif seconds is None:
                raise RuntimeError("everybody waits, and nothing is under way in the cluster")
            else:
                world.run(end)
            self._on_progress()


class _Waiting(selectors.DefaultSelector):
    """Where asyncio would wait for sockets, the world goes on."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        if not found and (timeout is None or timeout > 0):
            self._loop.let_time_pass(timeout)
        return found
