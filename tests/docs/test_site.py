"""The documentation site is built strictly, needs nobody else, and has what it refers to."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from doc_blocks import ROOT

from causalcast.cli.commands import COMMANDS
from causalcast.registry import detector_names, overlay_names, protocol_names

SCRIPT = ROOT / "scripts" / "docs_site.py"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What MkDocs reads."""
    build = tmp_path_factory.mktemp("source")
    subprocess.run([sys.executable, SCRIPT, "--build", build, "--only-source"], check=True)
    return build / "site_source"


def test_references_have_every_command_and_every_option(source: Path) -> None:
    commands = (source / "reference" / "commands.md").read_text()
    assert {name for name in COMMANDS if f"\n### {name}\n" not in commands} == set()
    assert "usage: causalcast dashboard" in commands and "#### keys node" in commands
    options = (source / "reference" / "options.md").read_text()
    names = [*protocol_names(), *overlay_names(), *detector_names()]
    assert {name for name in names if f"\n### {name}\n" not in options} == set()
    assert "| `repeat_after` | `250 ms` |" in options
    api = (source / "reference" / "api.md").read_text()
    for name in ("Node", "open", "simulate", "verify", "ProtocolSpec", "Cluster"):
        assert f"\n### {name}\n" in api


def test_every_page_is_in_the_navigation(source: Path) -> None:
    listed = set(re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    there = {str(path.relative_to(source)) for path in source.rglob("*.md")}
    assert listed == there


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("material") is None, reason="mkdocs-material is not installed"
)
def test_it_is_built_strictly_and_asks_nobody(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "--build", tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    site = tmp_path / "site"
    for path in site.rglob("*.html"):
        text = path.read_text()
        scripts = re.findall(r'<script[^>]*src="?(https?://[^">]+)', text)
        styles = re.findall(r'<link[^>]*rel="?stylesheet"?[^>]*href="?(https?://[^">]+)', text)
        loaded = scripts + styles
        assert loaded == [], path
    assert (site / "search" / "search_index.js").exists()  # found without a server
    assert "vector_clock_broadcast" in (site / "choosing.html").read_text()


@pytest.mark.slow
def test_the_table_of_protocols_is_measured() -> None:
    script = ROOT / "scripts" / "choosing_table.py"
    assert subprocess.run([sys.executable, script, "--check"], check=False).returncode == 0


@pytest.mark.parametrize("name", ["locamu_pictures.py", "errata_pictures.py"])
def test_the_pictures_are_those_of_the_schedules(name: str) -> None:
    script = ROOT / "scripts" / name
    assert subprocess.run([sys.executable, script, "--check"], check=False).returncode == 0
