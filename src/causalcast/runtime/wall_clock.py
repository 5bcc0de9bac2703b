"""The time of day, as this machine's clock has it.

It stands in traces and decides nothing: a clock that is wrong or jumps breaks no order. `shift_us`
makes it wrong on purpose, to show that.
"""

from datetime import UTC, datetime

shift_us = 0


def now_us() -> int:
    """Microseconds since 1970."""
    return int(datetime.now(UTC).timestamp() * 1_000_000) + shift_us
