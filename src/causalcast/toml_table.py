"""Reads TOML strictly: every key is taken once, what is left over is an error.

Errors name the file, the line, the key and what was expected, so that whoever wrote the file can
mend it. `tomllib` keeps no lines: they are looked up in the text, and only said where found.
"""

import difflib
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from causalcast.errors import ConfigError

T = TypeVar("T")

_WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "a table",
}


class Table:
    """One table of a TOML file; keys are taken out until `finish` finds nothing unknown."""

    def __init__(
        self,
        where: str,
        content: dict[str, Any],
        name: str = "",
        lines: dict[str, int] | None = None,
    ) -> None:
        self.where = where  # the file, as people know it
        self._lines = lines or {}  # of keys and tables, by their whole names
        self._content = dict(content)
        self._name = name
        self._known: list[str] = []

    @staticmethod
    def read(path: Path) -> "Table":
        """The whole file as a table."""
        return Table.parse(Table.text_of(path), str(path))

    @staticmethod
    def text_of(path: Path) -> str:
        """The text of a file, or an error that names it."""
        try:
            return path.read_text()
        except FileNotFoundError:
            raise ConfigError(f"{path}: no such file") from None
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: cannot be read ({error})") from None

    @staticmethod
    def parse(text: str, where: str) -> "Table":
        """A text as a table."""
        try:
            return Table(where, tomllib.loads(text), lines=_lines_of(text))
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{where}: not TOML: {error}") from None

    # Taking values

    def has(self, key: str) -> bool:
        """Whether the file sets `key`."""
        self._known.append(key)
        return key in self._content

    def number(self, key: str, default: float | None = None, least: float | None = None) -> float:
        """A number, whole or not; required where there is no default."""
        value = self._take(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.wrong(key, value, "a number")
        if least is not None and value < least:
            raise self.wrong(key, value, f"a number from {least:g} on")
        return value

    def integer(self, key: str, default: int | None = None, least: int | None = None) -> int:
        """A whole number."""
        value = self._typed(key, default, int)
        if least is not None and value < least:
            raise self.wrong(key, value, f"a whole number from {least} on")
        return value

    def text(
        self, key: str, default: str | None = None, choices: Sequence[str] | None = None
    ) -> str:
        """A text, one of `choices` where there are any."""
        value = self._typed(key, default, str)
        if choices is not None and value not in choices:
            raise self.wrong(key, value, "one of " + ", ".join(choices))
        return value

    def flag(self, key: str, default: bool | None = None) -> bool:
        """True or false."""
        return self._typed(key, default, bool)

    def anything(self, key: str, default: Any = None) -> Any:
        """Whatever stands there; the caller checks it."""
        return self._take(key, default, required=False)

    def items(self, key: str) -> list[Any]:
        """A list; empty where there is none."""
        return self._typed(key, [], list)

    def table(self, key: str) -> "Table":
        """A table; empty where there is none."""
        return Table(self.where, self._typed(key, {}, dict), self._path(key), self._lines)

    def tables(self, key: str) -> list["Table"]:
        """A list of tables (`[[key]]`)."""
        found = []
        for index, content in enumerate(self.items(key)):
            name = f"{self._path(key)}[{index}]"
            if not isinstance(content, dict):
                raise ConfigError(f"{self.at(name)}: {name} = {content!r}: expected a table")
            found.append(Table(self.where, content, name, self._lines))
        return found

    def patterns(self) -> list[str]:
        """The keys that stand for all names that begin like them: `"doc/*"`."""
        return [key for key in self._content if key.endswith("*")]

    def rest(self) -> dict[str, Any]:
        """All keys that were not taken yet, taken together."""
        content, self._content = self._content, {}
        return content

    def finish(self) -> None:
        """Every key must have been taken."""
        for key in self._content:
            close = difflib.get_close_matches(key, self._known, 1)
            known = ", ".join(dict.fromkeys(self._known))
            hint = f"did you mean {close[0]!r}?" if close else f"known: {known}"
            path = self._path(key)
            raise ConfigError(f"{self.at(path)}: unknown key {path!r}; {hint}")

    def wrong(self, key: str, value: object, expected: str) -> ConfigError:
        """The error that says what was expected at `key`."""
        path = self._path(key)
        return ConfigError(f"{self.at(path)}: {path} = {value!r}: expected {expected}")

    def _typed(self, key: str, default: T | None, kind: type[T]) -> T:
        value = self._take(key, default)
        if type(value) is not kind:
            raise self.wrong(key, value, _WORDS[kind])
        return value

    def _take(self, key: str, default: Any, required: bool = True) -> Any:
        self._known.append(key)
        if key in self._content:
            return self._content.pop(key)
        if default is None and required:
            raise ConfigError(f"{self.at(self._name)}: key {self._path(key)!r} is missing")
        return default

    def at(self, path: str) -> str:
        """The file and, where it is known, the line of a key, or of the table it is in."""
        while path and path not in self._lines:
            path = path.rpartition(".")[0]
        return f"{self.where}:{self._lines[path]}" if path else self.where

    def _path(self, key: str) -> str:
        return f"{self._name}.{key}" if self._name else key


_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"""\s*([\w\-."']+)\s*=""")


def _lines_of(text: str) -> dict[str, int]:
    """Where each key and each table stands first, by its whole name such as `node.id`."""
    lines: dict[str, int] = {}
    counts: dict[str, int] = {}
    inside = ""
    for number, line in enumerate(text.splitlines(), 1):
        header, key = _HEADER.match(line), _KEY.match(line)
        if header:
            inside = _plain(header[2])
            if header[1] == "[[":
                count = counts.get(inside, 0)
                counts[inside] = count + 1
                inside = f"{inside}[{count}]"
            lines.setdefault(inside, number)
        elif key:
            name = _plain(key[1])
            lines.setdefault(f"{inside}.{name}" if inside else name, number)
    return lines


def _plain(name: str) -> str:
    return name.replace('"', "").replace("'", "").replace(" ", "")
