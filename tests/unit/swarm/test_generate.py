"""Scenarios from seeds: what they draw is within the promise."""

import pytest

from causalcast.swarm.campaign import Plan, try_seed


@pytest.mark.parametrize(
    ("protocol", "seed"),
    [
        ("delta_neighbourhood", 20402),  # a line of 27 nodes, one message at a time
    ],
)
def test_there_is_time_for_everything_to_arrive(protocol: str, seed: int) -> None:
    assert try_seed(Plan(protocol, {}), seed).problems == []
