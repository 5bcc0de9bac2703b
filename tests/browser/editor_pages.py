"""The shared editor of the examples, as a process, and its pages in Chromium."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import causalcast

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "shared_editor"
# Where `npm install yjs y-protocols` was called; tests fetch nothing.
MODULES = Path(os.environ.get("CAUSALCAST_NODE_MODULES", ROOT / "node_modules"))
HAS_YJS = (MODULES / "yjs").is_dir() and (MODULES / "y-protocols").is_dir()
NO_YJS = (
    "there is no yjs: `npm install yjs y-protocols`, and CAUSALCAST_NODE_MODULES says where "
    f"(looked in {MODULES})"
)
SOURCE = {"PYTHONPATH": str(Path(causalcast.__file__).parents[1])}  # installed or not


def free_block(count: int) -> int:
    """The first of so many ports in a row that nobody uses now."""
    for first in range(21_000, 31_000, count):
        try:
            for port in range(first, first + count):
                with socket.socket() as tried:
                    tried.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
    raise AssertionError("no free ports")


class Editor:
    """The example, and what is typed at it."""

    def __init__(self, process: "subprocess.Popen[str]", pages: dict[str, str]) -> None:
        self._process = process
        self.pages = pages  # by person

    def say(self, words: str) -> None:
        """`kill 1`, or `start 1`."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{words}\n")
        self._process.stdin.flush()


@contextmanager
def editor(folder: Path) -> Iterator[Editor]:
    """The example as it runs for people; it must end in good order."""
    command = [sys.executable, str(EXAMPLE / "serve.py"), "--dir", str(folder)]
    command += ["--modules", str(MODULES), "--port", str(free_block(20))]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | SOURCE,
    )
    assert process.stdout is not None and process.stdin is not None
    try:
        lines = [process.stdout.readline().split(": ") for _ in range(3)]
        yield Editor(process, {name: url.strip() for name, url in lines})
    finally:
        process.stdin.close()
        said = process.stdout.read()
        assert process.wait(60) == 0, said


def opened(browser: Any, url: str, patience: int) -> Any:
    """A window of its own, which has the text."""
    page = browser.new_context(viewport={"width": 760, "height": 420}).new_page()
    page.set_default_timeout(patience)
    page.goto(url)
    page.wait_for_function("window.page !== undefined")
    return page
