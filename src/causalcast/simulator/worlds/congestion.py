"""Whose links are congested in a simulation: those that really are, or now and then some."""

import random
from typing import final

from causalcast.core.ids import NodeId
from causalcast.core.world_facts import NOBODY
from causalcast.simulator.worlds.network import Bandwidth
from causalcast.simulator.worlds.shared_state import SharedState
from causalcast.simulator.worlds.sim_node import SimNode
from causalcast.simulator.worlds.world_plan import NEVER


@final
class Congestion:
    """What a node is told of its links when one of its timers runs out."""

    def __init__(self, shared: SharedState, bandwidth: Bandwidth, seed: str) -> None:
        self._shared = shared
        self._bandwidth = bandwidth
        self._chance = shared.plan.congestion
        self._tells_bandwidth = shared.plan.tells_bandwidth
        self._rng = random.Random(f"{seed}/congestion")

    def around(self, node: SimNode) -> dict[NodeId, None]:
        """The peers to whom it should not repeat anything now."""
        if self._tells_bandwidth:
            now, bandwidth = self._shared.out.now, self._bandwidth
            found = {p: None for p, c in node.channels.items() if bandwidth.is_busy(c, now)}
        elif self._chance > NEVER:
            found = {peer: None for peer in node.channels if self._rng.random() < self._chance}
        else:
            return NOBODY
        if found:
            self._shared.count("congested")
        return found

    def end(self) -> None:
        """Nobody is said to be congested from now on who is not."""
        self._chance = NEVER
