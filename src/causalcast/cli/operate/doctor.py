"""`causalcast doctor`: what is wrong with a node, and what to do about it."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from causalcast.runtime.operating.doctor import OK, PROBLEM, WARNING, examine

_COLOURS = {OK: "green", WARNING: "yellow", PROBLEM: "red"}


def add_to(subparsers: Any) -> None:
    """Declare the command."""
    doctor = subparsers.add_parser(
        "doctor",
        description="Look at the configuration, disk, journal, trace, clock, ports and peers of a "
        "node, running or not. Changes nothing. Exit code 1 if there is a problem; warnings are "
        "none.",
    )
    doctor.add_argument("config", type=Path, metavar="CONFIG.toml")
    doctor.add_argument("--json", action="store_true", help="print one JSON object")
    doctor.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Look, and show everything that was found."""
    found = list(examine(options.config))
    problems = [one for one in found if one.state == PROBLEM]
    if options.json:
        print(json.dumps({"ok": not problems, "findings": [asdict(one) for one in found]}))
        return 1 if problems else 0
    table = Table(box=None, pad_edge=False, show_header=False)
    for one in found:
        colour = _COLOURS[one.state]
        text = escape(one.text)
        if one.advice:
            text += f"\n→ {escape(one.advice)}"
        table.add_row(f"[{colour}]{one.state}[/]", one.about, text)
    console = Console(highlight=False)
    console.print(table)
    warnings = sum(one.state == WARNING for one in found)
    console.print(f"{len(problems)} problems, {warnings} warnings")
    return 1 if problems else 0
