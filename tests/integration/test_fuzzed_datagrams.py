"""A short run of the fuzzer; `tests/integration/fuzz_datagrams.py` says how to make it long."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("atheris", reason="no fuzzer on this platform")
FUZZER = Path(__file__).with_name("fuzz_datagrams.py")
SOURCE = Path(__file__).parents[2] / "src"


@pytest.mark.slow
def test_ten_thousand_inputs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(FUZZER), "-runs=10000", "-seed=1", "-max_len=400"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    raised = done.stderr.partition("Uncaught Python exception")[2]
    assert done.returncode == 0, raised or done.stderr[-3000:]
    assert "Done 10000" in done.stderr
