"""Every command of the documents is run, in order, as a reader would type it.

Each document has a working folder of its own with the scenarios and the examples in it. Blocks that
are marked as runnable (see `doc_blocks`) run there; what the document shows as their output must
have been printed.
"""

import importlib.metadata
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from doc_blocks import DOCUMENTS, ROOT, Block, blocks_of, missing_line, script_of

TIMEOUT = 240  # seconds per block; each takes a few, Spark's first start the longest
SHIMS = {"causalcast": "-m causalcast", "pytest": "-m pytest", "python": ""}

RUNNABLE = [name for name in DOCUMENTS if any(block.is_run for block in blocks_of(name))]


# The README is what everybody types first: it is run whenever tests are.
@pytest.mark.parametrize(
    "document",
    [
        pytest.param(name, marks=[] if name == "README.md" else [pytest.mark.slow])
        for name in RUNNABLE
    ],
)
def test_commands(document: str, tmp_path: Path) -> None:
    environment = prepare(tmp_path)
    printed = ""
    for block in blocks_of(document):
        if block.is_run:
            printed = run(block, tmp_path / "work", environment)
        elif block.mark == "text output":
            missing = missing_line(block.text, printed)
            assert missing is None, f"{block.where}: {missing!r} was not printed:\n{printed}"


def test_there_is_something_to_run() -> None:
    assert {"README.md", "CONTRIBUTING.md", "docs/guide.md", "docs/formats.md"} <= set(RUNNABLE)


def prepare(folder: Path) -> dict[str, str]:
    """A working folder like a clone of the repository, and this Python's commands in front."""
    work, commands = folder / "work", folder / "bin"
    for name in ("scenarios", "examples", "tests/mutants", "tests/rediscover"):
        shutil.copytree(ROOT / name, work / name, ignore=shutil.ignore_patterns("__pycache__"))
    commands.mkdir()
    for name, arguments in SHIMS.items():
        command = commands / name
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        command.chmod(0o755)
    environment = dict(os.environ)
    environment["PATH"] = f"{commands}{os.pathsep}{environment['PATH']}"
    paths = [str(ROOT / "src"), *filter(None, [environment.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    environment["COLUMNS"] = "100"
    if not importlib.metadata.entry_points(group="pytest11", name="causalcast"):
        environment["PYTEST_PLUGINS"] = "causalcast.testing.pytest_plugin"  # not installed yet
    return environment


def run(block: Block, folder: Path, environment: dict[str, str]) -> str:
    """Run a block; what it printed comes back, and the test fails with that if it failed."""
    if block.mark == "sh run":
        command = ["bash", "-c", script_of(block)]
    else:
        command = [sys.executable, "-c", block.text]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)  # `up` stops its nodes when it is told to
        printed, _ = process.communicate(timeout=30)
        pytest.fail(f"{block.where}: took more than {TIMEOUT} s:\n{block.text}\n{printed}")
    if process.returncode != 0:
        pytest.fail(f"{block.where}: failed ({process.returncode}):\n{block.text}\n{printed}")
    return printed
