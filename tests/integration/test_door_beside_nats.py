"""The benchmark of the door beside NATS runs, and counts what it should."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HAS_NATS = bool(
    shutil.which("nats-server") or (Path(sys.executable).parent / "nats-server").exists()
)


@pytest.mark.slow
def test_it_measures_all_that_it_says() -> None:
    script = str(ROOT / "benchmarks" / "door_beside_nats.py")
    little = ["--clients", "1", "2", "--idle", "20", "--seconds", "0.3", "--rounds", "1"]
    done = subprocess.run(
        [sys.executable, script, *little], capture_output=True, text=True, check=True
    )
    medians = json.loads(done.stdout)["medians"]
    assert set(medians) == ({"causalcast", "NATS"} if HAS_NATS else {"causalcast"})
    assert HAS_NATS or "there is no nats-server" in done.stderr
    for found in medians.values():
        assert set(found) == {"idle", "rate 1", "latency 1", "rate 2", "latency 2"}
        assert found["rate 2"]["delivered"] == pytest.approx(2 * found["rate 2"]["published"], 0.01)
        assert 0 < found["latency 1"]["p50"] <= found["latency 1"]["p99"]
