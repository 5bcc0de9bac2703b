"""Makes a world that fails small: what can be left out is left out."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from causalcast.nodeworld.plan import Plan
from causalcast.nodeworld.trial import try_plan
from causalcast.nodeworld.verdict import Outcome

MOST_TRIALS: Final = 200

# What a world is like if nothing is to be noticed of it.
PLAIN: Final[dict[str, Any]] = {
    "latency_ms": 1.0,
    "bytes_per_second": 0,
    "largest_piece": 1 << 16,
    "sync_ms": 0.1,
    "largest_body": 10,
}


def kind_of(problem: str) -> str:
    """What a problem is, without numbers and names."""
    return re.sub(r"\d+", "N", problem.split(":", maxsplit=1)[0])


def shrink(
    plan: Plan, outcome: Outcome, attempt: Callable[[Plan], Outcome] = try_plan
) -> tuple[Plan, Outcome, int]:
    """The smallest world found that fails in the same way, and in how many trials."""
    kind = kind_of(outcome.problems[0])
    trials = 0
    goes_on = True
    while goes_on:
        goes_on = False
        for smaller in _smaller(plan):
            if trials == MOST_TRIALS:
                return plan, outcome, trials
            trials += 1
            found = attempt(smaller)
            if any(kind_of(problem) == kind for problem in found.problems):
                plan, outcome, goes_on = smaller, found, True
                break
    return plan, outcome, trials


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Plans with something less, the boldest first."""
    events, limits = plan.events, plan.drawn_limits
    for size in _sizes(len(events)):
        for first in range(0, len(events), size):
            yield replace(plan, events=events[:first] + events[first + size :])
    for size in _sizes(len(plan.client_events)):
        for first in range(0, len(plan.client_events), size):
            rest = plan.client_events[:first] + plan.client_events[first + size :]
            yield replace(plan, client_events=rest)
    names = list(limits)
    for size in _sizes(len(names)):
        for first in range(0, len(names), size):
            left_out = set(names[first : first + size])
            kept = {name: value for name, value in limits.items() if name not in left_out}
            yield replace(plan, drawn_limits=kept)
    for name, value in PLAIN.items():
        if getattr(plan, name) != value:
            yield replace(plan, **{name: value})
    if plan.publications > 1:
        yield replace(plan, publications=plan.publications // 2)


def _sizes(count: int) -> list[int]:
    """How many are left out at once: all, half of them, … one."""
    sizes = []
    while count:
        sizes.append(count)
        count //= 2
    return sizes
