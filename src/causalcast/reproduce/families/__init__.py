"""Ways to measure: each takes the values of a point and returns the columns of its row."""

from collections.abc import Callable
from typing import Any

from causalcast.reproduce.families.broadcast import broadcast
from causalcast.reproduce.families.real import real
from causalcast.reproduce.families.seeds import seeds
from causalcast.reproduce.families.sizes import size
from causalcast.reproduce.families.survey import survey
from causalcast.reproduce.families.tree import tree
from causalcast.reproduce.families.waits import waits
from causalcast.reproduce.families.zones import zones

Family = Callable[[dict[str, Any]], dict[str, Any]]

FAMILIES: dict[str, Family] = {
    "tree": tree,
    "broadcast": broadcast,
    "survey": survey,
    "seeds": seeds,
    "size": size,
    "waits": waits,
    "zones": zones,
    "real": real,
}

__all__ = ["FAMILIES", "Family"]
