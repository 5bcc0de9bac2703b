"""`causalcast explore`: every interleaving of a small scenario, instead of some."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn

from causalcast.cli.shared.output import print_facts
from causalcast.cli.shared.samples import SCENARIO_HELP, scenario_path
from causalcast.cli.simulate.simulate import parse_settings
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.explore import Exploration, Explorer, Limits
from causalcast.swarm.mutant import FOLDER, find_mutant
from causalcast.swarm.trial import try_scenario
from causalcast.trace.diagram import draw_run
from causalcast.trace.kinds import GUARANTEES

EVERY_S = 30.0  # how often a line of progress is written


def add_to(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "explore",
        description="Let the publications of a scenario happen at any moment, messages arrive in "
        "every order their links allow, and as often as the options say, timers run out, nodes "
        "crash and return, suspicions be raised, links be cut, messages be lost or doubled. Every "
        "history is judged; the first counter-example found has the fewest steps. A scenario with "
        "steps sets the stage with them; the publications at their end are explored.",
        epilog="example: causalcast explore scenarios/three_nodes_two_messages.toml --crashes 1",
    )
    parser.add_argument("scenario", type=scenario_path, metavar="SCENARIO", help=SCENARIO_HELP)
    parser.add_argument("--protocol", metavar="NAME_OR_FILE", help="instead of the scenario's own")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="settings",
        metavar="OPTION=VALUE",
        help="an option of the protocol",
    )
    parser.add_argument(
        "--check",
        action="append",
        default=[],
        choices=GUARANTEES,
        metavar="PROPERTY",
        help="judge this instead of what is promised; may be repeated",
    )
    for name in Limits._fields:
        parser.add_argument(
            f"--{name}", type=int, default=0, metavar="N", help=f"at most N {name} in one run"
        )
    parser.add_argument(
        "--reduced",
        action="store_true",
        help="try steps of different nodes that commute in one order only: as good a proof with "
        "fewer states, but a counter-example need not be the shortest; no faults but cuts",
    )
    parser.add_argument(
        "--most-states",
        type=int,
        default=10_000_000,
        metavar="N",
        help="give up after so many states (default: 10,000,000)",
    )
    parser.add_argument(
        "--most-seconds",
        type=float,
        default=3600,
        metavar="S",
        help="give up after so many seconds (default: 3600)",
    )
    parser.add_argument("--mutant", default="", metavar="NAME", help="plant this bug first")
    parser.add_argument(
        "--mutants",
        type=Path,
        metavar="FILE",
        help=f"the file that has the mutant; by default {FOLDER}/PROTOCOL.py",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Explore, and print how many states there were and what was found."""
    settings = parse_settings(options.settings)
    scenario = Scenario.read(options.scenario, options.protocol, settings)
    limits = Limits(*(getattr(options, name) for name in Limits._fields))
    with ExitStack() as stack:
        if options.mutant:
            path = options.mutants or FOLDER / f"{Path(scenario.protocol_name).stem}.py"
            stack.enter_context(find_mutant(path, options.mutant).planted())
        explorer = Explorer(
            scenario,
            limits,
            options.most_states,
            options.most_seconds,
            options.check,
            options.reduced,
        )
        with _counter(quiet=options.json) as progress:
            found = explorer.explore(progress)
        picture = _picture(found) if found.problem is not None else ""
    if options.json:
        print(json.dumps(_facts(scenario, found)))
    else:
        _tell(scenario, found, picture)
    return 0 if found.proved() else 1


@contextmanager
def _counter(quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Shows how many states were found so far; the total is not known beforehand."""
    if quiet:
        yield None
        return
    if not sys.stderr.isatty():
        yield _lines()
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("exploring")

        def tell(states: int, waiting: int) -> None:
            progress.update(task, description=f"{states:,} states, {waiting:,} to be expanded")

        yield tell


def _lines() -> Callable[[int, int], None]:
    """Prints a line now and then where there is no terminal."""
    told = time.monotonic()

    def tell(states: int, waiting: int) -> None:
        nonlocal told
        if time.monotonic() > told + EVERY_S:
            told = time.monotonic()
            print(f"{states:,} states, {waiting:,} to be expanded", file=sys.stderr, flush=True)

    return tell


def _facts(scenario: Scenario, found: Exploration) -> dict[str, Any]:
    return {
        "protocol": scenario.protocol_name,
        "nodes": scenario.nodes(),
        "states": found.states,
        "transitions": found.transitions,
        "final_states": found.final_states,
        "histories": found.histories,
        "depth": found.depth,
        "seconds": round(found.seconds, 2),
        "exhausted": found.exhausted,
        "property": found.problem.property if found.problem else None,
        "scenario": found.text or None,
    }


def _picture(found: Exploration) -> str:
    trial = try_scenario(Scenario(found.text, "counter-example"), level="full")
    return draw_run(trial.run) if trial.run is not None else ""


def _tell(scenario: Scenario, found: Exploration, picture: str) -> None:
    facts = _facts(scenario, found)
    del facts["scenario"], facts["property"], facts["exhausted"]
    print_facts(facts)
    if found.problem is not None:
        print(f"\n{found.problem.property} is broken after {len(found.steps)} steps:\n")
        print(picture or found.problem.detail)
        print(f"\n{found.text}")
    if found.problem is None and not found.exhausted:
        print("verdict: unknown, there are more states than were looked at")
    else:
        proof = "ok, in every interleaving" if found.proved() else "violated"
        print(f"verdict: {proof}")
