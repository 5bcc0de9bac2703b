"""Links and file names in the documents lead somewhere, and lines fit the page."""

import re
from pathlib import Path

import pytest
from doc_blocks import DOCUMENTS, ROOT, blocks_of

_LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
_CODE = re.compile(r"`(?P<code>[^`\n]+)`")
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (?P<title>.+)$", re.MULTILINE)
# What looks like a path of this repository: a known folder or an ending of ours.
_PATH = re.compile(
    r"(src|tests|docs|examples|scenarios|benchmarks|newsfragments)/[\w./-]*\w"
    r"|(core|parts|detectors|overlays|protocols|wire|trace|judge|simulator|runtime|pipeline|swarm"
    r"|testing|cli)/[\w./-]*\.py"
)
_PACKAGE = ROOT / "src" / "causalcast"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_relative_links(document: str) -> None:
    text = _FENCED.sub("", (ROOT / document).read_text())
    for found in _LINK.finditer(text):
        target, _, anchor = found["target"].partition("#")
        if "://" in target:
            continue
        path = (ROOT / document).parent / target if target else ROOT / document
        assert path.exists(), f"{document}: {found['target']} leads nowhere"
        if anchor:
            assert anchor in anchors_of(path), f"{document}: no heading #{anchor} in {path.name}"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_file_names(document: str) -> None:
    text = _FENCED.sub("", (ROOT / document).read_text())
    for found in _CODE.finditer(text):
        name = found["code"]
        if not _PATH.fullmatch(name):
            continue
        places = [ROOT / name, _PACKAGE / name]
        assert any(place.exists() for place in places), f"{document}: there is no {name}"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_blocks_are_marked(document: str) -> None:
    """A mark that no test knows would be a command that no test runs."""
    known = {"sh", "sh run", "python", "python run", "text", "text output", "toml", "json"}
    for block in blocks_of(document):
        assert block.mark in known, f"{block.where}: {block.mark!r} is none of {sorted(known)}"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_lines_fit(document: str) -> None:
    for number, line in enumerate((ROOT / document).read_text().splitlines(), 1):
        is_table = line.lstrip().startswith("|")
        assert is_table or len(line) <= 100, f"{document}:{number}: {len(line)} columns"


def test_every_module_is_in_the_architecture() -> None:
    """The tree of ARCHITECTURE.md names every file there is, and none that is not."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    for path in sorted(_PACKAGE.rglob("*.py")):
        if path.name != "__init__.py":
            assert re.search(rf"\b{re.escape(path.name)}\b", text), f"{path} is missing in the tree"


def anchors_of(path: Path) -> set[str]:
    """The headings of a document as GitHub links to them."""
    titles = (found["title"] for found in _HEADING.finditer(path.read_text()))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
