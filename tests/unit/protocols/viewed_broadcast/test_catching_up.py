"""Whoever was away for long gets everything, however little of it fits into one answer."""

import pytest

from causalcast.protocols.viewed_broadcast import copies, exchange
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.trial import try_scenario

# Node 2 is away while node 1 says one thing, and node 0 says sixty that follow it. Others tell of
# node 0 first, since they heard of it first.
STORY = """
protocol = "viewed_broadcast"
until_ms = 3000
[overlay]
kind = "full_mesh"
nodes = 3
[groups]
all = "*"
[[publish]]
at_ms = 1
node = 0
group = "all"
[[fault]]
at_ms = 10
kind = "crash"
node = 2
[[publish]]
at_ms = 20
node = 1
group = "all"
[[publish]]
at_ms = 100
node = 0
group = "all"
count = 60
interval_ms = 1
[calm]
ms = 30000
recover_all = true
"""


def test_what_is_too_far_ahead_does_not_keep_away_what_it_waits_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(copies.MOST_AHEAD, "value", 5)
    monkeypatch.setattr(exchange.FETCH_COUNT, "value", 3)
    trial = try_scenario(Scenario(STORY, "test"))
    assert trial.problems == []
    assert trial.run is not None
