"""The compiled package, built once for all tests that compare it with the interpreted one."""

import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH with the package compiled by mypyc from the present sources."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    headers = Path(sysconfig.get_path("include"), "Python.h")
    if compiler is None or not headers.exists():
        pytest.skip("there is no C compiler or no Python.h: compiled code is not tested here")
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # all workers share it
    with (folder / "compiled.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "compiled").exists():
            _build(folder / "building")
            (folder / "building" / "lib").rename(folder / "compiled")
    return folder / "compiled"


def _build(folder: Path) -> None:
    command = ["setup.py", "--quiet", "build"]
    command += ["--build-base", str(folder / "base"), "--build-lib", str(folder / "lib")]
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        # It does the same however well it is optimized, and that takes most of the time.
        env=dict(os.environ, CAUSALCAST_COMPILE="1", CAUSALCAST_OPTIMIZE="0"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
