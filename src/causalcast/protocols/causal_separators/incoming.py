"""Units that came from another zone, as one server of the joint sees them."""

from typing import final

from causalcast.core.ids import NodeId
from causalcast.parts.vector_clock import VectorClock, covers
from causalcast.protocols.causal_separators.crossing_messages import Crossing
from causalcast.protocols.causal_separators.zone_unit import Unit


@final
class Incoming:
    """What came across and waits, and what was delivered here and told there."""

    def __init__(self) -> None:
        self.arrived: VectorClock = {}  # of what came from there, in this zone
        self.told: VectorClock = {}  # what the servers there know of what was delivered here
        self.waiting: dict[tuple[NodeId, NodeId], dict[int, Crossing]] = {}  # sender and lead

    def arrive(self, sender: NodeId, crossing: Crossing) -> None:
        """A unit came across; it waits until `next_ready` hands it out."""
        self.waiting.setdefault((sender, crossing.lead), {})[crossing.place] = crossing

    def next_ready(self, seen: VectorClock) -> Crossing | None:
        """The next of what came across that names nothing missing here; it waits no longer."""
        for way, queue in self.waiting.items():
            first = queue[min(queue)]
            if covers(seen, first.after):
                del queue[first.place]
                if not queue:
                    del self.waiting[way]
                return first
        return None

    def waits(self, crossing: Crossing) -> bool:
        """Whether it still waits here."""
        return any(crossing in queue.values() for queue in self.waiting.values())

    def count(self, unit: Unit) -> None:
        """A unit that came from there was delivered in this zone."""
        self.arrived[unit.origin] = unit.number

    def news(self, seen: VectorClock) -> VectorClock:
        """What was delivered here and not told yet; it counts as told from now on."""
        news = {node: count for node, count in seen.items() if self.told.get(node) != count}
        self.told.update(news)
        return news
