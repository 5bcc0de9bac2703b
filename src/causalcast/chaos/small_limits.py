"""Limits of real nodes, drawn small for a round: sizes and counts.

Times stay as shipped: what is the least that works on a virtual clock is too short on a machine
that is busy.
"""

import json
from pathlib import Path
from typing import Final

from causalcast.limits import drawn, limits_of, set_for_good

FILE: Final = "limits.json"
ROOMS: Final = ("core", "parts", "wire", "runtime", "protocols")
TIMES: Final = ("s", "ms", "us")
# Names begin with these.
LEFT_OUT: Final = (
    "wire.codec.body_bytes",  # what applications publish must fit
    "runtime.operating",  # the campaign itself asks nodes all the time
    "runtime.observing",
    "runtime.security",
)


def small_limits(seed: int) -> dict[str, float]:
    """Values that are others than shipped; the same for all nodes of a round."""
    limits = {
        name: limit
        for name, limit in limits_of(*ROOMS).items()
        if limit.is_whole() and limit.unit not in TIMES and not name.startswith(LEFT_OUT)
    }
    return drawn(limits, f"chaos/{seed}")


def write_limits(folder: Path, values: dict[str, float]) -> None:
    """Beside the configuration of a node, for its process to read."""
    (folder / FILE).write_text(json.dumps(values) + "\n")


def take_limits(folder: Path) -> None:
    """Let the limits of this process be those that were written for it, if any were."""
    path = folder / FILE
    if path.exists():
        limits_of(*ROOMS)
        set_for_good(json.loads(path.read_text()))
