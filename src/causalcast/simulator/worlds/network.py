"""The simulated network: how long a message takes, and what becomes of it on its way.

Bandwidth is a queue in front of a channel
(`per_link`: the node's rate split evenly over its links), or in front of the whole node (`shared`:
one card for all its links), and where nodes share a host, of the host. The two papers on LoCaMu use
one rule each: Santos and Rodrigues, INForum 2019, the first; V. Santos' thesis the second.
"""

import math
import random
from typing import Final, final

from causalcast.core.ids import NodeId
from causalcast.simulator.worlds.sim_node import Channel

_DRAWN_AT_ONCE: Final = 4096


@final
class Latency:
    """Draws how long messages take, in whole microseconds."""

    def __init__(self, kind: str, low: float, high: float, rng: random.Random) -> None:
        assert kind in ("constant", "uniform", "exponential", "pareto")
        self.kind = kind
        self.low = low  # constant: the value; exponential: the mean; pareto: the least
        self.high = high  # pareto: the most
        self.least = max(1, round(low)) if kind != "exponential" else 1
        self.drawn: list[int] = []  # to be popped; `draw` makes more
        self.per_link: tuple[int, int] | None = None  # each pair's own share, within these bounds
        self._rng = rng

    def of_pair(self, a: int, b: int) -> int:
        """What every message between two nodes takes, on top of what is drawn for each."""
        if self.per_link is None:
            return 0
        low, high = self.per_link
        # The same both ways, and whenever the two meet again.
        return random.Random(min(a, b) << 32 | max(a, b)).randint(low, high)

    def draw(self) -> int:
        """The next message's time."""
        if not self.drawn:
            self.drawn = self._draw_many()
        return self.drawn.pop()

    def _draw_many(self) -> list[int]:
        if self.kind == "constant":
            return [self.least] * _DRAWN_AT_ONCE
        uniform = self._rng.random
        if self.kind == "uniform":
            span = self.high - self.low
            return [max(1, int(self.low + span * uniform())) for _ in range(_DRAWN_AT_ONCE)]
        if self.kind == "pareto":
            # Half of all take less than twice the least, one in a hundred a hundred times it.
            low, high = self.low, self.high
            return [max(1, int(min(high, low / (1.0 - uniform())))) for _ in range(_DRAWN_AT_ONCE)]
        mean = self.low
        return [max(1, int(-mean * math.log(1.0 - uniform()))) for _ in range(_DRAWN_AT_ONCE)]


@final
class Card:
    """A network card: what passes it waits for what is before it."""

    def __init__(self, bits_per_us: float) -> None:
        self.bits_per_us = bits_per_us
        self.free_at = 0

    def pass_on(self, size: int, now: int) -> int:
        """When the last bit of `size` bytes has left, queueing included."""
        start = max(now, self.free_at)
        self.free_at = start + math.ceil(size * 8 / self.bits_per_us)
        return self.free_at


@final
class Bandwidth:
    """Who may send how fast."""

    def __init__(
        self,
        mbps: float,
        sharing: str,
        nodes_per_host: int,
        host_mbps: float,
    ) -> None:
        assert sharing in ("per_link", "shared")
        self.limited = mbps > 0 or nodes_per_host > 0
        self._per_node = mbps > 0
        self.per_link = sharing == "per_link"
        self.bits_per_us = mbps  # 1 Mb/s is one bit per microsecond
        self._nodes_per_host = nodes_per_host
        self._host_bits_per_us = host_mbps
        self._cards: dict[NodeId, Card] = {}
        self._hosts: dict[int, Card] = {}

    def departure(self, channel: Channel, degree: int, size: int, now: int) -> int:
        """When the last bit of a message of `size` bytes has left the sender."""
        at = now
        if self._per_node:
            if self.per_link:
                start = max(at, channel.free_at)
                at = start + math.ceil(size * 8 * max(1, degree) / self.bits_per_us)
                channel.free_at = at
            else:
                at = self._card_of(channel.source).pass_on(size, at)
        if self._nodes_per_host:
            host = channel.source // self._nodes_per_host
            if host != channel.target // self._nodes_per_host:
                at = self._host_card(host).pass_on(size, at)
        return at

    def idle_at(self, node: NodeId, channels: list[Channel], now: int) -> int:
        """When everything the node has to send so far will have left."""
        if not self._per_node:
            return now
        if self.per_link:
            return max([now, *(channel.free_at for channel in channels)])
        return max(now, self._card_of(node).free_at)

    def is_busy(self, channel: Channel, now: int) -> bool:
        """Whether something that was sent through the channel has not left yet."""
        if not self._per_node:
            return False
        if self.per_link:
            return channel.free_at > now
        return self._card_of(channel.source).free_at > now

    def _card_of(self, node: NodeId) -> Card:
        card = self._cards.get(node)
        if card is None:
            card = self._cards[node] = Card(self.bits_per_us)
        return card

    def _host_card(self, host: int) -> Card:
        card = self._hosts.get(host)
        if card is None:
            card = self._hosts[host] = Card(self._host_bits_per_us)
        return card


@final
class NetworkPlan:
    """What the scenario says about the network, the disk and the detector's delay."""

    def __init__(
        self,
        latency: Latency,
        bandwidth: Bandwidth,
        loss: float,
        duplication: float,
        fifo: bool,
        tick_us: int,
        shared_objects: bool,
        sync_us: int,
        detection_us: int,
    ) -> None:
        self.latency = latency
        self.bandwidth = bandwidth
        self.loss = loss
        self.duplication = duplication
        self.fifo = fifo
        self.tick_us = tick_us
        self.shared_objects = shared_objects
        self.sync_us = sync_us
        self.detection_us = detection_us
