"""Builds the package: compiled where a C compiler is at hand, in pure Python otherwise.

`pip wheel .` and `pip install .` come here. `CAUSALCAST_PURE=1` asks for the pure wheel. An
editable install is always pure, so that a changed source file is what runs. The sdist is the same
either way.
"""

import os
import shlex
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (  # noqa: F401 - the hooks that need nothing of ours
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

# mypyc, and what it must see the types of: without them the compiled code would guess.
COMPILING_NEEDS = ["mypy[mypyc]>=1.15", "cryptography>=43", "msgspec>=0.19"]


def why_not_compiled() -> str:
    """Why a wheel is built in pure Python; empty if it is compiled."""
    if os.environ.get("CAUSALCAST_PURE") == "1":
        return "CAUSALCAST_PURE=1 asks for it"
    if os.environ.get("CAUSALCAST_COMPILE") == "1":
        return ""
    if sys.implementation.name != "cpython" or os.name != "posix":
        return f"mypyc is not tried on {sys.implementation.name}, {os.name}"
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(compiler) is None:
        return f"there is no C compiler ({compiler})"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "there is no Python.h (on Debian: apt install python3-dev)"
    return ""


def get_requires_for_build_wheel(settings: Any = None) -> list[str]:
    """What is installed beside setuptools while a wheel is built."""
    return [] if why_not_compiled() else COMPILING_NEEDS


def build_wheel(directory: str, settings: Any = None, metadata: str | None = None) -> str:
    """Build the wheel, and say which of the two it is."""
    reason = why_not_compiled()
    os.environ["CAUSALCAST_COMPILE"] = "0" if reason else "1"
    print(f"causalcast: a pure wheel, since {reason}" if reason else "causalcast: a compiled wheel")
    return build_meta.build_wheel(directory, settings, metadata)
