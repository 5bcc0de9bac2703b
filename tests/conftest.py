"""What tests of several folders share: one Spark session, the compiled package, options."""

import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def spark() -> Any:
    """One session for all tests of a worker: starting it costs more than most tests."""
    from causalcast.pipeline.spark.session import make_session

    return make_session("local[2]", brief=True)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH with what the compiled wheel of the present sources installs."""
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
            _build_wheel(folder / "wheel")
            (wheel,) = (folder / "wheel").glob("*.whl")
            shutil.unpack_archive(wheel, folder / "unpacked", "zip")
            (folder / "unpacked").rename(folder / "compiled")
    return folder / "compiled"


def _build_wheel(folder: Path) -> None:
    """As `make wheel` does; object files of an earlier build are used again."""
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    environment = dict(os.environ, CAUSALCAST_COMPILE="1")
    environment.pop("CAUSALCAST_PURE", None)
    done = subprocess.run(
        [*command, "--quiet", "--wheel-dir", str(folder), str(ROOT)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of several shares leave one: by their names, so that new tests move no others."""
    share = config.getoption("--share")
    if not share:
        return
    which, _, of = share.partition("/")
    if not (which.isdecimal() and of.isdecimal() and 1 <= int(which) <= int(of)):
        raise pytest.UsageError(f"--share {share}: expected K/N with K from 1 to N, such as 1/2")
    mine = [item for item in items if crc32(item.nodeid.encode()) % int(of) == int(which) - 1]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(mine)])
    items[:] = mine


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--share", default="", help="of these tests only the Kth of N shares: K/N")
    parser.addoption(
        "--rewrite", action="store_true", help="write transcripts down as they happen now"
    )
