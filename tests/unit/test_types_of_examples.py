"""The examples pass `mypy --strict`, and pyright where that is installed.

One that imports what is not installed here is left out, and said so.
"""

import ast
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

# Where `.ci/run` has npm put it, or on the path.
PYRIGHT = shutil.which(
    "pyright", path=f"{os.environ.get('CAUSALCAST_NODE_MODULES', '')}/.bin{os.pathsep}{os.defpath}"
) or shutil.which("pyright")
ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))


def imported(path: Path) -> set[str]:
    """The modules that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package that it is in
        return False


def checkable() -> list[str]:
    """The files all of whose imports are installed."""
    lacking = {path: sorted(m for m in imported(path) if not is_there(m)) for path in EXAMPLES}
    for path, modules in lacking.items():
        if modules:
            warnings.warn(f"{path.name} is not checked: no {', '.join(modules)}", stacklevel=2)
    return [str(path) for path, modules in lacking.items() if not modules]


@pytest.mark.slow
def test_mypy_accepts_the_examples() -> None:
    files = checkable()
    assert len(files) >= 5
    command = [sys.executable, "-m", "mypy", "--strict", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.skipif(PYRIGHT is None, reason="there is no pyright here")
def test_pyright_accepts_the_examples() -> None:
    assert PYRIGHT is not None
    command = [PYRIGHT, "--outputjson", "--pythonpath", sys.executable, *checkable()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    said = json.loads(done.stdout)["generalDiagnostics"]
    assert not [f"{one['file']}: {one['message']}" for one in said if one["severity"] == "error"]


def test_an_example_with_a_wrong_type_is_noticed(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text('import causalcast\n\ncausalcast.connect(1, token=b"x")\n')
    command = [sys.executable, "-m", "mypy", "--strict", str(wrong)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stdout.count("arg-type") == 2, done.stdout
