"""What stands between simulated nodes: cuts, partitions, delays."""

from typing import final

from causalcast.core.ids import NodeId

Pair = tuple[NodeId, NodeId]


def pair(a: NodeId, b: NodeId) -> Pair:
    """Two nodes in a fixed order."""
    return (a, b) if a < b else (b, a)


@final
class Obstacles:
    """Between whom nothing passes, and between whom everything takes longer."""

    def __init__(self) -> None:
        self._cuts: dict[Pair, None] = {}
        self._sides: dict[NodeId, int] = {}  # of a partition
        self._delays: dict[Pair, int] = {}

    def is_cut(self, a: NodeId, b: NodeId) -> bool:
        """Whether nothing passes between the two."""
        return pair(a, b) in self._cuts or self._sides.get(a, 0) != self._sides.get(b, 0)

    def delay_of(self, a: NodeId, b: NodeId) -> int:
        """How many microseconds longer messages between the two take."""
        return self._delays.get(pair(a, b), 0)

    def cut(self, a: NodeId, b: NodeId) -> None:
        """Nothing passes between the two from now on."""
        self._cuts[pair(a, b)] = None

    def mend(self, a: NodeId, b: NodeId) -> None:
        """End the cut between the two; a partition stays."""
        self._cuts.pop(pair(a, b), None)

    def part(self, sides: list[list[NodeId]]) -> None:
        """Nothing passes between the sides; nodes that are named in none stand on the first."""
        self._sides = {node: number for number, side in enumerate(sides) for node in side}

    def mend_all(self) -> None:
        """End every cut and the partition."""
        self._cuts = {}
        self._sides = {}

    def delay(self, a: NodeId, b: NodeId, extra_us: int) -> None:
        """Messages between the two take longer from now on."""
        self._delays[pair(a, b)] = extra_us

    def end_delays(self) -> list[Pair]:
        """End every delay; between whom there was one."""
        delayed, self._delays = list(self._delays), {}
        return delayed
