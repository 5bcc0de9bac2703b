"""Catches mutants and writes the table of the docs: `make mutants`.

`python tests/mutants/mutant_table.py PROTOCOL …` does so for some protocols only.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from causalcast.swarm.campaign import Plan, run_campaign, try_seed
from causalcast.swarm.mutant import Mutant, find_mutant, mutants_of
from causalcast.swarm.real_worlds import PLAIN
from causalcast.swarm.shrink import shrink
from causalcast.swarm.trial import Trial

HERE = Path(__file__).parent
FILES = [
    path for path in sorted(HERE.glob("*.py")) if path.stem not in ("mutant_table", "test_mutants")
]
DOCS = HERE.parent.parent / "docs" / "mutants.md"
SEEDS = 1000
FEW_SEEDS = 150
PATIENCE_S = 1200.0  # enough to come to an end: the table must not depend on the machine
HEAD = """\
| protocol | mutant | the mechanism it takes away | what broke | random | adversary | events |
| --- | --- | --- | --- | --- | --- | --- |
"""


@dataclass(frozen=True)
class Caught:
    """How a mutant was noticed."""

    protocol: str
    mutant: str
    mechanism: str
    property: str
    random: int | None
    adversary: int | None
    events: int

    def row(self) -> str:
        """A line of the table; seeds are counted from one."""
        tries = [
            str(seed + 1) if seed is not None else "–" for seed in (self.random, self.adversary)
        ]
        cells = [f"`{self.protocol}`", f"`{self.mutant}`", self.mechanism, self.property]
        return "| " + " | ".join([*cells, *tries, str(self.events)]) + " |"


def catch(path: Path, mutant: Mutant) -> Caught:
    """Look for it with random scenarios and with the adversary; long only if neither finds it."""
    for most in (FEW_SEEDS, SEEDS):
        seeds = {by: first_seed(plan_for(path, mutant, by), most) for by in ("random", "adversary")}
        if any(seed is not None for seed in seeds.values()):
            break
    return made_small(path, mutant, seeds["random"], seeds["adversary"])


def first_seed(plan: Plan, most: int) -> int | None:
    """The first seed that notices the planted mutant."""
    campaign = run_campaign(plan, range(most), stop_at_first=True)
    return campaign.failures[0].seed if campaign.failures else None


def made_small(
    path: Path,
    mutant: Mutant,
    random: int | None,
    adversary: int | None,
    patience_s: float = PATIENCE_S,
) -> Caught:
    """What these seeds show of a mutant; the smaller counter-example counts."""
    trials = shown_by(path, mutant, random, adversary)
    assert trials, f"{mutant.name} was not noticed in {SEEDS} seeds"
    with mutant.planted():
        shrunk = [shrink(trial, (), path.stem, patience_s=patience_s) for trial in trials]
    events = min(small.events for small in shrunk)
    broken = trials[0].problems[0].property
    name, mechanism = mutant.name, mutant.mechanism
    return Caught(path.stem, name, mechanism, broken, random, adversary, events)


def shown_by(path: Path, mutant: Mutant, random: int | None, adversary: int | None) -> list[Trial]:
    """The trials of these seeds; each must notice the mutant."""
    found = []
    for by, seed in (("random", random), ("adversary", adversary)):
        if seed is not None:
            plan = plan_for(path, mutant, by)
            with mutant.planted():
                trial = try_seed(plan, seed)
            assert trial.problems, f"{mutant.name} was not noticed; {plan.repeat(seed)}"
            found.append(trial)
    return found


def plan_for(path: Path, mutant: Mutant, by: str) -> Plan:
    """A campaign with the mutant planted."""
    overlay = "mesh" if mutant.for_good else ""
    return Plan(
        path.stem,
        dict(mutant.options),
        overlay,
        by,
        mutants=str(path),
        mutant=mutant.name,
        for_good=mutant.for_good,
        facts=PLAIN,
    )


def catch_by_name(path: Path, name: str) -> Caught:
    """The same in a process of its own, where functions of mutants cannot be sent."""
    return catch(path, find_mutant(path, name))


def seeds_of_the_docs(protocol: str, mutant: str) -> tuple[int | None, int | None]:
    """At which seeds the table says that it is noticed."""
    cells = [cell.strip() for cell in row_of_the_docs(protocol, mutant).strip("|").split("|")]
    random, adversary = (None if cell == "–" else int(cell) - 1 for cell in cells[4:6])
    return random, adversary


def row_of_the_docs(protocol: str, mutant: str) -> str:
    """The line of the table that is about this mutant."""
    for row in rows_of_the_docs():
        if row.startswith(f"| `{protocol}` | `{mutant}` |"):
            return row
    raise AssertionError(f"{mutant} of {protocol} stands in no row: run `make mutants`")


def rows_of_the_docs() -> list[str]:
    """The lines of the table that are about mutants."""
    return [line for line in DOCS.read_text().splitlines() if line.startswith("| `")]


def main() -> None:
    """Catch all mutants, or those of the protocols that are named; other rows stay."""
    wanted = sys.argv[1:] or [path.stem for path in FILES]
    chosen = [path for path in FILES if path.stem in wanted]
    named = [(path, mutant.name) for path in chosen for mutant in mutants_of(path)]
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        caught = list(pool.map(catch_by_name, *zip(*named, strict=True)))
    text = DOCS.read_text()
    start, end = text.index(HEAD), text.index("\n\n", text.index(HEAD))
    kept = [row for row in rows_of_the_docs() if row.split("`")[1] not in wanted]
    rows = sorted([*kept, *(one.row() for one in caught)], key=lambda row: row.split("`")[1])
    DOCS.write_text(text[:start] + HEAD + "\n".join(rows) + text[end:])
    print(f"{len(caught)} mutants, all noticed", file=sys.stderr)


if __name__ == "__main__":
    main()
