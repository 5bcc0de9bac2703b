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
from collections.abc import Callable, Coroutine
from typing import Any, Final

from causalcast.simulator.worlds.simulation import Simulation

SECOND: Final = 1_000_000  # microseconds
NEVER: Final = 1 << 60


class Life:
    """One life of an application, from its start to its crash; its tasks."""

    def __init__(self) -> None:
        self.is_over = False
        self.stands_still = False
        # Held here, or the garbage collector would close coroutines that only stand still.
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.never_called: list[Callable[[], object]] = []

    def end(self) -> None:
        """Nothing of it happens any more."""
        self.is_over = self.stands_still = True

    def forget(self, task: "asyncio.Task[Any]") -> None:
        """A task of it is done."""
        self.tasks.pop(task, None)

    def thaw(self, loop: asyncio.AbstractEventLoop) -> None:
        """The test is over: suspended tasks are cancelled now and may clean up."""
        self.is_over, self.stands_still = True, False
        for callback in self.never_called:
            loop.call_soon(callback)


LIFE: contextvars.ContextVar[Life | None] = contextvars.ContextVar("life", default=None)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs coroutines between the events of a simulation."""

    def __init__(self, world: Simulation, on_progress: Callable[[], None]) -> None:
        """`on_progress` is called after each instant at which something happened in the world."""
        self._world = world
        self._on_progress = on_progress
        self._something_is_due = False
        super().__init__(_Waiting(self))
        self.set_task_factory(_make_task)  # type: ignore[arg-type]  # its stub lacks the context

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
        return super().call_soon(_while_it_lives(callback, context), *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """As in asyncio, unless the life it belongs to has ended by then."""
        return super().call_at(when, _while_it_lives(callback, context), *args, context=context)

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


def _make_task(
    loop: asyncio.AbstractEventLoop,
    work: Coroutine[Any, Any, Any],
    context: contextvars.Context | None = None,
) -> asyncio.Task[Any]:
    task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, context=context)
    life = _life_of(context)
    if life is not None:
        life.tasks[task] = None
        task.add_done_callback(life.forget)
    return task


def _life_of(context: contextvars.Context | None) -> Life | None:
    return LIFE.get() if context is None else context.get(LIFE)


def _while_it_lives(
    callback: Callable[..., object], context: contextvars.Context | None
) -> Callable[..., object]:
    life = _life_of(context)
    return callback if life is None else functools.partial(_call, life, callback)


def _call(life: Life, callback: Callable[..., object], *args: Any) -> None:
    if life.stands_still:
        life.never_called.append(functools.partial(callback, *args))
    else:
        callback(*args)
