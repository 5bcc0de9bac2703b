"""Clients at the doors of whole nodes, in worlds that a seed decides."""

import pytest
from mutants_of_doors import MUTANTS

from causalcast.nodeworld.campaign import run_campaign
from causalcast.nodeworld.drawing import draw
from causalcast.nodeworld.trial import try_plan
from causalcast.swarm.mutant import Mutant

PROTOCOLS = ("vector_clock_broadcast", "cbcast", "locamu", "causal_separators")
SEEDS = 60


def test_the_same_seed_is_the_same_world() -> None:
    first, again = (try_plan(draw("cbcast", 12, clients=True)) for _ in range(2))
    assert first.digest == again.digest and first.callbacks == again.callbacks
    assert first.fired["client_moved"] > 0 and first.problems == []


def test_without_clients_it_is_the_same_world() -> None:
    alone, visited = draw("locamu", 7), draw("locamu", 7, clients=True)
    assert alone.clients == 0 and visited.clients > 0
    assert alone.machines == visited.machines and alone.latency_ms == visited.latency_ms


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nothing_is_wrong(protocol: str) -> None:
    campaign = run_campaign(protocol, range(4), processes=1, clients=True)
    assert not campaign.failures, campaign.failures


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS[:2])
def test_nothing_is_wrong_in_more_worlds(protocol: str) -> None:
    campaign = run_campaign(protocol, range(50), processes=1, clients=True)
    assert not campaign.failures, campaign.failures


def test_after_a_gap_in_one_group_no_effect_comes_in_another() -> None:
    """What waits in the queue behind the gap is not given to the program."""
    assert try_plan(draw("cbcast", 57, clients=True)).problems == []


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_it_is_found(mutant: Mutant) -> None:
    for seed in range(SEEDS):
        with mutant.planted():
            problems = try_plan(draw(PROTOCOLS[seed % len(PROTOCOLS)], seed, clients=True)).problems
        if problems:
            print(seed, problems[0])
            return
    raise AssertionError(f"{SEEDS} worlds did not find it")
