"""`causalcast protocols`: what there is, what it promises, needs and costs."""

import argparse
import json
from typing import Any

from rich.console import Console
from rich.table import Table

from causalcast.core.spec import UNITS, Option, ProtocolSpec
from causalcast.registry import find_protocol, protocol_names


def add_to(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "protocols",
        description="List the protocols: what each promises, needs and costs.",
        epilog="example: causalcast protocols vector_clock_broadcast",
    )
    parser.add_argument("name", nargs="?", metavar="NAME_OR_FILE", help="one of them, with options")
    parser.add_argument("--json", action="store_true", help="print a list of objects")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print one protocol or all of them."""
    names = [options.name] if options.name else protocol_names()
    specs = [find_protocol(name) for name in names]
    if options.json:
        print(json.dumps([describe(spec) for spec in specs], indent=2))
    elif options.name:
        _print_one(specs[0])
    else:
        _print_all(specs)
    return 0


def describe(spec: ProtocolSpec) -> dict[str, Any]:
    """A protocol's SPEC as plain data."""
    return {
        "name": spec.name,
        "summary": spec.summary,
        "guarantees": spec.guarantees,
        "except_when": spec.except_when,
        "goes_on": spec.goes_on,
        "needs": {
            "overlay": spec.needs.overlay,
            "links": spec.needs.links,
            "detector": spec.needs.detector,
        },
        "restart": spec.restart,
        "cost": spec.cost,
        "offers": spec.offers,
        "commands": {form.usage(): form.meaning for form in spec.commands.values()},
        "late_members": spec.late_members,
        "options": [
            {
                "name": option.name,
                "default": _default(option),
                "unit": option.unit,
                "expects": option.expects(),
                "meaning": option.meaning,
                "change_if": option.change_if,
            }
            for option in spec.options
        ],
    }


def _default(option: Option) -> Any:
    """The default as people write it: in the option's own unit."""
    if option.unit:
        assert isinstance(option.default, int)
        return option.default / UNITS[option.unit]
    return option.default


def _print_all(specs: list[ProtocolSpec]) -> None:
    table = Table("protocol", "what it does", "promises")
    for spec in specs:
        promises = ", ".join(spec.guarantees)
        if spec.except_when:
            promises += f"; not when {spec.except_when}"
        table.add_row(spec.name, spec.summary, promises)
    Console().print(table)


def _print_one(spec: ProtocolSpec) -> None:
    console = Console()
    console.print(f"[bold]{spec.name}[/bold]  {spec.summary}")
    console.print(f"promises  {', '.join(spec.guarantees)}")
    if spec.except_when:
        console.print(f"not when  {spec.except_when}")
    if spec.goes_on:
        console.print(f"goes on   {spec.goes_on}")
    console.print(f"needs     overlay {spec.needs.overlay}, links {spec.needs.links}")
    console.print(f"restart   {spec.restart}")
    console.print(f"offers    {', '.join(spec.offers) or 'nothing beyond its promises'}")
    for form in spec.commands.values():
        console.print(f"command   {form.usage()}: {form.meaning}")
    if not spec.late_members:
        console.print("groups    are those of the start: who joins one late gets nothing of it")
    console.print(f"cost      {spec.cost or 'not stated'}")
    table = Table("option", "default", "expects", "meaning", "change it if")
    for option in spec.options:
        default, expects = str(_default(option)), option.expects()
        table.add_row(option.name, default, expects, option.meaning, option.change_if)
    if spec.options:
        console.print(table)
