"""The points of a sweep: every scenario with every protocol and every value, for every seed."""

import itertools
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from causalcast.errors import ConfigError
from causalcast.toml_table import Table

OPTIONS = "options."  # keys of the protocol; everything else is a key of the scenario


@dataclass(frozen=True)
class Point:
    """One simulation, complete: it can be run anywhere from this alone."""

    name: str
    scenario: str
    """The scenario's name, for tables."""
    text: str
    where: str
    protocol: str | None
    seed: int
    varied: dict[str, str] = field(default_factory=dict)
    """What was varied, by key."""
    settings: dict[str, str] = field(default_factory=dict)
    """Options of the protocol, as `--set` gives them."""


def parse_seeds(text: str) -> range:
    """`A..B` includes A, not B."""
    found = re.fullmatch(r"(\d+)\.\.(\d+)", text)
    if not found or int(found[1]) >= int(found[2]):
        raise ConfigError(f"--seeds {text}: expected A..B with A below B (B is not included)")
    return range(int(found[1]), int(found[2]))


def parse_vary(settings: Sequence[str]) -> dict[str, list[str]]:
    """`KEY=V1,V2,…`, each key once."""
    varied: dict[str, list[str]] = {}
    for setting in settings:
        key, equals, values = setting.partition("=")
        parts = [value.strip() for value in values.split(",")]
        if not equals or not re.fullmatch(r"[A-Za-z_]\w*(\.\w+)?", key) or not all(parts):
            raise ConfigError(f"--vary {setting}: expected KEY=VALUE,VALUE or TABLE.KEY=VALUE,…")
        if key in varied:
            raise ConfigError(f"--vary {key}: given twice")
        varied[key] = parts
    return varied


def make_grid(
    scenarios: Iterable[Path],
    protocols: Sequence[str],
    varied: dict[str, list[str]],
    seeds: Iterable[int],
) -> list[Point]:
    """All points, in the order of the arguments, seeds fastest."""
    points = []
    seeds = list(seeds)
    for path in scenarios:
        original = Table.text_of(path)
        chosen_protocols: Sequence[str | None] = protocols or [None]
        for protocol in chosen_protocols:
            for values in itertools.product(*varied.values()):
                chosen = dict(zip(varied, values, strict=True))
                text = original
                for key, value in chosen.items():
                    if not key.startswith(OPTIONS):
                        text = with_key(text, key, value, str(path))
                options = {
                    key.removeprefix(OPTIONS): value
                    for key, value in chosen.items()
                    if key.startswith(OPTIONS)
                }
                label = {**({"protocol": protocol} if protocol else {}), **chosen}
                for seed in seeds:
                    name = _name(path.stem, label, seed)
                    points.append(
                        Point(name, path.stem, text, str(path), protocol, seed, label, options)
                    )
    names = [point.name for point in points]
    if len(set(names)) < len(names):
        raise ConfigError("sweep: two points have the same name; a value is given twice")
    return points


def _name(scenario: str, label: dict[str, Any], seed: int) -> str:
    parts = [scenario, *(f"{key}={value}" for key, value in label.items()), f"seed={seed}"]
    return re.sub(r"[^\w.=+-]", "_", "-".join(parts))


def with_key(text: str, key: str, value: str, where: str) -> str:
    """The TOML text with one key set to `value`; comments and everything else stay."""
    table, _, name = key.rpartition(".")
    lines = text.splitlines()
    heads = [n for n, line in enumerate(lines) if line.lstrip().startswith("[")]
    if table:
        starts = [n for n in heads if re.match(rf"\s*\[\s*{re.escape(table)}\s*\]", lines[n])]
        if not starts:
            lines += [f"[{table}]"]
            heads.append(len(lines) - 1)
            starts = heads[-1:]
        start = starts[0] + 1
    else:
        start = 0
    end = next((n for n in heads if n >= start), len(lines))
    places = [n for n in range(start, end) if re.match(rf"\s*{re.escape(name)}\s*=", lines[n])]
    new = f"{name} = {_literal(value)}"
    if places:
        lines[places[0]] = new
    else:
        lines.insert(start, new)
    result = "\n".join(lines) + "\n"
    try:
        tomllib.loads(result)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            f"{where}: --vary {key}={value}: no longer TOML ({error}); is the value on one line?"
        ) from None
    return result


def _literal(value: str) -> str:
    """A number, a truth value or a list stays; anything else becomes a string."""
    try:
        tomllib.loads(f"x = {value}")
        return value
    except tomllib.TOMLDecodeError:
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
