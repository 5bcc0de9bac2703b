"""May a message leave for a node yet, and is everything known that could arrive of it?

Every node a message passes gives it a number for each node it may go to next. Two copies that meet
are known for the same message by any number both carry. A copy carries the numbers of at least
`quorum` of the last `window` nodes before the receiver, and two such sets always share one, because
2 · quorum > window. Near the publisher there are not so many nodes yet; there the publisher's own
numbers do, since every copy carries them that far.
"""

from causalcast.core.ids import NodeId
from causalcast.parts.tree.neighbourhood import NOBODY, Neighbourhood

# issuer -> whom it numbered the message for -> the number
Numbers = dict[NodeId, dict[NodeId, int]]
Stamp = tuple[NodeId, NodeId, int]  # issuer, for whom, number


class Stamped:
    """A message with what is known of its way.

    `origin` is its publisher where that is near enough to be known, `back` the neighbour towards it
    (nobody at the publisher itself), `epoch` how many had joined its group when it was published.
    """

    def __init__(self, origin: NodeId, epoch: int, back: NodeId, numbers: Numbers) -> None:
        self.origin = origin
        self.epoch = epoch
        self.back = back
        self.numbers = numbers

    def stamps(self) -> list[Stamp]:
        """All numbers it was given, as far as they are known."""
        return [
            (issuer, node, number)
            for issuer, vector in self.numbers.items()
            for node, number in vector.items()
        ]


class SafePath:
    """The predicates of one node about the numbers a message carries."""

    def __init__(self, around: Neighbourhood, reach: int, window: int, quorum: int) -> None:
        self.me = around.me
        self.around = around
        self.reach = reach
        self.window = window
        self.quorum = quorum
        self.gone: dict[NodeId, None] = {}  # whose numbers never come

    def upstream(self, message: Stamped, target: NodeId) -> list[NodeId]:
        """The issuers known here that lie before `target` on the message's way, at most `window`
        hops from it."""
        return [issuer for issuer in self._before(message, target) if issuer in message.numbers]

    def is_enough(self, message: Stamped, before: list[NodeId], target: NodeId) -> bool:
        """Whether a copy for `target` with the numbers of these issuers will be recognised."""
        if message.origin in before:
            return True
        # Who was skipped for good counts as known, and has given no numbers.
        numbered = sum(1 for issuer in before if message.numbers[issuer])
        return numbered >= self.quorum or (numbered > 0 and self.is_all(message, before, target))

    def is_all(self, message: Stamped, before: list[NodeId], target: NodeId) -> bool:
        """Whether all before `target` are among these, or gone.

        A quorum has somebody in it that is not gone. If that one numbered the message, it is known
        here; and if it did not, it never will.
        """
        if not self.gone or message.origin == NOBODY:
            return False
        way = self.around.way(message.origin, target)[-1 - self.window : -1]
        return all(issuer in before or issuer in self.gone for issuer in way)

    def is_complete(self, message: Stamped) -> bool:
        """Whether every number that a copy could bring here is known."""
        if message.origin == self.me:
            return True
        if message.origin != NOBODY:
            way = self._before(message, self.me)
            return all(issuer in message.numbers or issuer in self.gone for issuer in way)
        # Of a way whose beginning is out of sight, all of the window must be known.
        before = self.upstream(message, self.me)
        return any(
            all(
                issuer in before or issuer in self.gone
                for issuer in self.around.way(far, self.me)[:-1]
            )
            for far in [*before, *self.gone]
            if self.around.distance(far, self.me) == self.window
            and self.around.hop(self.me, far) == message.back
        )

    def _before(self, message: Stamped, target: NodeId) -> list[NodeId]:
        """The nodes before `target` within the window, whether they are known or not."""
        around = self.around
        if message.origin != NOBODY:
            return around.way(message.origin, target)[-1 - self.window : -1]
        found = [
            issuer
            for issuer in message.numbers
            if issuer != self.me
            and around.hop(self.me, issuer) == message.back
            and around.distance(issuer, target) <= self.window
        ]
        if target != self.me:
            found += around.way(self.me, target)[-1 - self.window : -1]
        return found
