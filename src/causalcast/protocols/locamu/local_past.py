"""What a node of a tree knows of the past near it: which numbers were given, which arrived here.

(y, z) -> s says that the past contains the message that y numbered s for z. Numbers for others are
kept as a maximum; numbers for this node as a set, because a maximum would skip gaps. Only nodes
near enough to matter are kept, so the size depends on the tree's degree and not on its size.
"""

from causalcast.core.ids import NodeId
from causalcast.parts.tree.neighbourhood import Pair
from causalcast.protocols.locamu.safe_path import Numbers


class NumberSet:
    """Numbers from 1 on that come almost in order: all of 1..`count`, and `extras` beyond a gap."""

    __slots__ = ("count", "extras")

    def __init__(self) -> None:
        self.count = 0
        self.extras: dict[int, None] = {}

    def add(self, number: int) -> bool:
        """Put a number in; True if it is new."""
        if number <= self.count or number in self.extras:
            return False
        if number > self.count + 1:
            self.extras[number] = None
            return True
        self.count = number
        while self.count + 1 in self.extras:
            self.count += 1
            del self.extras[self.count]
        return True

    def has(self, number: int) -> bool:
        """Whether it is in the set."""
        return number <= self.count or number in self.extras

    def first_missing(self, to: int, leaving_out: int) -> int:
        """The smallest number of 1..`to` that is not here and not `leaving_out`; 0 if none."""
        for number in range(self.count + 1, to + 1):
            if number != leaving_out and number not in self.extras:
                return number
        return 0

    def last_missing(self, to: int, leaving_out: int) -> int:
        """The greatest number of 1..`to` that is not here and not `leaving_out`; 0 if none."""
        for number in range(to, self.count, -1):
            if number != leaving_out and number not in self.extras:
                return number
        return 0

    def missing(self, to: int, leaving_out: int) -> list[int]:
        """All of 1..`to` that are not here, but for `leaving_out`."""
        return [
            number
            for number in range(self.count + 1, to + 1)
            if number != leaving_out and number not in self.extras
        ]


class LocalPast:
    """Numbers given by nodes within the horizon, and those that arrived here."""

    def __init__(self, me: NodeId, issuers: list[NodeId]) -> None:
        self.me = me
        self.numbers: dict[Pair, int] = {}  # my own row counts what I numbered
        self.arrived: dict[NodeId, NumberSet] = {issuer: NumberSet() for issuer in issuers}
        self._raised: dict[Pair, int] = {}  # changes that no record has yet

    def count_for(self, node: NodeId) -> int:
        """My next number for a node."""
        number = self.numbers.get((self.me, node), 0) + 1
        self.numbers[self.me, node] = number
        return number

    def raise_to(self, pair: Pair, number: int) -> None:
        """The past contains at least this number; of my own numbers I know best."""
        if pair[0] != self.me and pair[1] != self.me and number > self.numbers.get(pair, 0):
            self.numbers[pair] = number
            self._raised[pair] = number

    def has_arrived(self, issuer: NodeId, number: int) -> bool:
        """Whether the message with this number of `issuer` for me was processed here."""
        return issuer in self.arrived and self.arrived[issuer].has(number)

    def arrive(self, issuer: NodeId, number: int) -> bool:
        """Count a number as arrived; True if that is news."""
        return issuer in self.arrived and self.arrived[issuer].add(number)

    def first_missing(self, issuer: NodeId, to: int, leaving_out: int) -> int:
        """The first number of `issuer` up to `to` that did not arrive; 0 if none."""
        known = self.arrived.get(issuer)
        return 0 if known is None else known.first_missing(to, leaving_out)

    def last_missing(self, issuer: NodeId, to: int, leaving_out: int) -> int:
        """The last number of `issuer` up to `to` that did not arrive; 0 if none."""
        known = self.arrived.get(issuer)
        return 0 if known is None else known.last_missing(to, leaving_out)

    # Records

    def take_raised(self) -> Numbers:
        """What changed since the last call, without my own counts; for a record."""
        raised = nested(self._raised)
        self._raised = {}
        return raised

    def restore_raised(self, raised: Numbers) -> None:
        """What a record says of the past."""
        for issuer, row in raised.items():
            for node, number in row.items():
                if number > self.numbers.get((issuer, node), 0):
                    self.numbers[issuer, node] = number

    def size(self) -> int:
        """Entries kept."""
        return (
            len(self.numbers)
            + len(self.arrived)
            + sum(len(known.extras) for known in self.arrived.values())
        )


def nested(pairs: dict[Pair, int]) -> Numbers:
    """The same numbers, by issuer."""
    found: Numbers = {}
    for (issuer, node), number in pairs.items():
        found.setdefault(issuer, {})[node] = number
    return found


def flat(numbers: Numbers) -> dict[Pair, int]:
    """The same numbers, by issuer and node."""
    return {
        (issuer, node): number for issuer, row in numbers.items() for node, number in row.items()
    }
