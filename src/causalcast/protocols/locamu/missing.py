"""Which causes of a copy are missing here, and which of them to ask for.

A copy depends on numbers that nodes near by gave; those that were given for this node must have
arrived before it is processed. What is missing for long is asked for, and so is what others say
should be here.
"""

from typing import Final

from causalcast.core.ids import NodeId
from causalcast.limits import Limit
from causalcast.parts.tree.neighbourhood import Pair
from causalcast.protocols.locamu.arrived_copy import Arrived
from causalcast.protocols.locamu.messages import key_of
from causalcast.protocols.locamu.names import KnownNames
from causalcast.protocols.locamu.node_state import NodeState

MOST_WANTED: Final = Limit(
    "protocols.locamu.missing.most_wanted",
    100,
    least=1,
    most=1 << 16,
    unit="numbers",
    about="numbers asked for in one message; the rest is asked for later",
)


class Missing:
    """Looks for missing numbers; remembers those that others asked after."""

    def __init__(self, state: NodeState, names: KnownNames) -> None:
        self._me = state.me
        self._peers = state.peers
        self._past = state.past
        self._holdback = state.holdback
        self._departures = state.departures
        self._names = names
        self.probed: dict[NodeId, dict[int, None]] = {}  # what others say should be here

    def first_for(self, copy: Arrived) -> Pair | None:
        """The first number given for this node that the copy depends on and that is missing."""
        return self._one_for(copy, False)

    def last_for(self, copy: Arrived) -> Pair | None:
        """The last such number of the same issuer: to wait for.

        Numbers arrive almost in order. If everything that waits for an issuer waited for its first
        missing number, all of it would be looked at again whenever one arrives.
        """
        return self._one_for(copy, True)

    def _one_for(self, copy: Arrived, last: bool) -> Pair | None:
        """Among a copy's dependencies are the numbers the message itself was given on its way."""
        # Alg. 1, l. 33, which lets a message wait for itself.
        for issuer, to in self._needs_here(copy):
            own = self._own_number(copy, issuer)
            if issuer in self._departures.given_up:
                number = self._first_held(issuer, to, own)
            elif last:
                number = self._past.last_missing(issuer, to, own)
            else:
                number = self._past.first_missing(issuer, to, own)
            if number > 0:
                return issuer, NodeId(number)
        return None

    def _own_number(self, copy: Arrived, issuer: NodeId) -> int:
        """What an issuer numbered this very message for this node, or 0."""
        if issuer in copy.numbers and self._me in copy.numbers[issuer]:
            return copy.numbers[issuer][self._me]
        if not self._names.mine:
            return 0
        return self._names.own_number(key_of(copy.message), issuer)

    def _first_held(self, issuer: NodeId, to: int, own: int) -> int:
        """Of a node that is gone only what is here already, and held, is waited for."""
        for number in self._past.arrived[issuer].missing(to, own):
            held = self._holdback.carrying((issuer, self._me, number))
            if held or self._departures.expects(issuer, number):
                return number
        return 0

    def _needs_here(self, copy: Arrived) -> list[tuple[NodeId, int]]:
        """What a copy depends on of the numbers given for this node: issuers, and up to which."""
        needs = [
            (issuer, copy.needs[issuer, self._me])
            for issuer in self._peers.reachable
            if (issuer, self._me) in copy.needs
        ]
        needs += [
            (node, row[self._me]) for node, row in copy.inquiry.answers.items() if self._me in row
        ]
        return needs

    def take_probe(self, sender: NodeId, number: int) -> None:
        """A node asks whether a message arrived that did not: ask for it soon."""
        if not self._holdback.has(sender, number):
            self.probed.setdefault(sender, {})[number] = None

    def to_ask_for(self, now: int, after: int) -> dict[NodeId, list[int]]:
        """Numbers that copies have waited for so long, or that others say should be here."""
        needed: dict[NodeId, int] = {}
        for copy in self._holdback.copies.values():
            if now - copy.since < after:
                continue
            for issuer, to in self._needs_here(copy):
                own = self._own_number(copy, issuer)
                needed[issuer] = max(needed.get(issuer, 0), to - 1 if own == to else to)
        wanted: dict[NodeId, dict[int, None]] = {}
        for issuer, to in needed.items():
            arrived = self._past.arrived[issuer]
            # What it sent already is held: it would send the same again.
            wanted[issuer] = {
                number: None
                for number in arrived.missing(min(to, arrived.count + 1 + MOST_WANTED.value), 0)
                if not self._holdback.has(issuer, number)
            }
        for issuer, numbers in self.probed.items():
            missing = [n for n in numbers if not self._past.has_arrived(issuer, n)]
            wanted.setdefault(issuer, {}).update(dict.fromkeys(missing))
        self.probed = {}
        most = MOST_WANTED.value
        return {node: list(numbers)[:most] for node, numbers in wanted.items() if numbers}
