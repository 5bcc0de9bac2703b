"""For stretches of code that make many small objects and keep them all."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def all_are_kept() -> Iterator[None]:
    """Look for no garbage meanwhile: among a million objects that takes a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
