"""The code itself: what may be imported where, which calls are banned, what must be said."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "causalcast"
BELOW_THE_WORLDS = ("core", "parts", "datagrams", "detectors", "overlays", "protocols")


def modules(*packages: str) -> Iterator[tuple[Path, ast.Module]]:
    for package in packages or (".",):
        for path in sorted((SOURCE / package).rglob("*.py")):
            yield path, ast.parse(path.read_text())


def test_import_contracts_hold() -> None:
    """The layers of ARCHITECTURE.md; the contracts stand in pyproject.toml."""
    command = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_no_global_randomness_below_the_worlds() -> None:
    """Randomness comes from the setup; only the type `random.Random` may be named."""
    for path, tree in modules(*BELOW_THE_WORLDS, "simulator", "swarm"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                named = f"{node.value.id}.{node.attr}"
                assert not named.startswith("random.") or named == "random.Random", (
                    f"{path}: {named}"
                )


def test_every_module_says_what_it_is() -> None:
    for path, tree in modules():
        assert ast.get_docstring(tree), f"{path} has no docstring"


@pytest.mark.parametrize("package", BELOW_THE_WORLDS)
def test_compiled_packages_keep_to_what_mypyc_compiles(package: str) -> None:
    """Class decorators (but final and mypyc_attr) and dataclasses would be interpreted again."""
    for path, tree in modules(package):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                for decorator in node.decorator_list:
                    text = ast.unparse(decorator)
                    assert text == "final" or text.startswith("mypyc_attr"), f"{path}: @{text}"


def test_nothing_is_left_to_do_and_nothing_names_a_machine() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    for path, _ in modules():
        assert not marks.search(path.read_text()), path


def test_pins_name_versions_and_no_host() -> None:
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert line.startswith("#") or re.fullmatch(r"[\w.\-]+==[\w.+]+", line), line


# What an assert may call: it changes nothing, so nothing is missing where asserts are left out.
HARMLESS = {"isinstance", "issubclass", "len", "all", "any", "get", "number_of", "message_id"}


def test_asserts_do_nothing_that_python_without_them_would_leave_out() -> None:
    for path, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Assert):
                for inner in ast.walk(node.test):
                    where = f"{path}:{node.lineno}: {ast.unparse(node.test)}"
                    assert not isinstance(inner, (ast.NamedExpr, ast.Await)), where
                    if isinstance(inner, ast.Call):
                        assert ast.unparse(inner.func).split(".")[-1] in HARMLESS, where


def test_the_test_kit_judges_without_assert_statements() -> None:
    """There an assert tells the type checker something; what is judged is raised."""
    for path, tree in modules("testing"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Assert):
                text = ast.unparse(node.test)
                assert "isinstance(" in text or "is not None" in text, f"{path}: {text}"


def imported_modules(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def test_what_one_protocol_alone_needs_lives_with_it() -> None:
    """A part is reached by two or more protocols, overlays or detectors; else it moves to its own.

    What a part needs counts for whoever reaches that part.
    """
    imports = {
        ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts): imported_modules(tree)
        for path, tree in modules("parts", "protocols", "overlays", "detectors")
        if path.name != "__init__.py"
    }
    owners: dict[str, set[str]] = {name: set() for name in imports if ".parts." in name}
    for name in imports:
        if name not in owners:
            automaton = ".".join(name.split(".")[:3])  # the folder, where it has one
            reached, further = set(), {name}
            while further:
                reached |= further
                further = {m for one in further for m in imports[one] if m in owners} - reached
            for part in reached & owners.keys():
                owners[part].add(automaton)
    alone = {part: sorted(names) for part, names in owners.items() if len(names) < 2}
    assert not alone, alone


def test_questions_are_answered_and_change_nothing_by_their_name() -> None:
    """`is_…` and `has_…` say whether; what changes something is called after what it does."""
    answers = ("bool", "bool | None", "Any", "Column")
    for path, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and (
                node.name.lstrip("_").startswith(("is_", "has_"))
            ):
                returns = ast.unparse(node.returns) if node.returns else "nothing"
                assert returns in answers, f"{path}:{node.lineno}: {node.name} -> {returns}"


def test_runs_are_judged_through_one_entrance() -> None:
    """Who wants a verdict calls `pipeline/verify.py`; nobody puts checks together again."""
    callers = {
        str(path.relative_to(SOURCE))
        for path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("verdict_of")
    }
    assert callers == {"pipeline/verify.py"}
