"""`causalcast buses`: which message buses keep causal order, here and now."""

import argparse
import json
from pathlib import Path
from typing import Any

from rich.console import Console

from causalcast.errors import CausalcastError, ConfigError


def add_to(subparsers: Any) -> None:
    """Declare `buses`."""
    parser = subparsers.add_parser(
        "buses",
        description="Run one workload on every message bus that is installed, record what each"
        " process publishes and handles, and judge the order. Three processes talk on two topics"
        " and answer some of what they see.",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="a new folder for logs and tables")
    parser.add_argument("--bus", action="append", metavar="NAME", help="only this one; repeatable")
    parser.add_argument(
        "--condition", action="append", metavar="NAME", help="only this one; repeatable"
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="of traffic (default: 5)")
    parser.add_argument("--seed", type=int, default=1, help="for topics and answers")
    parser.add_argument("--list", action="store_true", help="what can be run here, and what not")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run_buses)


def run_buses(options: argparse.Namespace) -> int:
    """Run the chosen buses that are installed, and write the results."""
    from causalcast.buses.registry import SYSTEMS, system_named

    systems = [system_named(name) for name in options.bus] if options.bus else list(SYSTEMS)
    if options.list:
        return _list(systems, options.json)
    if options.out is None:
        raise ConfigError("--out: a folder for logs and tables is needed")
    if options.out.exists():
        raise ConfigError(f"{options.out}: already exists; remove it or choose another --out")
    for system in systems:
        why = system.lacking()
        if why is not None and not options.json:
            print(f"{system.name} is left out: {why}")
    outcomes = _run(options, [system for system in systems if system.lacking() is None])
    _write(options, outcomes)
    return 0


def _list(systems: list[Any], as_json: bool) -> int:
    found = [
        {"bus": system.name, "setups": list(system.setups), "lacking": system.lacking()}
        for system in systems
    ]
    if as_json:
        print(json.dumps(found))
        return 0
    for system in systems:
        print(f"{system.name}: {system.lacking() or system.version()}")
        for setup, words in system.setups.items():
            print(f"  {setup}: {words}")
    return 0


def _run(options: argparse.Namespace, systems: list[Any]) -> list[Any]:
    from causalcast.buses.conditions import CONDITIONS, condition_named
    from causalcast.buses.trial import Outcome, folder_name, run_trial

    named = options.condition
    conditions = [condition_named(name) for name in named] if named else list(CONDITIONS)
    outcomes: list[Any] = []
    for system in systems:
        for setup in system.setups:
            for condition in conditions:
                folder = options.out / folder_name(system.name, setup, condition.name)
                what = f"{system.name}, {setup}, {condition.name}"
                with Console(stderr=True).status(what):
                    try:
                        found = run_trial(
                            system, setup, condition, folder, options.seconds, options.seed
                        )
                    except (CausalcastError, OSError) as error:
                        found = Outcome(system.name, setup, condition.name, skipped=str(error))
                outcomes.append(found)
                if not options.json:
                    print(f"{what}: {_said(found)}", flush=True)
    return outcomes


def _said(found: Any) -> str:
    if found.skipped:
        return f"not run: {found.skipped}"
    return (
        f"{found.causal:,} of {found.deliveries:,} deliveries before a cause, {found.fifo:,}"
        f" against one sender's order; median {found.latency_p50_ms:.1f} ms"
    )


def _write(options: argparse.Namespace, outcomes: list[Any]) -> None:
    from causalcast.buses.page import (
        counter_example,
        order_plot,
        order_table,
        speed_table,
        systems_table,
    )
    from causalcast.buses.trial import folder_name

    options.out.mkdir(exist_ok=True)
    told = [outcome.to_dict() for outcome in outcomes]
    (options.out / "results.json").write_text(json.dumps(told, indent=1) + "\n")
    parts = [order_table(outcomes), speed_table(outcomes), systems_table(outcomes)]
    order_plot(outcomes, options.out / "order.svg")
    for outcome in outcomes:
        name = folder_name(outcome.system, outcome.setup, outcome.condition)
        if outcome.causal:
            said = counter_example(options.out / name / "run", options.out / f"{name}.svg")
            if said is not None:
                parts.append(f"{outcome.system}, {outcome.setup}, {outcome.condition}: {said}\n")
    (options.out / "tables.md").write_text("\n".join(parts))
    if options.json:
        print(json.dumps(told))
    else:
        print(f"{options.out}/tables.md, order.svg, results.json and the run of every trial")
