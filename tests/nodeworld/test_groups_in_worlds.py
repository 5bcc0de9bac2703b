"""Readers with names, and groups that are made and removed, in worlds that a seed decides."""

import pytest
from mutants_of_doors import WITH_GROUPS
from mutants_of_groups import MUTANTS

from causalcast.nodeworld.drawing import draw
from causalcast.nodeworld.trial import try_plan
from causalcast.swarm.mutant import Mutant

PROTOCOL = "vector_clock_broadcast"  # where groups can be made
SEEDS = 100


def test_they_are_drawn_and_nothing_is_wrong() -> None:
    fired: dict[str, int] = {}
    for seed in (6, 13, 40, 56):
        outcome = try_plan(draw(PROTOCOL, seed))
        assert outcome.problems == []
        fired |= {name: count for name, count in outcome.fired.items() if count}
    assert fired["reader"] > 0 and fired["reader_ended"] > 0 and fired["group_changed"] > 0


def test_the_same_seed_is_the_same_world() -> None:
    plan = draw(PROTOCOL, 10, clients=True)
    assert plan.has_readers and plan.makes_groups
    first, again = (try_plan(draw(PROTOCOL, 10, clients=True)) for _ in range(2))
    assert first.digest == again.digest and first.callbacks == again.callbacks
    assert first.fired["client_group_changed"] > 0


@pytest.mark.parametrize("seed", [6, 14, 15])
def test_a_removed_group_ends_its_reading_alone(seed: int) -> None:
    """A client that had read it went on nowhere, once its connection was lost."""
    assert try_plan(draw(PROTOCOL, seed, clients=True)).problems == []


def test_a_node_that_dies_does_not_refuse_to_make_a_group() -> None:
    """Its disk was full; clients were told that they may not, and did not ask again."""
    assert try_plan(draw(PROTOCOL, 1037, clients=True)).problems == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "clients"),
    [*((mutant, False) for mutant in MUTANTS), *((mutant, True) for mutant in WITH_GROUPS)],
    ids=[mutant.name for mutant in (*MUTANTS, *WITH_GROUPS)],
)
def test_it_is_found(mutant: Mutant, clients: bool) -> None:
    for seed in range(SEEDS):
        plan = draw(PROTOCOL, seed, clients=clients)
        if plan.has_readers or plan.makes_groups:
            with mutant.planted():
                problems = try_plan(plan).problems
            if problems:
                print(seed, problems[0])
                return
    raise AssertionError(f"{SEEDS} worlds did not find it")
