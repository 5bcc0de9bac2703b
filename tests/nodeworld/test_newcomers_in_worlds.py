"""Members that come late and take the state of a group, in worlds that a seed decides."""

import pytest
from mutants_of_newcomers import MUTANTS

from causalcast.errors import ConfigError
from causalcast.nodeworld.campaign import run_campaign
from causalcast.nodeworld.drawing import draw
from causalcast.nodeworld.trial import try_plan
from causalcast.swarm.mutant import Mutant

PROTOCOLS = (
    "vector_clock_broadcast",
    "psync",
    "first_generation",
    "compaction_multicast",
    "compaction_pairwise",
    "viewed_broadcast",
)
SEEDS = 120  # until each bug is found


def test_the_same_seed_is_the_same_world() -> None:
    first, again = (try_plan(draw("psync", 3, newcomers=True)) for _ in range(2))
    assert first.digest == again.digest and first.callbacks == again.callbacks
    assert first.fired["state_taken"] > 0 and first.problems == []


def test_without_newcomers_it_is_the_same_world() -> None:
    alone, joined = draw("psync", 7), draw("psync", 7, newcomers=True)
    assert alone.newcomers == {} and joined.newcomers
    assert alone.machines == joined.machines and alone.latency_ms == joined.latency_ms


def test_protocols_that_hand_over_no_state_are_refused() -> None:
    with pytest.raises(ConfigError, match="offers states"):
        draw("locamu", 1, newcomers=True)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nothing_is_wrong(protocol: str) -> None:
    campaign = run_campaign(protocol, range(3), processes=1, newcomers=True)
    assert not campaign.failures, campaign.failures


@pytest.mark.slow
def test_nothing_is_wrong_in_more_worlds() -> None:
    campaign = run_campaign(PROTOCOLS[0], range(60), processes=1, newcomers=True)
    assert not campaign.failures, campaign.failures
    assert campaign.never_fired() == []


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_it_is_found(mutant: Mutant) -> None:
    for seed in range(SEEDS):
        with mutant.planted():
            problems = try_plan(draw(PROTOCOLS[0], seed, newcomers=True)).problems
        if problems:
            print(seed, problems[0])
            return
    raise AssertionError(f"{SEEDS} worlds did not find it")
