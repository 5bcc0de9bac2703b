"""Ways to measure: each takes the values of a point and returns the columns of its row."""

from collections.abc import Callable
from typing import Any

from causalcast.reproduce.families.broadcast import broadcast
from causalcast.reproduce.families.sizes import SIZES, size
from causalcast.reproduce.families.tree import tree

Family = Callable[[dict[str, Any]], dict[str, Any]]

FAMILIES: dict[str, Family] = {"tree": tree, "broadcast": broadcast, "size": size}

__all__ = ["FAMILIES", "SIZES", "Family"]
