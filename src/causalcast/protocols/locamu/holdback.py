"""Copies that wait for causes, found again by what they wait for.

A waiting copy stands in the queue of one number it lacks; only when that number is there is it
looked at again. It is also found by any number it carries: if another copy of the same message is
processed first, this one is a duplicate and waits no longer.
"""

from causalcast.core.ids import NodeId
from causalcast.core.message import Message
from causalcast.parts.tree.neighbourhood import Pair
from causalcast.parts.tree.safe_path import Numbers, Stamped
from causalcast.protocols.locamu.gap_consultation import Inquiry

Stamp = tuple[NodeId, NodeId, int]  # issuer, for whom, number


class Arrived(Stamped):
    """A copy that arrived: from whom, what, and what it depends on."""

    def __init__(
        self,
        source: NodeId,
        message: Message,
        origin: NodeId,
        epoch: int,
        back: NodeId,
        numbers: Numbers,
        needs: dict[Pair, int],
        at: int,
    ) -> None:
        super().__init__(origin, epoch, back, numbers)
        self.since = at
        self.source = source
        self.message = message
        self.needs = needs
        self.inquiry = Inquiry()
        self.number = 0  # of the source, for this node
        self.waits_for: Pair | None = None  # issuer and number
        self.told = False  # that it is held

    def stamps(self) -> list[Stamp]:
        """All numbers it carries."""
        return [
            (issuer, node, number)
            for issuer, vector in self.numbers.items()
            for node, number in vector.items()
        ]


class Holdback:
    """The copies that wait, by sender and the sender's number."""

    def __init__(self) -> None:
        self.copies: dict[Pair, Arrived] = {}
        self._by_need: dict[Pair, dict[Pair, None]] = {}
        self._by_stamp: dict[Stamp, dict[Pair, None]] = {}

    def put(self, key: Pair, copy: Arrived) -> None:
        """Let a copy wait for `copy.waits_for`, or for something that is not a number."""
        self.copies[key] = copy
        if copy.waits_for is not None:
            self._by_need.setdefault(copy.waits_for, {})[key] = None
        for stamp in copy.stamps():
            self._by_stamp.setdefault(stamp, {})[key] = None

    def take(self, key: Pair) -> Arrived | None:
        """Let a copy wait no longer; None if there is none."""
        copy = self.copies.pop(key, None)
        if copy is None:
            return None
        if copy.waits_for is not None:
            _drop(self._by_need, copy.waits_for, key)
        for stamp in copy.stamps():
            queue = self._by_stamp.get(stamp)
            if queue is not None:
                queue.pop(key, None)
                if not queue:
                    del self._by_stamp[stamp]
        return copy

    def waiting_for(self, issuer: NodeId, number: int) -> list[Pair]:
        """The copies that wait for this number."""
        return list(self._by_need.get((issuer, NodeId(number)), ()))

    def carrying(self, stamp: Stamp) -> list[Pair]:
        """The copies that carry this number."""
        return list(self._by_stamp.get(stamp, ()))


def _drop(queues: dict[Pair, dict[Pair, None]], at: Pair, key: Pair) -> None:
    queue = queues.get(at)
    if queue is not None:
        queue.pop(key, None)
        if not queue:
            del queues[at]
