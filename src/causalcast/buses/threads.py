"""Handlers for libraries that call back in threads of their own."""

from collections.abc import Coroutine
from typing import Any


def now(work: Coroutine[Any, Any, None] | Any) -> None:
    """Run to its end a coroutine that never waits, without an event loop."""
    try:
        work.send(None)
    except StopIteration:
        return
    raise RuntimeError("this handler waits for something; it needs an event loop")
