"""Whole nodes in a world that a seed decides: the same seed, the same world, and nothing wrong."""

import pytest

from causalcast.nodeworld.campaign import run_campaign
from causalcast.nodeworld.drawing import draw
from causalcast.nodeworld.trial import try_plan

PROTOCOLS = (
    "vector_clock_broadcast",
    "viewed_broadcast",
    "cbcast",
    "locamu",
    "causal_separators",
    "cptcast",
)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_same_seed_is_the_same_world(protocol: str) -> None:
    first, again = (try_plan(draw(protocol, 3)) for _ in range(2))
    assert first.digest == again.digest and first.callbacks == again.callbacks
    assert first.publications > 0 and first.problems == []
    assert try_plan(draw(protocol, 5)).digest != first.digest


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nothing_is_wrong(protocol: str) -> None:
    campaign = run_campaign(protocol, range(8), processes=1)
    assert not campaign.failures, campaign.failures


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nothing_is_wrong_in_more_worlds(protocol: str) -> None:
    """So many that everything that can happen, and every limit that can matter, was there."""
    campaign = run_campaign(protocol, range(60), processes=1)
    assert not campaign.failures, campaign.failures
    assert campaign.never_fired() == [] and campaign.never_drawn() == []
