"""How long to wait for an acknowledgement: by the message's size, then by what was measured.

The first timeout comes from the size of the message alone; from the first sample on it follows the
smoothed round trip and its variation (Jacobson and Karels 1988, the constants of RFC 6298). Only
messages that were sent once give samples: the acknowledgement of a message that was repeated does
not say which copy it answers.
"""

from typing import Final, final

from causalcast.core.duration import MILLISECOND, SECOND
from causalcast.limits import Limit

# Before anything is measured: RFC 6298 says one second; the links of the report are local ones.
FIRST_TIMEOUT: Final = Limit(
    "datagrams.round_trip.first_timeout",
    300 * MILLISECOND,
    least=10 * MILLISECOND,
    most=10 * SECOND,
    unit="us",
    about="the wait for an acknowledgement before anything was measured",
)
PER_BYTE: Final = 8  # microseconds: a line of one megabit per second
LONGEST_TIMEOUT: Final = Limit(
    "datagrams.round_trip.longest_timeout",
    60 * SECOND,
    least=1 * SECOND,
    most=600 * SECOND,
    unit="us",
    about="the longest such wait",
)


@final
class RoundTrip:
    """The estimate for one peer."""

    def __init__(self, shortest_timeout: int, per_byte: int = PER_BYTE) -> None:
        self.shortest_timeout = shortest_timeout
        self.per_byte = per_byte
        self.smoothed = 0  # microseconds; 0 before the first sample
        self.variation = 0

    def sample(self, took: int) -> None:
        """An acknowledgement came `took` microseconds after the only copy had left."""
        if self.smoothed == 0:
            self.smoothed = max(1, took)
            self.variation = took // 2
            return
        self.variation = (3 * self.variation + abs(self.smoothed - took)) // 4
        self.smoothed = max(1, (7 * self.smoothed + took) // 8)

    def first_timeout(self, size: int) -> int:
        """How long to wait after the first copy of a message of `size` bytes."""
        travel = size * self.per_byte
        if self.smoothed == 0:
            return max(FIRST_TIMEOUT.value, self.shortest_timeout) + travel
        return max(self.shortest_timeout, self.smoothed + 4 * self.variation) + travel


def next_timeout(timeout: int) -> int:
    """How long to wait after a further copy: twice as long."""
    return min(2 * timeout, LONGEST_TIMEOUT.value)


def give_up_after(first_timeout: int, retransmissions: int) -> int:
    """Microseconds from the first copy until a peer that never answers counts as failed."""
    total, timeout = 0, first_timeout
    for _ in range(retransmissions + 1):
        total += timeout
        timeout = next_timeout(timeout)
    return total
