"""Faults of links in a simulation: cuts, partitions and delays, and who hears of them."""

from typing import final

from causalcast.core.ids import NodeId
from causalcast.simulator.worlds.links import Links
from causalcast.simulator.worlds.obstacles import Obstacles
from causalcast.simulator.worlds.shared_state import SharedState


@final
class LinkFaults:
    """Puts obstacles between nodes and takes them away, and lets links know."""

    def __init__(self, shared: SharedState, links: Links, obstacles: Obstacles) -> None:
        self._shared = shared
        self._links = links
        self._obstacles = obstacles

    def delay(self, a: NodeId, b: NodeId, extra_us: int) -> None:
        """Messages between `a` and `b` take longer from now on."""
        self._shared.count("delay")
        self._obstacles.delay(a, b, extra_us)
        self._links.refresh(a, b)

    def cut(self, a: NodeId, b: NodeId, loud: bool) -> None:
        """Nothing passes between `a` and `b` any more; loudly, both ends hear of it."""
        self._shared.count("cut")
        self._obstacles.cut(a, b)
        self._links.refresh(a, b)
        if loud:
            self._links.announce_loss(a, b)

    def partition(self, sides: list[list[NodeId]], loud: bool) -> None:
        """Nothing passes between the sides; nodes that are named in none stand on the first."""
        self._shared.count("partition")
        self._obstacles.part(sides)
        for a, b in self._links.linked_pairs():
            self._links.refresh(a, b)
            if loud and self._obstacles.is_cut(a, b):
                self._links.announce_loss(a, b)

    def heal(self, a: NodeId | None, b: NodeId | None) -> None:
        """End the cut between `a` and `b`, or every cut and partition."""
        if a is None or b is None:
            self._obstacles.mend_all()
            for one, other in self._links.linked_pairs():
                self._links.refresh(one, other)
        else:
            self._obstacles.mend(a, b)
            self._links.refresh(a, b)

    def end_all(self) -> None:
        """Nothing stands between anybody any more."""
        self.heal(None, None)
        for a, b in self._obstacles.end_delays():
            self._links.refresh(a, b)
