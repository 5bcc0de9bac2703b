"""What a node has of the machine it runs on: clock, entropy, disk, and what carries its links.

A host asks its machine, and never the operating system, so that another machine can be given to it.
"""

import os
import random
import time

from mypy_extensions import mypyc_attr

from causalcast.disk import Disk
from causalcast.runtime import wall_clock
from causalcast.runtime.links.carrier import Carrier, TcpCarrier
from causalcast.runtime.links.udp.carrier import UdpCarrier
from causalcast.runtime.links.udp.sealing import membership
from causalcast.runtime.node_config import NodeConfig


@mypyc_attr(allow_interpreted_subclasses=True)
class Clock:
    """The time: one that goes on evenly, and that of the day."""

    def monotonic_us(self) -> int:
        """Microseconds since some moment."""
        return time.monotonic_ns() // 1000

    def wall_us(self) -> int:
        """Microseconds since 1970, as far as this machine knows."""
        return wall_clock.now_us()


@mypyc_attr(allow_interpreted_subclasses=True)
class Entropy:
    """Randomness that nobody can guess."""

    def some_bytes(self, count: int) -> bytes:
        """So many random bytes."""
        return os.urandom(count)

    def number(self) -> int:
        """A number that nobody had before, and none that means "unknown"."""
        return int.from_bytes(self.some_bytes(7)) + 1

    def shuffled(self, nodes: list[int]) -> list[int]:
        """The same in any order."""
        return random.Random(self.some_bytes(8)).sample(nodes, len(nodes))


@mypyc_attr(allow_interpreted_subclasses=True)
class Machine:
    """The machine that a process runs on."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.entropy = Entropy()
        self.disk = Disk()

    def carrier(self, config: NodeConfig) -> Carrier:
        """What carries the links of a node."""
        if config.transport == "tcp":
            return TcpCarrier()
        return UdpCarrier(membership(config.cluster, config.cluster_key), str(config.advertise))


class NodeClock:
    """The time of one life: that of the day never jumps back in it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = clock.wall_us() - clock.monotonic_us()

    def now_us(self) -> int:
        """For the stack."""
        return self._clock.monotonic_us()

    def wall_us(self) -> int:
        """For people, and for traces."""
        return self._clock.monotonic_us() + self._offset

    def wall_at(self, now_us: int) -> int:
        """The time of day at a moment of `now_us`."""
        return now_us + self._offset
