"""The fuzz targets are imported by name, also by the program that runs them for long."""

import sys
from pathlib import Path

for folder in ("fuzz", "integration"):
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))
