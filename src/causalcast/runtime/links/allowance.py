"""How much of something a peer may send: so many a second, and some at once."""


class Allowance:
    """Grows with time up to `burst`; what was taken beyond it has to be waited for."""

    __slots__ = ("_at", "_burst", "_left", "_per_second")

    def __init__(self, per_second: float, burst: float) -> None:
        self._per_second = per_second
        self._burst = burst
        self._left = burst
        self._at = 0.0

    def take(self, count: int, now: float) -> float:
        """Take `count` at the time `now`; for how many seconds the peer should be silent."""
        self._left = min(self._burst, self._left + (now - self._at) * self._per_second) - count
        self._at = now
        return max(0.0, -self._left / self._per_second)
