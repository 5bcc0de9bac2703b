"""A protocol reads like its paper: each handler says which lines it is, or that it is our own.

A handler is what a protocol or one of its parts does when something happens: `on_…` or `_on_…`. Its
docstring, or the comment at its beginning, names the algorithm and lines, the section or the figure
it follows, or says "not in the paper" and why.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PROTOCOLS = Path(__file__).parent.parent.parent / "src" / "causalcast" / "protocols"
# The folder or file of each protocol of which this is asked.
FOLLOW_A_PAPER = [
    "causal_barriers",
    "cbcast",
    "compaction_multicast",
    "compaction_pairwise",
    "cptcast",
    "first_generation",
    "naive_causal",
    "plumtree",
    "prc_broadcast",
    "psync",
    "vector_clock_broadcast",
    "causal_separators",
    "delta_neighbourhood",
    "locamu",
]
REFERENCE = re.compile(
    r"\bAlg\. \d+"  # "Alg. 1, l. 31-35"
    r"|\b[Ss]ections? [IVX\d]"  # "section III-C", "section 3.4"
    r"|\b[Ff]igs?\. \d"
    r"|\b[Nn]ot in the papers?\b"
)
PAPER = re.compile(r'"[^"]+",?\s[^"]*\b(19|20)\d\d\b', re.DOTALL)  # a title, and the year after it


def files_of(protocol: str) -> list[Path]:
    folder = PROTOCOLS / protocol
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [PROTOCOLS / f"{protocol}.py"]


def handlers(source: str) -> Iterator[tuple[str, str]]:
    """The name of each handler, and what it says before it does something."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and re.match("_?on_", node.name):
            body = node.body
            first = body[0]
            if ast.get_docstring(node) is not None:
                first = body[1] if len(body) > 1 else body[0]
            yield node.name, "\n".join(lines[node.lineno - 1 : first.lineno])


@pytest.mark.parametrize("protocol", FOLLOW_A_PAPER)
def test_every_handler_names_its_lines_of_the_paper_or_says_that_there_are_none(
    protocol: str,
) -> None:
    found = 0
    for path in files_of(protocol):
        for name, text in handlers(path.read_text()):
            found += 1
            words = re.sub(r"[\s#]+", " ", text)  # a reference may stand on two lines
            assert REFERENCE.search(words), f"{path.name}: {name} names no line of a paper"
    assert found > 0


@pytest.mark.parametrize("protocol", FOLLOW_A_PAPER)
def test_the_paper_stands_on_top(protocol: str) -> None:
    folder = PROTOCOLS / protocol
    main = folder / "protocol.py" if folder.is_dir() else PROTOCOLS / f"{protocol}.py"
    text = ast.get_docstring(ast.parse(main.read_text())) or ""
    assert PAPER.search(text), f"{main}: no title and year of a paper"


def test_a_handler_that_says_nothing_is_noticed() -> None:
    silent = 'def on_message(self):\n    """A message came."""\n    # Algorithms.\n    pass\n'
    told = 'def _on_copy(self):\n    """A copy came."""\n    # Alg. 1, l. 31-35.\n    pass\n'
    late = "def on_timer(self):\n    self.count += 1\n    # Alg. 1, l. 31-35.\n    pass\n"
    assert not any(REFERENCE.search(text) for _, text in [*handlers(silent), *handlers(late)])
    assert all(REFERENCE.search(text) for _, text in handlers(told))
