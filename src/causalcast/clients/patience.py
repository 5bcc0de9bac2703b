"""Ends a task that does one thing for too long. Cheap to begin and to end, however often.

A timer for each of a hundred thousand things a second would cost as much as the things. Here there
is one timer at most, and it looks again at the time that is left.
"""

import asyncio
from typing import final


@final
class Patience:
    """Of one task, with one thing at a time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: float | None = None  # when what is done now was begun
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[object] | None = None
        self.is_over = False  # the task was cancelled for that

    def begin(self) -> None:
        """The current task begins something."""
        loop = asyncio.get_running_loop()
        self._since = loop.time()
        if self._timer is None:
            self._task = asyncio.current_task()
            self._timer = loop.call_later(self._seconds, self._look)

    def end(self) -> None:
        """It is done."""
        self._since = None

    def close(self) -> None:
        """Nothing will be begun any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._since is None or self._task is None:
            return
        loop = asyncio.get_running_loop()
        left = self._since + self._seconds - loop.time()
        if left > 0:
            self._timer = loop.call_later(left, self._look)
        else:
            self.is_over = True
            self._task.cancel()
