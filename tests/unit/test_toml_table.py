"""What is wrong in a TOML file is named with its line."""

import pytest

from causalcast.errors import ConfigError
from causalcast.toml_table import Table

TEXT = """
top = 1

[node]
id = 3                    # a comment with id = 4
"quoted" = "x"
[cluster.peers]           # another comment
1 = "one"

[[fault]]
kind = "cut"
[[fault]]
kind = "heal"
inline = { deep = 1 }
"""


def wrong(*path: str) -> str:
    table = Table.parse(TEXT, "file.toml")
    for name in path[:-1]:
        table = table.table(name)
    return str(table.wrong(path[-1], 0, "x"))


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("top",), 2),
        (("node", "id"), 5),
        (("node", "quoted"), 6),
        (("node", "absent"), 4),
        (("cluster", "peers", "1"), 8),
    ],
)
def test_a_wrong_value_is_told_with_its_line(path: tuple[str, ...], line: int) -> None:
    assert wrong(*path).startswith(f"file.toml:{line}: {'.'.join(path)} = 0: expected")


def test_tables_of_a_list_are_told_apart() -> None:
    first, second = Table.parse(TEXT, "file.toml").tables("fault")
    assert str(first.wrong("kind", 0, "x")).startswith("file.toml:11: fault[0].kind")
    assert str(second.wrong("kind", 0, "x")).startswith("file.toml:13: fault[1].kind")
    inner = second.table("inline")
    assert str(inner.wrong("deep", 1, "x")).startswith("file.toml:14: fault[1].inline.deep")


def test_unknown_and_missing_keys_have_lines_too() -> None:
    table = Table.parse(TEXT, "file.toml")
    node = table.table("node")
    with pytest.raises(ConfigError, match=r"^file\.toml:4: key 'node\.name' is missing$"):
        node.text("name")
    node.text("quoted")
    with pytest.raises(ConfigError, match=r"^file\.toml:5: unknown key 'node\.id'; known: "):
        node.finish()
    with pytest.raises(ConfigError, match=r"^file\.toml: key 'absent' is missing$"):
        table.text("absent")
