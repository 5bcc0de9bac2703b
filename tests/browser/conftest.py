"""Tests of pages use the helpers of the tests of what serves them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "dashboard"))
