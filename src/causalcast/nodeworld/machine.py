"""The machine that a simulated node runs on."""

import asyncio
import random

from causalcast.nodeworld.disk import SimDisk
from causalcast.nodeworld.network import Network, SimCarrier
from causalcast.runtime.links.carrier import Carrier
from causalcast.runtime.machine import Clock, Entropy, Machine
from causalcast.runtime.node_config import NodeConfig

BEGAN_US = 1_700_000_000_000_000  # when every world began, in microseconds since 1970


class SimClock(Clock):
    """The time of the loop; that of the day is wrong by `skew_us`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, skew_us: int) -> None:
        self._loop = loop
        self._skew_us = skew_us

    def monotonic_us(self) -> int:
        return round(self._loop.time() * 1_000_000)

    def wall_us(self) -> int:
        return BEGAN_US + self.monotonic_us() + self._skew_us


class SimEntropy(Entropy):
    """What a seed decides."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def some_bytes(self, count: int) -> bytes:
        return self._chance.randbytes(count)


class SimMachine(Machine):
    """Survives the lives of the node on it; a life has a clock of its own."""

    def __init__(self, network: Network, disk: SimDisk, chance: random.Random) -> None:
        self.entropy = SimEntropy(chance)
        self.disk = disk
        self.clock = SimClock(network.loop, chance.choice((0, 0, -50_000, 3_600_000_000)))
        self._network = network

    def carrier(self, config: NodeConfig) -> Carrier:
        return SimCarrier(self._network, config.listen.port)
