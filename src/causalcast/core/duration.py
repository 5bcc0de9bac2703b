"""Time is an int of microseconds. Floats drift and cannot be keys of a bucket."""

from typing import Final

MICROSECOND: Final = 1
MILLISECOND: Final = 1_000
SECOND: Final = 1_000_000
