"""`causalcast swarm`: random scenarios and an adversary from seeds, each run judged."""

import argparse
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from causalcast.cli.shared.extras import require
from causalcast.cli.shared.output import print_facts, progress_bar
from causalcast.cli.shared.spark_options import add_spark_options
from causalcast.cli.simulate.simulate import parse_settings
from causalcast.cli.simulate.whole_nodes import run_nodes, run_plan
from causalcast.errors import ConfigError
from causalcast.swarm.campaign import HOURS, Campaign, Plan, run_campaign, try_seed
from causalcast.swarm.feedback import run_feedback
from causalcast.swarm.generate import OPEN
from causalcast.swarm.mutant import FOLDER, find_mutant
from causalcast.swarm.real_worlds import DRAWN, FACTS, PLAIN
from causalcast.swarm.shrink import Shrunk, shrink
from causalcast.swarm.trial import PROPERTIES, Problem, Trial
from causalcast.trace.diagram import draw_run

SHOWN_FAILURES = 10


def add_to(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "swarm",
        description="Draw a scenario from each seed, run it and judge it: even seeds are random "
        "scenarios with faults and a calm phase, odd seeds an adversary that looks at the nodes "
        "and does what hurts. Everything that the protocol promises is checked, its invariants "
        "after every step. A fault that could have happened and never did fails the campaign too.",
        epilog="example: causalcast swarm --protocol vector_clock_broadcast --seeds 0..1000",
    )
    parser.add_argument(
        "--protocol", default="", metavar="NAME_OR_FILE", help="the protocol to test"
    )
    parser.add_argument(
        "--seeds",
        type=seed_range,
        metavar="A..B",
        help="from A up to, but not including, B",
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
        "--world",
        choices=["protocols", "nodes"],
        default="protocols",
        help="what runs: protocols alone in the simulator (many seeds), or whole nodes as shipped, "
        "with journal, links and applications, on simulated disks and networks. With nodes, "
        "only --protocol, --seeds, --plan, --first, --keep, --processes and --json have a meaning",
    )
    parser.add_argument(
        "--plan",
        type=Path,
        metavar="FILE",
        help="with --world nodes, instead of --protocol and --seeds: a world that was kept",
    )
    parser.add_argument(
        "--check",
        action="append",
        default=[],
        choices=PROPERTIES,
        metavar="PROPERTY",
        help="judge this instead of what is promised; may be repeated. One of "
        + ", ".join(PROPERTIES),
    )
    parser.add_argument(
        "--by",
        choices=["both", "random", "worse", "adversary", "stories"],
        default="both",
        help="what draws the faults: random scenarios, the adversary, both in turn (default), "
        "worse scenarios, each about one thing, or short stories",
    )
    parser.add_argument(
        "--search",
        choices=["anew", "feedback"],
        default="anew",
        help="anew (default): every seed is drawn by itself. feedback: schedules that reach what "
        "none before them reached (a note, a message in a state, a branch) are kept and varied, "
        "and the adversary goes on from there; finds rare bugs sooner. --seeds A..B is then B-A "
        "trials that build on one another, and the same A..B is the same search; every 2,000 "
        "trials one begins from nothing, on a process of its own",
    )
    parser.add_argument(
        "--overlay",
        choices=["tree", "mesh", OPEN],
        default="",
        help="draw only such graphs",
    )
    parser.add_argument(
        "--beyond",
        action="store_true",
        help="draw faults beyond what is promised too, and judge order and integrity only",
    )
    parser.add_argument(
        "--gone",
        action="store_true",
        help="let the adversary remove some crashed nodes for good; what they published "
        "may then be missing, everything else is checked as usual",
    )
    parser.add_argument(
        "--for-good",
        action="store_true",
        help="some nodes die, most of them as they publish, and never come back, or hang; the "
        "others must agree without them, and some are suspected wrongly. Where links can be "
        "missing, use --overlay mesh",
    )
    parser.add_argument(
        "--small-limits",
        action="store_true",
        help="draw limits of the protocol and its parts for each seed, often the smallest legal "
        "ones (see `causalcast limits`); whole nodes always do",
    )
    parser.add_argument(
        "--clients",
        action="store_true",
        help="with --world nodes: programs use the doors of the nodes, are killed and cut off, and "
        "move; they are judged, too (needs causalcast[clients])",
    )
    parser.add_argument(
        "--newcomers",
        action="store_true",
        help="with --world nodes: members join a group late and take its state from others, which "
        "die and are cut off meanwhile; what they have in the end is judged, too",
    )
    parser.add_argument(
        "--facts",
        choices=FACTS,
        help="what protocols are told of their world (links lose nothing, records are kept, who is "
        "congested, runs): drawn from the seed (default), or plain: nothing (with --mutant)",
    )
    parser.add_argument("--mutant", default="", metavar="NAME", help="plant this bug first")
    parser.add_argument(
        "--mutants",
        type=Path,
        metavar="FILE",
        help=f"the file that has the mutant; by default {FOLDER}/PROTOCOL.py",
    )
    parser.add_argument("--first", action="store_true", help="stop at the first failure")
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="write the first failure, made small, into this folder: as a scenario, or as a plan "
        "of a world of nodes",
    )
    parser.add_argument(
        "--processes", type=int, default=os.cpu_count() or 1, help="by default one per core"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_spark_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Try all seeds, say what happened, and make the first failure small."""
    if options.world == "nodes" and options.plan is not None:
        return run_plan(options.plan, options.json)
    if not options.protocol or options.seeds is None:
        raise ConfigError("expected --protocol NAME and --seeds A..B, such as --seeds 0..1000")
    if options.world == "nodes":
        return run_nodes(options)
    if options.clients:
        raise ConfigError("--clients use the doors of whole nodes: add --world nodes")
    if options.newcomers:
        raise ConfigError("--newcomers are applications of whole nodes: add --world nodes")
    plan = _plan(options)
    with progress_bar(f"{len(options.seeds):,} seeds", quiet=options.json) as progress:
        campaign = _campaign(options, plan, progress)
    shrunk = _shrink_first(plan, campaign) if not options.json or options.keep else None
    kept = _keep(options.keep, plan, campaign, shrunk) if options.keep and shrunk else None
    if options.json:
        print(json.dumps(_facts(campaign, kept)))
    else:
        _tell(campaign, shrunk, kept)
    return 0 if campaign.succeeded() else 1


def seed_range(text: str) -> range:
    """`A..B` as a range; `A` alone is one seed."""
    match = re.fullmatch(r"(\d+)(?:\.\.(\d+))?", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r}: expected A..B such as 0..1000")
    start = int(match[1])
    end = int(match[2]) if match[2] else start + 1
    if end <= start:
        raise argparse.ArgumentTypeError(f"{text!r}: expected B above A")
    return range(start, end)


def _plan(options: argparse.Namespace) -> Plan:
    settings = parse_settings(options.settings)
    plan = Plan(
        options.protocol,
        dict(settings),
        options.overlay,
        options.by,
        options.beyond,
        tuple(options.check),
        str(options.mutants or FOLDER / f"{Path(options.protocol).stem}.py"),
        options.mutant,
        options.gone,
        options.for_good,
        options.small_limits,
        facts=options.facts or (PLAIN if options.mutant else DRAWN),
        search=options.search,
    )
    if plan.gives_up and not plan.spec().gives_up_nodes():
        raise ConfigError(f"--gone: {plan.protocol} cannot give a node up")
    if plan.overlay == OPEN and not plan.spec().agrees_on_members:
        raise ConfigError(
            f"--overlay {OPEN}: {plan.protocol} has no members that agree to let a node in; choose "
            "another overlay, or viewed_broadcast"
        )
    try:
        plan.spec().settings(dict(settings))
    except ValueError as error:
        raise ConfigError(f"--set {error}") from None
    if plan.mutant:
        find_mutant(Path(plan.mutants), plan.mutant)  # says what there is, if not this one
    if options.master is not None or options.remote is not None:
        if plan.search == "feedback":
            raise ConfigError("--search feedback: its trials build on one another, so not on Spark")
        require("spark", "`causalcast swarm` on Spark")
    if options.processes < 1:
        raise ConfigError(f"--processes {options.processes}: expected a number from 1 on")
    return plan


def _campaign(options: argparse.Namespace, plan: Plan, progress: Any) -> Campaign:
    if options.master is None and options.remote is None:
        processes = min(options.processes, len(options.seeds))
        run_all = run_feedback if plan.search == "feedback" else run_campaign
        return run_all(plan, options.seeds, processes, options.first, progress)
    from causalcast.pipeline.spark.session import make_session
    from causalcast.swarm.on_spark import run_on_spark

    session = make_session(options.master, options.remote)
    return run_on_spark(session, plan, options.seeds, progress)


def _shrink_first(plan: Plan, campaign: Campaign) -> Shrunk | None:
    if not campaign.failures:
        return None
    failure = campaign.failures[0]
    with _planted(plan):  # the text of a trial says its limits
        if failure.text:
            trial = Trial(failure.text, [Problem(failure.property, failure.detail)])
        else:
            trial = try_seed(plan, failure.seed)
        return shrink(trial, plan.properties(), plan.protocol)


@contextmanager
def _planted(plan: Plan) -> Iterator[None]:
    if plan.mutant:
        with find_mutant(Path(plan.mutants), plan.mutant).planted():
            yield
    else:
        yield


def _keep(folder: Path, plan: Plan, campaign: Campaign, shrunk: Shrunk) -> Path:
    failure = campaign.failures[0]
    name = f"{Path(plan.protocol).stem}_{plan.mutant or failure.property}_{failure.seed}.toml"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    picture = "".join(f"# {line}\n" for line in _picture(shrunk).splitlines())
    limits = "".join(f"# limit {at} = {to}\n" for at, to in plan.limits(failure.seed).items())
    path.write_text(f"# {failure.property} failed here.\n#\n{limits}{picture}\n{shrunk.text}")
    return path


def _picture(shrunk: Shrunk) -> str:
    return draw_run(shrunk.trial.run) if shrunk.trial.run is not None else ""


def _facts(campaign: Campaign, kept: Path | None) -> dict[str, Any]:
    return {
        "protocol": campaign.plan.protocol,
        "seeds": campaign.seeds,
        "passed": campaign.seeds - len(campaign.failures),
        "failures": [
            {"seed": failure.seed, "property": failure.property, "repeat": failure.repeat,
             "detail": failure.detail}
            for failure in campaign.failures
        ],
        "fired": dict(sorted(campaign.fired.items())),
        "never_fired": campaign.never_fired(),
        "logical_hours": round(campaign.logical_us / HOURS, 3),
        "seconds": round(campaign.seconds, 3),
        "seeds_per_second": round(campaign.seeds / max(campaign.seconds, 1e-9), 1),
        **({"mutant": campaign.plan.mutant} if campaign.plan.mutant else {}),
        **({"kept": str(kept)} if kept else {}),
    }  # fmt: skip


def _tell(campaign: Campaign, shrunk: Shrunk | None, kept: Path | None) -> None:
    facts = _facts(campaign, None)
    del facts["failures"], facts["never_fired"]
    print_facts(facts)
    for failure in campaign.failures[:SHOWN_FAILURES]:
        print(f"seed {failure.seed} broke {failure.property}; again: {failure.repeat}")
    if len(campaign.failures) > SHOWN_FAILURES:
        print(f"and {len(campaign.failures) - SHOWN_FAILURES} more seeds failed")
    if shrunk is not None:
        broken = shrunk.trial.problems[0]
        print(
            f"\nthe first, made small ({shrunk.events} events), still breaks {broken.property}:\n"
        )
        print(_picture(shrunk) or broken.detail)
        print(f"\nkept as {kept}" if kept else f"\n{shrunk.text}")
    for kind in campaign.never_fired():
        print(f"never happened, so nothing is known about it: {kind}")
    print("verdict: " + ("ok" if campaign.succeeded() else "failed"))
