"""How long something took, counted in classes: cheap to add to, and what Prometheus reads."""

import bisect
from typing import Final, final

# Microseconds; three to a power of ten.
BOUNDS: Final = [
    *(100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000),
    *(1_000_000, 2_000_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000, 300_000_000),
]


@final
class Histogram:
    """Counts by class, the last one of all that took longer, and the sum of all."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.sum_us = 0

    def observe(self, took_us: int, times: int = 1) -> None:
        """It took so long, so many times."""
        self.counts[bisect.bisect_left(BOUNDS, took_us)] += times
        self.sum_us += took_us * times

    def as_numbers(self) -> dict[str, object]:
        """What was counted: upper bounds in seconds with the counts up to them, all, and the sum in
        seconds."""
        so_far, below = 0, []
        for bound, count in zip(BOUNDS, self.counts, strict=False):
            so_far += count
            below.append([bound / 1e6, so_far])
        return {"below": below, "count": sum(self.counts), "sum": self.sum_us / 1e6}
