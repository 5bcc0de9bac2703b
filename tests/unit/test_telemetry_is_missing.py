"""Without `opentelemetry-api` the adapter says what to install, and nothing else needs it."""

import subprocess
import sys


def test_it_says_what_to_install() -> None:
    program = """
import sys
sys.modules["opentelemetry"] = None
import causalcast
causalcast.open, causalcast.connect
from causalcast.errors import MissingDependency
try:
    import causalcast.telemetry
except MissingDependency as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "pip install 'causalcast[telemetry]'" in done.stdout
