"""Bugs of the runtime, planted one at a time: a few worlds find each of them."""

import pytest
from mutants_of_nodes import MUTANTS

from causalcast.nodeworld.drawing import draw
from causalcast.nodeworld.trial import try_plan
from causalcast.swarm.mutant import Mutant

SEEDS = 60
PROTOCOLS = ("vector_clock_broadcast", "cbcast", "locamu")
VECTORS = ("vector_clock_broadcast",)  # their publications travel as runs
JOINED = ("cptcast",)  # only there somebody can be left behind


def found_at(mutant: Mutant) -> tuple[str, int, str] | None:
    """The first world that finds it, and what is wrong there."""
    protocols = VECTORS if mutant.name.startswith("run") else PROTOCOLS
    protocols = JOINED if mutant.name.startswith("left_behind") else protocols
    for seed in range(SEEDS):
        protocol = protocols[seed % len(protocols)]
        with mutant.planted():
            problems = try_plan(draw(protocol, seed)).problems
        if problems:
            return protocol, seed, problems[0]
    return None


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_it_is_found(mutant: Mutant) -> None:
    found = found_at(mutant)
    assert found is not None, f"{SEEDS} worlds did not find it"
    print(found)


def test_there_are_enough_of_each_kind() -> None:
    """Every part of a node that keeps or carries something has a bug of its own."""
    names = " ".join(mutant.name for mutant in MUTANTS)
    for part in (
        "admission",
        "outlet",
        "inbox",
        "journal",
        "compaction",
        "greeting",
        "dial",
        "run",
    ):
        assert part in names
    assert len(MUTANTS) >= 26 and len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
