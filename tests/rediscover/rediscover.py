"""Looks for bugs that this project once had, and writes the table of the docs: `make rediscover`.

`python tests/rediscover/rediscover.py --only NAME` does so for one of them, and writes nothing.
A find counts only if the same seed is clean without the bug.
"""

import argparse
import json
import logging
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cache
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

from causalcast.cli.shared.output import progress_bar
from causalcast.nodeworld.drawing import draw
from causalcast.nodeworld.trial import try_plan
from causalcast.swarm.campaign import try_seed
from causalcast.swarm.mutant import mutants_of
from causalcast.swarm.past_bug import PastBug, Place

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("bugs_of_*.py"))
DOCS = HERE.parent.parent / "docs" / "rediscovered.md"
MOST_SEEDS = 20_000
FOREVER = float("inf")
MOST_TOGETHER = 12  # bugs that are looked for at once
HEAD = """\
| bug | what went wrong | mended in | found by | where | seeds | CPU s | what was seen |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""


@dataclass
class Rediscovered:
    """What came of looking for a bug."""

    file: str
    bug: str
    was: str
    mended: str
    found: bool = False
    place: str = ""
    world: str = ""
    seed: int = -1
    seeds: int = 0  # tried in that place; in all of them if it was not found
    cpu_seconds: float = 0.0  # in all places
    seen: str = ""
    fail_anyway: int = 0  # seeds that fail without the bug, too, and do not count
    rounds: int = 0  # of looking, so far

    def is_over(self, most: int, most_cpu: float = FOREVER) -> bool:
        """Whether it was found, or nothing is left to try."""
        return self.share(most, most_cpu) >= 1.0

    def share(self, most: int, most_cpu: float = FOREVER) -> float:
        """How much of the search is done, from 0 to 1."""
        if self.found:
            return 1.0
        rounds = sum(1 for _ in all_bugs()[self.bug][1].rounds(most))
        return max(self.rounds / rounds, self.cpu_seconds / most_cpu)

    def in_words(self) -> str:
        """What came of it, in a line."""
        how = f"{self.world}, {self.place}, seed {self.seed}" if self.found else "NOT FOUND"
        took = f"{self.seeds} seeds, {self.cpu_seconds} CPU s"
        return f"{self.bug}: {how} ({took}) {self.seen[:90]}"

    def row(self) -> str:
        """A line of the table."""
        where = f"`{self.place}`" if self.found else "–"
        cells = [f"`{self.bug}`", self.was, f"`{self.mended}`", self.world or "**nobody**", where]
        seen = self.seen.split(":")[0]
        return "| " + " | ".join([*cells, str(self.seeds), f"{self.cpu_seconds:.1f}", seen]) + " |"


@cache
def all_bugs() -> dict[str, tuple[Path, PastBug]]:
    """Every bug by its name, and the file that it stands in."""
    found: dict[str, tuple[Path, PastBug]] = {}
    for path in FILES:
        for bug in mutants_of(path):
            assert isinstance(bug, PastBug), f"{path}: {bug.name} is no past bug"
            assert bug.name not in found, f"two bugs are called {bug.name}"
            found[bug.name] = path, bug
    return found


def problem_of(place: Place, seed: int) -> str:
    """What is wrong in the world of a seed; empty if nothing is."""
    if place.nodes:
        plan = draw(place.protocol, seed)
        if place.tale and plan.tale != place.tale:
            return ""
        told = try_plan(plan).problems
        return told[0] if told else ""
    problems = try_seed(place.plan(), seed).problems
    return f"{problems[0].property}: {problems[0].detail}" if problems else ""


def look_for(name: str, most: int = MOST_SEEDS) -> Rediscovered:
    """Look for a bug in one place after the other; the first seed that shows it ends the search."""
    result = nothing_yet(name)
    while not result.is_over(most):
        [result] = look_further([result], most)
    return result


def nothing_yet(name: str) -> Rediscovered:
    """Before the first seed."""
    path, bug = all_bugs()[name]
    return Rediscovered(path.name, bug.name, bug.mechanism, bug.mended)


def look_further(results: list[Rediscovered], most: int) -> list[Rediscovered]:
    """Try the next seeds of bugs that are looked for in the same place now, all planted at once.

    What shows then is tried with each of them alone: that alone counts. It is much cheaper, and may
    only miss what one bug hides from another.
    """
    place, seeds = next_of(results[0], most)
    began = time.process_time()
    logging.disable(logging.CRITICAL)  # nodes say much when they are treated like this
    try:
        _try_seeds(results, place, seeds)
    finally:
        logging.disable(logging.NOTSET)
    share = (time.process_time() - began) / len(results)
    for one in results:
        one.seeds = one.seed + 1 if one.found else one.seeds + len(seeds)
        one.rounds += 1
        one.cpu_seconds = round(one.cpu_seconds + share, 1)
    return results


def _try_seeds(results: list[Rediscovered], place: Place, seeds: range) -> None:
    left, at = list(results), seeds.start
    while left and at < seeds.stop:
        at = _until_something_shows(left, place, range(at, seeds.stop))
        if at < seeds.stop:
            _try_each(left, place, at)
            left = [one for one in left if not one.found]
            at += 1


def next_of(result: Rediscovered, most: int) -> tuple[Place, range]:
    """Where a bug is looked for next."""
    return next(islice(all_bugs()[result.bug][1].rounds(most), result.rounds, None))


def _until_something_shows(left: list[Rediscovered], place: Place, seeds: range) -> int:
    """The first of these seeds in which something is wrong while all these bugs are planted."""
    with ExitStack() as stack:
        for one in left:
            stack.enter_context(all_bugs()[one.bug][1].planted())
        return next((seed for seed in seeds if problem_of(place, seed)), seeds.stop)


def _try_each(left: list[Rediscovered], place: Place, seed: int) -> None:
    """Which of these bugs does this seed show by itself?"""
    if problem_of(place, seed):
        for one in left:
            one.fail_anyway += 1
        return
    for one in left:
        with all_bugs()[one.bug][1].planted():
            problem = problem_of(place, seed)
        if problem:
            one.found, one.seed, one.seen = True, seed, problem
            one.place, one.world = place.in_words(), place.world_of(seed)


def together(open_ones: list[Rediscovered], most: int) -> list[list[Rediscovered]]:
    """Those that are looked for in the same place next, and change different functions."""
    groups: list[tuple[object, set[tuple[int, str]], list[Rediscovered]]] = []
    for one in open_ones:
        where = next_of(one, most)
        changed = {(id(p.owner), p.name) for p in all_bugs()[one.bug][1].patches}
        for place, taken, group in groups:
            if place == where and not taken & changed and len(group) < MOST_TOGETHER:
                taken |= changed
                group.append(one)
                break
        else:
            groups.append((where, set(changed), [one]))
    return [group for _, _, group in groups]


def main() -> int:
    """Look for all bugs, or those that are named, and tell."""
    options = _arguments()
    names = options.only or list(all_bugs())
    known = _kept(options.keep)
    results = {name: known.get(name) or nothing_yet(name) for name in names}
    limits = (options.most_seeds, options.most_cpu)
    with progress_bar("bugs") as progress:
        for one in _rounds(results, *limits, options.processes):
            results[one.bug] = one
            if progress is not None:
                progress(sum(min(1.0, o.share(*limits)) for o in results.values()) / len(results))
            if one.is_over(*limits):
                print(one.in_words(), file=sys.stderr, flush=True)
                if options.write:
                    write_table([one])
            if options.keep is not None:
                options.keep.write_text(json.dumps([asdict(o) for o in (known | results).values()]))
    if options.json:
        print(json.dumps([asdict(one) for one in results.values()], indent=1))
    if options.write:
        write_table(list(results.values()))
    missed = [name for name, one in results.items() if not one.found]
    print(f"{len(results) - len(missed)} of {len(results)} found", file=sys.stderr)
    return 0 if len(missed) <= len(results) // 10 else 1


def _kept(path: Path | None) -> dict[str, Rediscovered]:
    if path is None or not path.exists():
        return {}
    return {one["bug"]: Rediscovered(**one) for one in json.loads(path.read_text())}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", help="this one; may be given several times")
    parser.add_argument("--most-seeds", type=int, default=MOST_SEEDS, help="in each place")
    parser.add_argument("--most-cpu", type=float, default=FOREVER, help="seconds for each")
    parser.add_argument("--processes", type=int, default=1, help="bugs that are looked for at once")
    parser.add_argument("--keep", type=Path, help="what is known so far; goes on from there")
    parser.add_argument("--json", action="store_true", help="tell it to machines")
    parser.add_argument("--write", action="store_true", help="into the table of the docs")
    return parser.parse_args()


def _rounds(
    results: dict[str, Rediscovered], most: int, most_cpu: float, processes: int
) -> Iterator[Rediscovered]:
    """Some seeds of every bug, then more of those that were not found: the easy ones come first."""
    with ExitStack() as stack:
        do: Callable[..., Iterable[list[Rediscovered]]] = map
        if processes > 1:
            do = stack.enter_context(ProcessPoolExecutor(processes, get_context("spawn"))).map
        while open_ones := [one for one in results.values() if not one.is_over(most, most_cpu)]:
            groups = together(open_ones, most)
            for looked in do(look_further, groups, [most] * len(groups)):
                yield from looked


def rows_of_the_docs() -> dict[str, str]:
    """The lines of the table, by the names of the bugs."""
    start, end = _table(DOCS.read_text())
    rows = DOCS.read_text()[start:end].splitlines()
    return {row.split("`")[1]: row for row in rows}


def write_table(found: list[Rediscovered]) -> None:
    """Rows of bugs that were looked for now replace those of before."""
    text = DOCS.read_text()
    start, end = _table(text)
    rows = rows_of_the_docs() | {one.bug: one.row() for one in found}
    kept = [rows[name] for name in all_bugs() if name in rows]
    text = text[:start] + "".join(f"{row}\n" for row in kept) + text[end:]
    DOCS.write_text(re.sub(r"^\*\*\d+ of \d+ are found\*\*.*$", share_of(kept), text, flags=re.M))


def share_of(rows: list[str]) -> str:
    """How many are found, and by which world, in a line."""
    worlds = Counter(row.split(" | ")[3] for row in rows)
    missed = worlds.pop("**nobody**", 0)
    by = ", ".join(f"{count} by {world}" for world, count in worlds.most_common())
    return f"**{len(rows) - missed} of {len(rows)} are found**: {by}."


def _table(text: str) -> tuple[int, int]:
    """Where its rows begin and end."""
    start = text.index(HEAD) + len(HEAD)
    return start, text.index("\n\n", start - 1) + 1


if __name__ == "__main__":
    sys.exit(main())
