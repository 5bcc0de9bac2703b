"""Random scenarios and the adversary, in short: how many seeds a protocol was tried with, and what
was found wrong. `causalcast swarm` tries more."""

from typing import Any

from causalcast.swarm.campaign import Plan, try_seed


def seeds(values: dict[str, Any]) -> dict[str, Any]:
    """So many seeds from 0 on, judged by what is promised or by `check`."""
    check = tuple(values["check"].split()) if "check" in values else ()
    facts = {"facts": values["facts"]} if "facts" in values else {}
    options = {
        key.removeprefix("options."): value
        for key, value in values.items()
        if key.startswith("options.")
    }
    plan = Plan(values["protocol"], options, values.get("overlay", ""), check=check, **facts)
    bad: dict[str, int] = {}
    failed = 0
    for seed in range(values["seeds"]):
        problems = try_seed(plan, seed).problems
        failed += bool(problems)
        for problem in problems:
            bad[problem.property] = bad.get(problem.property, 0) + 1
    return {
        "seeds_that_failed": failed,
        "found": ", ".join(f"{name} {count}" for name, count in sorted(bad.items())) or None,
    }
