"""What waits here for a cause, by origin: a cause that never comes must not fill the memory.

Whoever publishes with causes that nobody has makes every node hold that. The protocol says what it
holds, and here it is weighed. An origin of which too much waits gets no further publication in, and
the link that brings one is closed. It is told apart who brings it: an origin itself may have so
much waiting here, and those who pass on what it said to others as much for each of them, for an
honest node passes on all that it has taken in.
"""

import itertools
from typing import Final, final

from causalcast.core.ids import NUMBER_BITS, MessageId, NodeId
from causalcast.core.message import Publication
from causalcast.errors import Rejected
from causalcast.limits import Limit
from causalcast.wire.runs import Arrived

BYTES_PER_ORIGIN: Final = Limit(
    "runtime.security.waiting.bytes_per_origin",
    64 << 20,
    least=16 << 20,
    most=1 << 40,
    unit="bytes",
    about="what may wait here for causes, of one origin; beyond it whoever brings more is cut off",
)
OVERHEAD: Final = 1000  # bytes that a publication takes beside its body while it waits, roughly
FEW: Final = 8  # where nobody knows how many nodes there are: others that pass things on


@final
class Waiting:
    """Weights of what the protocol holds."""

    def __init__(self, nodes: int | None) -> None:
        """`nodes`: how many there are, if that is known."""
        self.by_message: dict[MessageId, int] = {}
        self._since: dict[MessageId, int] = {}  # when each began to wait, the oldest first
        self._by_origin: dict[int, int] = {}
        self._arriving: list[Arrived] = []
        self._weights: dict[MessageId, int] | None = None
        self._shares = FEW if nodes is None else max(1, nodes)

    def arriving(self, messages: list[Arrived]) -> None:
        """These are handed to the protocol now; what it holds is among them."""
        self._arriving = messages
        self._weights = None

    def check(self, sender: NodeId, publications: tuple[Publication, ...]) -> None:
        """Raise Rejected if too much of an origin waits already."""
        for publication in publications:
            origin = publication.id >> NUMBER_BITS
            waits = self._by_origin.get(origin, 0)
            most = BYTES_PER_ORIGIN.value * (1 if origin == sender else self._shares)
            if waits > most and publication.id not in self.by_message:
                raise Rejected(
                    "too_much_waits",
                    f"{waits} bytes of node {origin} wait for causes that do not come",
                )

    def hold(self, message: MessageId, at_us: int) -> None:
        """The protocol holds it, from this moment on unless it did so before."""
        if message in self.by_message:
            return
        self._since[message] = at_us
        if self._weights is None:
            self._weights = {
                publication.id: len(publication.body) + OVERHEAD
                for _, _, carried in self._arriving
                for publication in carried
            }
        weight = self._weights.get(message, OVERHEAD)
        self.by_message[message] = weight
        origin = message >> NUMBER_BITS
        self._by_origin[origin] = self._by_origin.get(origin, 0) + weight

    def weight(self) -> int:
        """What all of it weighs."""
        return sum(self._by_origin.values())

    def oldest(self, at_most: int) -> list[tuple[MessageId, int]]:
        """Those that wait longest, and since when."""
        return list(itertools.islice(self._since.items(), at_most))

    def release(self, message: MessageId) -> int:
        """The protocol does so no longer; since when it did, or 0."""
        weight = self.by_message.pop(message, 0)
        if weight:
            origin = message >> NUMBER_BITS
            left = self._by_origin[origin] - weight
            if left:
                self._by_origin[origin] = left
            else:
                del self._by_origin[origin]
        return self._since.pop(message, 0)
