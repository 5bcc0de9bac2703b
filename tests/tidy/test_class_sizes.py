"""A class is small enough to be read at once, or says why it is not.

At most 300 lines, and 20 attributes that its methods set. One that is larger says so in its
docstring: "Large because …". Asked of every room.
"""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent.parent / "src" / "causalcast"
ROOMS = sorted(
    path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"
)
MOST_LINES = 300
MOST_ATTRIBUTES = 20
REASON = "Large because"


def attributes(of: ast.ClassDef) -> set[str]:
    """What methods of a class set on `self`."""
    return {
        node.attr
        for node in ast.walk(of)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def too_large(source: str) -> list[str]:
    """The classes that are too large and do not say why."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef) and REASON not in (ast.get_docstring(node) or ""):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            count = len(attributes(node))
            if lines > MOST_LINES or count > MOST_ATTRIBUTES:
                found.append(f"{node.name}: {lines} lines, {count} attributes")
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_classes_can_be_read_at_once(room: str) -> None:
    place = SOURCE / room
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    assert files
    for path in files:
        assert not too_large(path.read_text()), path


def test_a_large_class_is_noticed_unless_it_says_why() -> None:
    long = "class Long:\n" + "    x = 1\n" * MOST_LINES
    fields = "".join(f"        self.a{n} = 0\n" for n in range(MOST_ATTRIBUTES + 1))
    wide = f"class Wide:\n    def __init__(self):\n{fields}"
    said = wide.replace("class Wide:\n", f'class Wide:\n    """{REASON} it is."""\n')
    assert [found.split(":")[0] for found in too_large(long + wide)] == ["Long", "Wide"]
    assert not too_large(said)
