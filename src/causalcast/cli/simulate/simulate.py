"""`causalcast simulate`: one scenario, one seed, one trace."""

import argparse
import json
from pathlib import Path
from typing import Any

from causalcast.cli.shared.output import print_facts, progress_bar
from causalcast.cli.shared.samples import SCENARIO_HELP, scenario_path
from causalcast.errors import ConfigError
from causalcast.simulator.runner import simulate
from causalcast.trace.kinds import LEVELS


def add_to(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "simulate",
        description="Run a scenario in the simulator and write its trace. The same seed gives the "
        "same trace, byte for byte.",
        epilog="example: causalcast simulate scenarios/reordering_ring.toml --seed 7 --out runs/7",
    )
    parser.add_argument("scenario", type=scenario_path, metavar="SCENARIO", help=SCENARIO_HELP)
    parser.add_argument("--seed", type=int, help="use this seed instead of the scenario's")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="RUN", help="a new folder for the run"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="settings",
        metavar="OPTION=VALUE",
        help="an option of the protocol; durations may have a unit (50ms)",
    )
    parser.add_argument(
        "--protocol", metavar="NAME_OR_FILE", help="use this protocol instead of the scenario's"
    )
    parser.add_argument(
        "--trace",
        choices=list(LEVELS),
        help="how much to record (default: messages; with more than 1,000 nodes deliveries)",
    )
    parser.add_argument(
        "--save-overlay",
        type=Path,
        metavar="FILE",
        help="also write the links that stand when the workload begins, for overlay.from",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Simulate, write, and say what happened."""
    with progress_bar("simulating", quiet=options.json) as progress:
        result = simulate(
            options.scenario, options.trace, progress, seed=options.seed,
            protocol=options.protocol, options=parse_settings(options.settings),
            out=options.out, save_overlay=options.save_overlay,
        )  # fmt: skip
    facts = {
        "run": str(options.out),
        "run_id": result.header.run_id,
        "protocol": result.header.protocol,
        "seed": result.header.seed,
        "nodes": len(result.nodes),
        "publications": result.publications,
        "messages": result.messages,
        "simulated_seconds": result.simulated_us / 1e6,
        "cpu_seconds": round(result.cpu_seconds, 3),
        "events": len(result.events),
        "fired": result.header.faults,
    }
    if options.json:
        print(json.dumps(facts))
    else:
        print_facts(facts)
        print(f"next: causalcast verify {options.out}")
    return 0


def parse_settings(settings: list[str]) -> dict[str, str]:
    """`["f=1"]` as a dict; anything else is an error that says how to write it."""
    parsed = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise ConfigError(f"--set {setting}: expected OPTION=VALUE")
        parsed[name] = value
    return parsed
