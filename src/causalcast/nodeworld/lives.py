"""Lives of processes in one event loop: what belongs to a life that has ended stands still."""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any


class Life:
    """One life of a process, from its start to its crash; its tasks."""

    def __init__(self) -> None:
        self.is_over = False
        self.stands_still = False
        # Held here, or the garbage collector would close coroutines that only stand still.
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.never_called: list[WhileItLives] = []

    def end(self) -> None:
        """Nothing of it happens any more: a killed process does not run its `finally` either."""
        self.is_over = self.stands_still = True

    def forget(self, task: "asyncio.Task[Any]") -> None:
        """A task of it is done."""
        self.tasks.pop(task, None)

    def freeze(self) -> None:
        """Nothing of it happens for a while, as with SIGSTOP; the network around it goes on."""
        self.stands_still = True

    def go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """What was due meanwhile happens now, unless somebody cancelled it."""
        if not self.is_over:
            self._release(loop)

    def thaw(self, loop: asyncio.AbstractEventLoop) -> None:
        """The run is over: what stood still can be cancelled now, and clean up."""
        self.is_over = True
        self._release(loop)

    def _release(self, loop: asyncio.AbstractEventLoop) -> None:
        self.stands_still = False
        postponed, self.never_called = self.never_called, []
        for callback in postponed:
            loop.call_soon(callback.late, context=callback.context)

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


class WhileItLives:
    """A callback that waits while its life stands still, for ever if that life has ended."""

    __slots__ = ("_arguments", "_callback", "_life", "context", "handle")

    def __init__(
        self,
        life: Life,
        callback: Callable[..., object],
        arguments: tuple[Any, ...],
        context: contextvars.Context | None,
    ) -> None:
        self.handle: asyncio.Handle | None = None  # who has it may cancel the callback
        self.context = context
        self._life = life
        self._callback = callback
        self._arguments = arguments

    def __call__(self) -> None:
        if self._life.stands_still:
            self._life.never_called.append(self)
        else:
            self._callback(*self._arguments)

    def late(self) -> None:
        """Its life goes on."""
        if self.handle is None or not self.handle.cancelled():
            self._callback(*self._arguments)


Schedule = Callable[..., Any]  # as `call_soon` of a loop, without the time


def schedule(
    later: Schedule,
    callback: Callable[..., object],
    arguments: tuple[Any, ...],
    context: contextvars.Context | None,
) -> Any:
    """Call it later, if the life it belongs to goes on then; gives asyncio's handle."""
    life = life_of(context)
    if life is None:
        return later(callback, *arguments, context=context)
    if context is None:
        context = contextvars.copy_context()
    waiting = WhileItLives(life, callback, arguments, context)
    waiting.handle = later(waiting, context=context)
    return waiting.handle
