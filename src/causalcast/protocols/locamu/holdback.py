"""Copies that wait for causes, found again by what they wait for.

A waiting copy stands in the queue of one number that is missing; only when that number is there is
it looked at again. It is also found by any number it carries: if another copy of the same message
is processed first, this one is a duplicate and waits no longer.
"""

from causalcast.core.ids import NodeId
from causalcast.parts.tree.neighbourhood import Pair
from causalcast.protocols.locamu.arrived_copy import Arrived
from causalcast.protocols.locamu.safe_path import Stamp


class Holdback:
    """The copies that wait, by sender and the sender's number."""

    def __init__(self) -> None:
        self.copies: dict[Pair, Arrived] = {}
        self._by_missing: dict[Pair, dict[Pair, None]] = {}
        self._by_stamp: dict[Stamp, dict[Pair, None]] = {}

    def put(self, key: Pair, copy: Arrived) -> None:
        """Let a copy wait for `copy.waits_for`, or for something that is not a number."""
        self.copies[key] = copy
        if copy.waits_for is not None:
            self._by_missing.setdefault(copy.waits_for, {})[key] = None
        for stamp in copy.stamps():
            self._by_stamp.setdefault(stamp, {})[key] = None

    def take(self, key: Pair) -> Arrived | None:
        """Take a copy out; None if there is none."""
        copy = self.copies.pop(key, None)
        if copy is None:
            return None
        if copy.waits_for is not None:
            _drop(self._by_missing, copy.waits_for, key)
        for stamp in copy.stamps():
            queue = self._by_stamp.get(stamp)
            if queue is not None:
                queue.pop(key, None)
                if not queue:
                    del self._by_stamp[stamp]
        return copy

    def has(self, source: NodeId, number: int) -> bool:
        """Whether the copy from a node with this number waits here."""
        return (source, NodeId(number)) in self.copies

    def waiting_for(self, issuer: NodeId, number: int) -> list[Pair]:
        """The copies that wait for this number."""
        return list(self._by_missing.get((issuer, NodeId(number)), ()))

    def carrying(self, stamp: Stamp) -> list[Pair]:
        """The copies that carry this number."""
        return list(self._by_stamp.get(stamp, ()))


def _drop(queues: dict[Pair, dict[Pair, None]], at: Pair, key: Pair) -> None:
    queue = queues.get(at)
    if queue is not None:
        queue.pop(key, None)
        if not queue:
            del queues[at]
