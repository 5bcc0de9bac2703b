"""`causalcast limits`: every number that bounds or times something, and what it may be."""

import argparse
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from causalcast.core.spec import UNITS, LayerSpec, Option
from causalcast.errors import ConfigError
from causalcast.limits import limits_of
from causalcast.registry import (
    detector_names,
    find_detector,
    find_overlay,
    find_protocol,
    overlay_names,
    protocol_names,
)

ROOMS = (
    "core", "parts", "datagrams", "detectors", "overlays", "protocols", "wire", "trace.node_log",
    "runtime", "clients",
)  # fmt: skip
SIZES = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


class Row(NamedTuple):
    """One limit, as plain data."""

    name: str
    default: float
    least: float
    most: float | None  # None: nothing speaks against more
    unit: str
    about: str
    set_in: str


def add_to(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "limits",
        description="List every number that bounds or times something: what it is, the smallest "
        "and the greatest value with which everything must work, and where it is set. Those that "
        "no file sets are for searches: `swarm` draws them small.",
        epilog="example: causalcast limits runtime.links",
    )
    parser.add_argument("room", nargs="?", default="", help="only names that begin with this")
    parser.add_argument("--json", action="store_true", help="print a list of objects")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print all of them, or those of a room."""
    rows = [row for row in every_row() if row.name.startswith(options.room)]
    if not rows:
        raise ConfigError(f"no limit has a name that begins with {options.room!r}")
    if options.json:
        print(json.dumps([row._asdict() for row in rows], indent=2))
        return 0
    for row in rows:
        print(f"{row.name}\n    {in_words(row)}; {row.set_in}\n    {row.about}")
    return 0


def every_row() -> list[Row]:
    """Limits of the code, and options of protocols, overlays and detectors that are such."""
    rows = [
        Row(
            name,
            limit.default_value,
            limit.least,
            limit.most,
            limit.unit,
            limit.about,
            limit.setting,
        )
        for name, limit in limits_of(*ROOMS).items()
    ]
    layers: list[tuple[str, list[LayerSpec]]] = [
        ("protocol", [find_protocol(name) for name in protocol_names()]),
        ("overlay", [find_overlay(name) for name in overlay_names()]),
        ("detector", [find_detector(name) for name in detector_names()]),
    ]
    for layer, specs in layers:
        for spec in specs:
            rows += _of_options(layer, spec)
    return sorted(rows)


def _of_options(layer: str, spec: LayerSpec) -> Iterator[Row]:
    for option in spec.options:
        if isinstance(option.default, (int, float)) and not isinstance(option.default, bool):
            name = f"{layer}s.{spec.name}.{option.name}"
            yield Row(
                name,
                option.default,
                option.least or 0,
                None,
                "us" if option.unit else _counted_in(option),
                option.meaning,
                f"[{layer}] {option.name}",
            )


def _counted_in(option: Option) -> str:
    return "bytes" if option.name.endswith("bytes") else ""


def in_words(row: Row) -> str:
    """The values of a limit as people read them: `64 messages, from 2 to 1,024`."""
    unit = "" if row.unit in ("us", "bytes", "s") else f" {row.unit}".rstrip()
    most = " on" if row.most is None else f" to {shown(row.most, row.unit)}"
    return f"{shown(row.default, row.unit)}{unit}, from {shown(row.least, row.unit)}{most}"


def shown(value: float, unit: str) -> str:
    """One value: times and sizes in units that fit them."""
    if unit in ("us", "s"):
        us = value * UNITS[unit]
        name = next(name for name in ("s", "ms", "us") if us >= UNITS[name] or name == "us")
        return f"{us / UNITS[name]:g} {name}"
    if unit == "bytes":
        for name, size in SIZES:
            if value >= size and value % size == 0:
                return f"{value / size:,g} {name}"
        return f"{value:,} bytes"
    return f"{value:,}"
