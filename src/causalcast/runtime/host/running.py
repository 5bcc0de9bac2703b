"""Whether a node runs, is about to stop or has stopped; and what goes on beside its steps."""

import asyncio
from collections.abc import Coroutine
from typing import final

from causalcast.errors import CausalcastError, NodeError


@final
class Running:
    """The state of one life, which every part looks at."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.stopped = asyncio.Event()
        self.is_over = False  # the same, for those who only look
        self.is_stopping = False  # nothing new begins
        # It has said that it leaves, and takes nothing in any more: whatever came after its last
        # row would look like a life that ended without one.
        self.has_gone = False
        self.failure: CausalcastError | None = None
        self._loop = loop
        self._tasks: dict[asyncio.Task[None], None] = {}

    def check_alive(self) -> None:
        """Raise what stopped the node, if something did."""
        if self.stopped.is_set():
            raise self.failure or NodeError("the node was stopped")

    def check_open(self) -> None:
        """Raise if nothing new may begin here: the node was stopped, or is about to be."""
        if self.is_stopping or self.is_over:
            self.check_alive()
            raise NodeError("the node is about to stop")

    def beside(self, work: Coroutine[None, None, None]) -> None:
        """Let something go on beside the steps, until the node stops."""
        task = self._loop.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._forget)

    def _forget(self, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(task, None)

    def end(self, failure: CausalcastError | None) -> None:
        """The node has stopped, for a reason or because it was asked to."""
        self.failure = failure
        self.is_over = self.has_gone = True
        self.stopped.set()

    def cancel_tasks(self) -> None:
        """Nothing goes on any more."""
        for task in list(self._tasks):
            task.cancel()
