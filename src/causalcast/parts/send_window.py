"""How many datagrams may be under way: more while they arrive, fewer when some are lost.

Slow start and additive increase as in TCP (Jacobson 1988), a gentler decrease (as CUBIC, RFC 9438),
and a floor: on a way that loses a share of all datagrams at random, fewer under way lose the same
share and only cost time.
"""

from typing import Final, final

FIRST: Final = 10  # datagrams, RFC 6928
FLOOR: Final = 8
DECREASE: Final = 0.7


@final
class SendWindow:
    """The window towards one peer; as wide as it can be where it does not adapt."""

    def __init__(self, widest: int, adapts: bool) -> None:
        self.widest = widest
        self.adapts = adapts
        self.allowed = float(min(FIRST, widest)) if adapts else float(widest)
        self._threshold = float(widest)
        self._recovered_at = -1  # a number: what was sent up to there says nothing new

    def arrived(self, count: int) -> None:
        """So many more arrived."""
        if not self.adapts:
            return
        if self.allowed < self._threshold:
            self.allowed = min(float(self.widest), self.allowed + count)
        else:
            self.allowed = min(float(self.widest), self.allowed + count / self.allowed)

    def lost(self, number: int, last_number: int) -> None:
        """Datagram `number` seems to be lost, `last_number` was sent last."""
        if self.adapts and number > self._recovered_at:
            self._recovered_at = last_number
            self.allowed = max(float(min(FLOOR, self.widest)), self.allowed * DECREASE)
            self._threshold = self.allowed
