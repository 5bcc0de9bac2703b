"""docs/recipes.md says how many lines of code each recipe has."""

import ast
import io
import re
import tokenize
from pathlib import Path

from doc_blocks import ROOT

PAGE = ROOT / "docs" / "recipes.md"
ROW = re.compile(r"^\| \[`[^`]+`\]\(\.\./(?P<path>[^)]+)\) \|.*\| (?P<lines>\d+) \|$", re.MULTILINE)


def python_lines(text: str) -> int:
    """Lines with code; docstrings and comments are none."""
    passed = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in passed | {tokenize.ENDMARKER}:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and (
            ast.get_docstring(node) is not None
        ):
            said = node.body[0]
            lines -= set(range(said.lineno, (said.end_lineno or said.lineno) + 1))
    return len(lines)


def lines_of(path: Path) -> int:
    """Of a file, or of a folder of them."""
    if path.name == "README.md":
        return sum(lines_of(one) for one in path.parent.iterdir() if one.suffix in (".py", ".html"))
    if path.suffix == ".py":
        return python_lines(path.read_text())
    lines = (line.strip() for line in path.read_text().splitlines())
    return sum(1 for line in lines if line and not line.startswith(("#", "//")))


def test_lines_of_recipes_are_those_of_the_page() -> None:
    found = {row["path"]: int(row["lines"]) for row in ROW.finditer(PAGE.read_text())}
    there = {path: lines_of(ROOT / path) for path in found}
    assert found == there
    recipes = {f"examples/recipes/{path.name}" for path in (ROOT / "examples/recipes").glob("*.py")}
    assert recipes <= set(found), "a recipe is missing on the page"


def test_what_is_no_code_is_not_counted() -> None:
    text = (
        '"""A\nmodule."""\n\n# why\nx = [\n    1,\n]\n\n\ndef f():\n    """Says."""\n    return 1\n'
    )
    assert python_lines(text) == 5
