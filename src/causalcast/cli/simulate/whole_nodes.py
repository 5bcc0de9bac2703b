"""`causalcast swarm --world nodes`: whole nodes, as shipped, in worlds that seeds decide."""

import argparse
import json
from pathlib import Path

from causalcast.cli.shared.output import print_facts, progress_bar
from causalcast.nodeworld.campaign import NodeCampaign, facts_of, run_campaign
from causalcast.nodeworld.drawing import draw
from causalcast.nodeworld.plan_file import read_plan, text_of
from causalcast.nodeworld.shrink import shrink
from causalcast.nodeworld.trial import try_plan

SHOWN_FAILURES = 10


def run_nodes(options: argparse.Namespace) -> int:
    """Try all seeds, and say what happened."""
    processes = min(options.processes, len(options.seeds))
    with progress_bar(f"{len(options.seeds):,} seeds", quiet=options.json) as progress:
        campaign = run_campaign(
            options.protocol,
            options.seeds,
            processes,
            options.first,
            progress,
            options.clients,
            options.newcomers,
        )
    kept = _keep(campaign, options.keep) if options.keep and campaign.failures else None
    facts = facts_of(campaign)
    if kept is not None:
        facts["kept"] = str(kept)
    if options.json:
        print(json.dumps(facts))
    else:
        _tell(facts)
        print("verdict: " + ("ok" if campaign.succeeded() else "failed"))
    return 0 if campaign.succeeded() else 1


def _tell(facts: dict[str, object]) -> None:
    failures, never = facts.pop("failures"), facts.pop("never_fired")
    never_drawn = facts.pop("limits_never_drawn")
    assert isinstance(failures, list) and isinstance(never, list) and isinstance(never_drawn, list)
    print_facts(facts)
    for failure in failures[:SHOWN_FAILURES]:
        print(f"seed {failure['seed']}; again: {failure['repeat']}")
        for problem in failure["problems"]:
            print(f"  {problem}")
    for kind in never:
        print(f"never happened, so nothing is known about it: {kind}")
    for name in never_drawn:
        print(f"never drawn, so nothing is known about it: the limit {name}")


def _keep(campaign: NodeCampaign, folder: Path) -> Path:
    """Write the first world that failed, made small."""
    first = campaign.failures[0]
    plan, _, _ = shrink(
        draw(campaign.protocol, first.seed, campaign.clients, campaign.newcomers), first
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{Path(campaign.protocol).stem}_{first.seed}.json"
    path.write_text(text_of(plan))
    return path


def run_plan(path: Path, as_json: bool) -> int:
    """Try a world that was kept."""
    outcome = try_plan(read_plan(path))
    if as_json:
        facts = {"plan": str(path), "problems": outcome.problems, "fired": outcome.fired}
        print(json.dumps(facts))
    else:
        for problem in outcome.problems:
            print(problem)
        print("verdict: " + ("failed" if outcome.problems else "ok"))
    return 1 if outcome.problems else 0
