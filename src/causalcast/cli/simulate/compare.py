"""`causalcast compare`: one workload over the protocols of the survey, measured."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from causalcast.cli.shared.output import progress_bar
from causalcast.errors import ConfigError
from causalcast.sweep.survey_table import (
    CONTESTANTS,
    NOT_IN_TABLE_1,
    TABLE_1,
    Contestant,
    Measured,
    measure,
    workload,
)
from causalcast.toml_table import Table as TomlTable


def add_to(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "compare",
        description="Run the same workload over all protocols of the survey, and print for each: "
        "what copies carry, on which share of all ways from publishers to others they travel, "
        "whether messages block, the mean and most bytes of a copy beside its own body, the share "
        "of deliveries that were held and how long, and the latency in ms; beside the survey's own "
        "table.",
        epilog="example: causalcast compare --nodes 16",
    )
    parser.add_argument(
        "scenario", nargs="?", type=Path, help="a scenario with your own workload (TOML)"
    )
    parser.add_argument(
        "--protocol", action="append", metavar="NAME", help="compare only this; may be repeated"
    )
    parser.add_argument("--nodes", type=int, default=12, help="how many nodes (default: 12)")
    parser.add_argument(
        "--count", type=int, default=8, help="publications of each node (default: 8)"
    )
    parser.add_argument(
        "--payload-bytes", type=int, default=32, help="size of each message (default: 32)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the simulation (default: 0)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Measure, print, and say whether everything was in order."""
    if options.nodes < 2 or options.count < 1 or options.payload_bytes < 0:
        raise ConfigError("--nodes, --count, --payload-bytes: expected at least 2, 1 and 0")
    chosen = contestants(options.protocol)
    text = workload(options.nodes, options.count, options.payload_bytes, options.seed)
    where = "compare"
    if options.scenario is not None:
        text, where = TomlTable.text_of(options.scenario), str(options.scenario)
    rows = []
    with progress_bar("comparing", quiet=options.json) as progress:
        for number, contestant in enumerate(chosen, 1):
            rows.append(measure(contestant, text, where, options.seed))
            if progress is not None:
                progress(number / len(chosen))
    if options.json:
        survey = [asdict(approach) for approach in TABLE_1]
        measured = [{**asdict(row), "history": row.history()} for row in rows]
        print(json.dumps({"workload": text, "measured": measured, "survey": survey}, indent=2))
    else:
        _print(rows)
    return 0 if all(row.verdict == "ok" or "does not fit" in row.verdict for row in rows) else 1


def contestants(names: list[str] | None) -> list[Contestant]:
    """The protocols of the survey, or the ones that are named."""
    if not names:
        return list(CONTESTANTS)
    chosen: list[Contestant] = []
    for name in names:
        known = [one for one in CONTESTANTS if one.protocol == name]
        chosen += known or [Contestant(name, NOT_IN_TABLE_1)]
    return chosen


def _print(rows: list[Measured]) -> None:
    console = Console(width=100)  # the same everywhere, so that tables can be compared
    table = _table("protocol", "carries", "structure", "blocks", *RIGHT)
    for row in rows:
        if row.deliveries:
            table.add_row(*_cells(row))
    console.print(table)
    for row in rows:
        if row.verdict != "ok":
            console.print(f"{row.label}: {row.verdict}", markup=False)
    console.print("\nThe survey's Table 1 says:\n")
    said = _table("approach", "causal history", "structure", "advantages", "drawbacks")
    for approach in TABLE_1:
        said.add_row(*asdict(approach).values())
    console.print(said)


RIGHT = ("bytes", "most", "held", "hold ms", "latency")


def _table(*names: str) -> Table:
    columns = [
        Column(name, no_wrap=True, justify="right" if name in RIGHT else "left") for name in names
    ]
    return Table(*columns, box=None, padding=(0, 2, 0, 0))


def _cells(row: Measured) -> list[str]:
    return [
        row.label,
        f"{row.carried:.1f} messages" if row.carried > 1 else "names",
        "no" if row.ways >= 1 else f"yes, {row.ways:.0%}",
        "yes" if row.held_share else "no",
        f"{row.overhead_mean:.0f}",
        str(row.overhead_max),
        f"{row.held_share:.1%}",
        f"{row.hold_mean_ms:.1f}",
        f"{row.latency_mean_ms:.1f}",
    ]
