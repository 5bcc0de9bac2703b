"""Does a search that learns find more than drawing anew? CPU seconds to the first find.

The bugs are planted ones that take drawing anew long, see docs/mutants.md and docs/rediscovered.md.
For each the two searches take turns, from other seeds each time. What a search finds counts only if
the same scenario is clean without the bug. A search that finds nothing within `--limit` CPU seconds
counts as that long. `--by` is what both draw from. With `--reached PROTOCOL` no bug is planted:
counted is how much either reaches (notes, messages in states, branches) in `--limit` CPU seconds.
"""

import argparse
import json
import logging
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm import feedback
from causalcast.swarm.campaign import Plan, try_seed
from causalcast.swarm.feedback import LIFE, Search
from causalcast.swarm.mutant import Mutant, find_mutant
from causalcast.swarm.past_bug import PastBug
from causalcast.swarm.trial import Trial, try_scenario
from causalcast.version import VERSION, build_kind

TESTS = Path(__file__).parent.parent / "tests"
FAR = 1_000_000  # seeds between two repetitions
HARD = (
    "causal_barriers:others_barriers_dropped",
    "causal_barriers:outsiders_not_entrusted",
    "cbcast:foreign_counts_dropped",
    "cbcast:outsiders_not_entrusted",
    "cbcast:farewell_not_heard",
    "compaction_pairwise:slots_not_put_together",
    "first_generation:recent_not_in_snapshot",
    "psync:leaves_not_restored",
    "psync:leaf_one_behind",
    "vector_clock_broadcast:held_not_in_snapshot",
)


@dataclass
class Tries:
    """How long a search took, once per repetition."""

    seconds: list[float]
    trials: list[int]
    found: int = 0

    def median(self) -> float:
        """The median of the CPU seconds."""
        return statistics.median(self.seconds)

    def cell(self, limit: float) -> str:
        """How it stands in the table."""
        median = self.median()
        told = f"{median:.1f}" if median < limit else f"> {limit:.0f}"
        return f"{told} ({self.found} of {len(self.seconds)})"


def plan_and_bug(name: str, by: str) -> tuple[Plan, Mutant]:
    """Where a bug is looked for, and the bug."""
    file, _, bug = name.partition(":")
    if file.startswith("bugs_of_"):
        past = find_mutant(TESTS / "rediscover" / f"{file}.py", bug)
        assert isinstance(past, PastBug)
        place = next(place for place in past.places if not place.nodes)
        options = dict(place.options)
        plan = Plan(
            place.protocol,
            options,
            place.overlay,
            by,
            gives_up=place.gone,
            for_good=place.for_good,
            facts="plain",
        )
        return plan, past
    mutant = find_mutant(TESTS / "mutants" / f"{file}.py", bug)
    overlay = "mesh" if mutant.for_good else ""
    options, dies = dict(mutant.options), mutant.for_good
    return Plan(file, options, overlay, by, for_good=dies, facts="plain"), mutant


def anew(plan: Plan, first: int) -> Iterator[Trial]:
    """Seed after seed."""
    for seed in range(first, first + FAR):
        yield try_seed(plan, seed)


def by_feedback(plan: Plan, first: int) -> Iterator[Trial]:
    """One search after the other."""
    for start in range(first, first + FAR, LIFE):
        search = Search(plan, start)
        for number in range(start, start + LIFE):
            yield search.trial(number)


def once(plan: Plan, bug: Mutant, trials: Iterator[Trial], limit: float) -> tuple[float, int, bool]:
    """CPU seconds and trials up to the first find, and whether there was one."""
    count, spent = 0, 0.0
    while spent < limit:
        began = time.process_time()
        with bug.planted():
            trial = next(trials)
        spent += time.process_time() - began
        count += 1
        if trial.problems and is_clean_without(plan, trial):
            return spent, count, True
    return limit, count, False


def is_clean_without(plan: Plan, trial: Trial) -> bool:
    """Whether the same scenario has no problem once the bug is gone."""
    broken = trial.problems[0].property
    again = try_scenario(Scenario(trial.text, "again", protocol=plan.protocol), plan.properties())
    return broken not in again.broken()


def compare(name: str, by: str, repeats: int, limit: float) -> dict[str, Tries]:
    """Both searches for one bug, in turns."""
    plan, bug = plan_and_bug(name, by)
    results = {"anew": Tries([], []), "feedback": Tries([], [])}
    for number in range(repeats):
        for way, search in (("anew", anew), ("feedback", by_feedback)):
            spent, count, found = once(plan, bug, search(plan, FAR * (number + 1)), limit)
            results[way].seconds.append(round(spent, 2))
            results[way].trials.append(count)
            results[way].found += found
            print(f"{name} {way}: {count} trials, {spent:.1f} s", file=sys.stderr, flush=True)
    return results


def reached(protocol: str, by: str, limit: float, drawn_anew: float) -> tuple[int, int]:
    """How much a search reaches that draws so much of it anew, and in how many trials."""
    usual, feedback.DRAWN_ANEW = feedback.DRAWN_ANEW, drawn_anew  # type: ignore[misc]
    try:
        search, count, began = Search(Plan(protocol, by=by), 0), 0, time.process_time()
        while time.process_time() - began < limit:
            search.trial(count)
            count += 1
    finally:
        feedback.DRAWN_ANEW = usual  # type: ignore[misc]
    return len(search.times), count


def compare_reach(protocols: list[str], by: str, limit: float) -> None:
    """Both with the same eyes: the one that draws anew is watched as well."""
    print("| protocol | reached anew (trials) | by feedback (trials) | times as much |")
    print("| --- | --- | --- | --- |")
    for protocol in protocols:
        anew_, fed = (reached(protocol, by, limit, share) for share in (1.0, feedback.DRAWN_ANEW))
        cells = [f"{things:,} ({trials:,})" for things, trials in (anew_, fed)]
        print(f"| `{protocol}` | {' | '.join(cells)} | {fed[0] / anew_[0]:.1f} |", flush=True)


def main() -> int:
    """Compare for all bugs, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bug", action="append", help="FILE:NAME; by default some hard ones")
    parser.add_argument("--reached", action="append", help="a protocol; may be repeated")
    parser.add_argument("--by", default="adversary", help="random, adversary, both or stories")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--limit", type=float, default=60.0, help="CPU seconds of each search")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    print(f"causalcast {VERSION} ({build_kind()})", file=sys.stderr)
    if options.reached:
        compare_reach(options.reached, options.by, options.limit)
        return 0
    found = {
        name: compare(name, options.by, options.repeats, options.limit)
        for name in options.bug or HARD
    }
    if options.json:
        told = {
            name: {way: asdict(one) for way, one in both.items()} for name, both in found.items()
        }
        print(json.dumps({"by": options.by, "limit": options.limit, "bugs": told}))
        return 0
    print("| bug | anew, CPU s | feedback, CPU s | times sooner |\n| --- | --- | --- | --- |")
    for name, both in found.items():
        cells = [one.cell(options.limit) for one in both.values()]
        ratio = both["anew"].median() / max(both["feedback"].median(), 0.01)
        print(f"| `{name.replace(':', '` `')}` | {' | '.join(cells)} | {ratio:.1f} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
