"""The fenced blocks of a document, and the marks that say what a test does with them.

    ```sh run            run the block in bash; a command that fails ends it
    ```python run        run the block as a program of its own
    ```text output       the block before printed these lines, in this order; … stands for anything

A command that is to fail says so on its own line: `causalcast verify RUN  # exit code 1`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")),
]
_FENCE = re.compile(r"^```(?P<mark>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_EXIT_CODE = re.compile(r"^(?P<command>.*?)\s+# exit code (?P<code>\d+)$")


@dataclass
class Block:
    """One fenced block."""

    mark: str
    text: str
    where: str  # document and line

    @property
    def is_run(self) -> bool:
        """Whether a test runs it."""
        return self.mark in ("sh run", "python run")


def blocks_of(document: str) -> Iterator[Block]:
    """All fenced blocks of a document, in order."""
    text = (ROOT / document).read_text()
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(found["mark"].strip(), found["text"], f"{document}:{line}")


def script_of(block: Block) -> str:
    """The block as a bash script that fails where a command has another exit code than it says."""
    lines = ["set -euo pipefail", "trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT"]
    for line in block.text.replace("\\\n", "").splitlines():
        expected = _EXIT_CODE.match(line)
        if expected is None:
            lines.append(line)
        else:
            lines += [
                "code=0",
                f"{expected['command']} || code=$?",
                f'[ "$code" = {expected["code"]} ] || {{ echo "exit code $code"; exit 99; }}',
            ]
    return "\n".join(lines) + "\n"


def missing_line(shown: str, printed: str) -> str | None:
    """The first line of `shown` that does not occur in `printed` behind the ones before it."""
    rest = iter(_words(line) for line in printed.splitlines())
    for line in filter(None, map(_words, shown.splitlines())):
        if line != "…" and not any(found == line for found in rest):
            return line
    return None


def _words(line: str) -> str:
    """Blanks at the ends and the width of columns do not count."""
    return " ".join(line.split())
