"""Lives of processes in one event loop: what belongs to a life that has ended stands still."""

import asyncio
import contextvars
import functools
from collections.abc import Callable, Coroutine
from typing import Any


class Life:
    """One life of a process, from its start to its crash; its tasks."""

    def __init__(self) -> None:
        self.is_over = False
        self.stands_still = False
        # Held here, or the garbage collector would close coroutines that only stand still.
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.never_called: list[Callable[[], object]] = []

    def end(self) -> None:
        """Nothing of it happens any more: a killed process does not run its `finally` either."""
        self.is_over = self.stands_still = True

    def forget(self, task: "asyncio.Task[Any]") -> None:
        """A task of it is done."""
        self.tasks.pop(task, None)

    def thaw(self, loop: asyncio.AbstractEventLoop) -> None:
        """The run is over: what stood still can be cancelled now, and clean up."""
        self.is_over, self.stands_still = True, False
        for callback in self.never_called:
            loop.call_soon(callback)

    def context(self) -> contextvars.Context:
        """A context in which everything belongs to this life."""
        context = contextvars.copy_context()
        context.run(LIFE.set, self)
        return context


LIFE: contextvars.ContextVar[Life | None] = contextvars.ContextVar("life", default=None)


def make_task(
    loop: asyncio.AbstractEventLoop,
    work: Coroutine[Any, Any, Any],
    context: contextvars.Context | None = None,
) -> asyncio.Task[Any]:
    """For `set_task_factory`: a task that its life holds."""
    task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, context=context)
    life = life_of(context)
    if life is not None:
        life.tasks[task] = None
        task.add_done_callback(life.forget)
    return task


def life_of(context: contextvars.Context | None) -> Life | None:
    """Whose context this is; that of the caller if none is given."""
    return LIFE.get() if context is None else context.get(LIFE)


def while_it_lives(
    callback: Callable[..., object], context: contextvars.Context | None
) -> Callable[..., object]:
    """The same callback, unless the life it belongs to has ended by then."""
    life = life_of(context)
    return callback if life is None else functools.partial(_call, life, callback)


def _call(life: Life, callback: Callable[..., object], *args: Any) -> None:
    if life.stands_still:
        life.never_called.append(functools.partial(callback, *args))
    else:
        callback(*args)
