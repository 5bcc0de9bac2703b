"""Every line of the table in docs/security.md names tests that show it, and they are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(test_\w+\.py)::(test_\w+)`")


def rows() -> list[list[str]]:
    page = (ROOT / "docs/security.md").read_text()
    section = page.partition("## Who is trusted for what")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_everybody_is_in_the_table() -> None:
    who = [row[0] for row in rows() if row[0]]
    assert who == ["outsider", "observer", "member", "relay", "authority", "operator"]
    assert {row[1] for row in rows()} == {"can", "cannot"}


def test_every_line_names_tests_that_there_are() -> None:
    files = {path.name: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    for row in rows():
        named = NAMED.findall(row[3])
        assert named, f"no test shows: {row[2]}"
        for file, test in named:
            assert f"def {test}(" in files.get(file, ""), f"{file}::{test}"
