"""Who publishes what, when, to which group."""

import random
from typing import final

from causalcast.core.ids import GroupId, NodeId
from causalcast.simulator.worlds.simulation import Simulation


@final
class Stream:
    """Publications of one node (or of nodes drawn anew each time), one after the other.

    With an interval of zero the next one follows when the node's sending queue is empty.
    """

    def __init__(
        self,
        at_us: int,
        node: NodeId | None,
        group: GroupId | None,
        count: int,
        interval_us: int,
        payload_bytes: int,
    ) -> None:
        self.at_us = at_us
        self.node = node  # None: drawn anew
        self.group = group  # None: drawn anew
        self.count = count
        self.interval_us = interval_us
        self.body = bytes(payload_bytes)


@final
class Workload:
    """Lets streams of publications happen in a simulation, until the calm phase."""

    def __init__(
        self, simulation: Simulation, groups: list[GroupId], until_us: int, rng: random.Random
    ) -> None:
        self._simulation = simulation
        self._groups = groups
        self._until_us = until_us
        self._rng = rng

    def add(self, stream: Stream) -> None:
        """Plan the first publication of `stream`; each plans the next."""
        self._plan(stream, self._simulation.started_us + stream.at_us, stream.count)

    def _plan(self, stream: Stream, at: int, left: int) -> None:
        if left > 0 and at <= self._simulation.started_us + self._until_us:
            self._simulation.plan(at, lambda: self._publish(stream, left))

    def _publish(self, stream: Stream, left: int) -> None:
        simulation = self._simulation
        node = stream.node
        if node is None:
            node = NodeId(self._rng.randrange(len(simulation.nodes)))
        group = stream.group
        if group is None:
            group = self._rng.choice(self._groups)
        if stream.interval_us == 0 and self._is_busy(node):
            self._plan(stream, self._idle_at(node), left)
            return
        simulation.lives.publish(node, group, stream.body)
        if stream.interval_us == 0:
            self._plan(stream, max(self._idle_at(node), simulation.now + 1), left - 1)
        else:
            self._plan(stream, simulation.now + stream.interval_us, left - 1)

    def _is_busy(self, node: NodeId) -> bool:
        return self._idle_at(node) > self._simulation.now

    def _idle_at(self, node: NodeId) -> int:
        simulation = self._simulation
        channels = list(simulation.nodes[node].channels.values())
        return simulation.network.bandwidth.idle_at(node, channels, simulation.now)
