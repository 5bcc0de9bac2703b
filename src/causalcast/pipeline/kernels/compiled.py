"""The decorator of all kernels: numba's compiler, or nothing where there is none."""

from collections.abc import Callable
from typing import Any

try:
    from numba import njit

    compiled: Any = njit(cache=True, nogil=True)
except ImportError:

    def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
        """Leave the function as it is."""
        return function
