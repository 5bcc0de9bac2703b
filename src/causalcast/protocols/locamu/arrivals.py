"""Which messages are here, recognised by any number; which copies that waited to look at again."""

from causalcast.core.ids import NodeId
from causalcast.parts.tree.neighbourhood import Pair
from causalcast.protocols.locamu.arrived_copy import Arrived
from causalcast.protocols.locamu.node_state import NodeState
from causalcast.protocols.locamu.safe_path import Numbers


class Arrivals:
    """The numbers that arrive here, and the held copies that they concern."""

    def __init__(self, state: NodeState) -> None:
        self._me = state.me
        self._around = state.around
        self._past = state.past
        self._log = state.log
        self._holdback = state.holdback
        self._departures = state.departures
        self._woken: list[Pair] = []  # held copies to look at again

    def is_known(self, copy: Arrived) -> bool:
        """Whether this is a further copy of a message that was processed here."""
        # Alg. 1, l. 38.
        if self._log.find(copy.stamps()) is not None:
            return True
        return self._past.has_arrived(copy.source, copy.number) or any(
            self._me in vector and self._past.has_arrived(issuer, vector[self._me])
            for issuer, vector in copy.numbers.items()
        )

    def is_too_late(self, copy: Arrived) -> bool:
        """Whether what came after a new copy may have been delivered: a node is given up by way of
        which it came, and nobody was to bring it any more."""
        given_up = self._departures.given_up
        if not given_up:
            return False
        across = self._around.between(self._me, copy.source) if copy.is_handed_on() else []
        return (
            any(peer in given_up for peer in (copy.origin, *across))
            and not self.is_known(copy)
            and not any(self._holdback.carrying(stamp) for stamp in copy.stamps())
            and not self._departures.expects(copy.source, copy.number)
            and not any(
                self._departures.expects(issuer, row[self._me])
                for issuer, row in copy.numbers.items()
                if self._me in row
            )
        )

    def take_numbers(self, numbers: Numbers) -> dict[NodeId, int]:
        """Count the message with these numbers as arrived; returns the numbers for this node that
        are new."""
        # Alg. 1, l. 16-17: R is a set for each issuer, of numbers for this node alone.
        arrived: dict[NodeId, int] = {}
        for issuer, vector in numbers.items():
            number = vector.get(self._me)
            if number is not None and self._past.arrive(issuer, number):
                arrived[issuer] = number
                self._woken += self._holdback.waiting_for(issuer, number)
        return arrived

    def wake_duplicates(self, numbers: Numbers) -> None:
        """Look again at copies with one of these numbers: their message is here now."""
        if not self._holdback.copies:
            return
        for issuer, vector in numbers.items():
            for node, number in vector.items():
                self._woken += self._holdback.carrying((issuer, node, number))

    def take_woken(self) -> list[Pair]:
        """The held copies to look at again; they are handed out once."""
        woken, self._woken = self._woken, []
        return woken
