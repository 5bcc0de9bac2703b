"""What a release is made of: the sdist is whole, and the README works where only it is shown."""

import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
FOLDERS = ("benchmarks", "deploy", "docs", "examples", "scenarios", "scripts", "src", "tests")


@pytest.mark.slow
def test_the_sdist_has_everything_that_the_repository_has(tmp_path: Path) -> None:
    script = "import sys, build_backend; build_backend.build_sdist(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, check=True, capture_output=True
    )
    (archive,) = tmp_path.glob("causalcast-*.tar.gz")
    with tarfile.open(archive) as opened:
        there = {name.partition("/")[2] for name in opened.getnames()}
        (information,) = (n for n in opened.getnames() if n.count("/") == 1 and "PKG-INFO" in n)
        member = opened.extractfile(information)
        assert member is not None
        readme = member.read().decode()
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            is_ours = path.is_file() and "__pycache__" not in path.parts
            if is_ours and ".egg-info" not in str(path) and not path.name.startswith("."):
                assert str(path.relative_to(ROOT)) in there
    links = re.findall(r"\]\(([^)\s]+)\)", readme)
    assert len(links) > 10
    assert all(link.startswith(("https://", "#")) for link in links), links
