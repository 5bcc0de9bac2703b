"""Whole nodes in a world that a seed decides: the same seed, the same world, and nothing wrong."""

from pathlib import Path

import pytest

from causalcast.errors import ConfigError
from causalcast.nodeworld.campaign import run_campaign
from causalcast.nodeworld.plan import draw
from causalcast.nodeworld.trial import try_plan

PROTOCOLS = ("vector_clock_broadcast", "cbcast", "locamu", "causal_separators")


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
    campaign = run_campaign(protocol, range(30), processes=2)
    assert campaign.succeeded(), campaign.failures
    assert {"kill", "power", "full", "silence", "compaction"} <= set(campaign.fired)


def test_a_protocol_whose_nodes_forget_is_refused() -> None:
    example = Path(__file__).parents[2] / "examples" / "my_protocol.py"
    with pytest.raises(ConfigError, match="come back as somebody new"):
        run_campaign(str(example), range(1), processes=1)
