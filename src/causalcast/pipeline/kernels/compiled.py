"""The decorator of all kernels: plain loops for small work, numba's compiler for the rest.

Compiling takes seconds of CPU the first time, and loading what was compiled takes one more second.
A small run is checked in less than that by the same loops in plain Python, and where numba is not
installed so is every run. Results are the same either way.
"""

import functools
import importlib.util
import types
from collections.abc import Callable
from typing import Any

import numpy as np

# Array elements handed to plain loops by one process before it compiles: some three seconds of
# loops. A run of a hundred thousand deliveries among a dozen nodes stays below it.
PLAIN_ELEMENTS = 4_000_000

_handed = 0  # how many were


class Kernel:
    """A loop over arrays that is compiled as soon as it is worth it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.plain = function
        self._fast: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Run it, by whichever of the two is sooner done."""
        global _handed
        if self._fast is None:
            _handed += sum(getattr(argument, "size", 0) for argument in arguments)
            if _handed <= PLAIN_ELEMENTS or not _numba_is_there():
                with np.errstate(over="ignore"):  # words are bits, and wrap as they do in C
                    return self.plain(*arguments)
            self._fast = self.compiled()
        return self._fast(*arguments)

    def compiled(self) -> Any:
        """The function as numba compiles it, with the kernels that it calls compiled as well."""
        from numba import njit

        scope = {
            name: value.compiled() if isinstance(value, Kernel) and value is not self else value
            for name, value in self.plain.__globals__.items()
            if name in self.plain.__code__.co_names
        }
        own = types.FunctionType(self.plain.__code__, {**self.plain.__globals__, **scope})
        functools.update_wrapper(own, self.plain)
        return njit(cache=True, nogil=True)(own)


@functools.cache
def _numba_is_there() -> bool:
    return importlib.util.find_spec("numba") is not None


compiled = Kernel
