"""A leaf that stands in the tree from the start may come to life later, during traffic."""

import random

import pytest

from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.trial import try_scenario


def scenario(seed: int) -> Scenario:
    rng = random.Random(seed)
    nodes = rng.choice([3, 4, 6, 9])
    edges = [[rng.randrange(max(0, n - 3), n), n] for n in range(1, nodes)]
    ends = [end for edge in edges for end in edge]
    leaf = rng.choice([node for node in range(nodes) if ends.count(node) == 1])
    text = f"""
protocol = "locamu"
until_ms = 1000
seed = {seed}
[options]
f = {rng.choice([1, 2])}
[overlay]
kind = "edges"
nodes = {nodes}
edges = {edges}
[network]
latency_ms = {{kind = "exponential", mean = 10}}
loss = {rng.choice([0, 0.1])}
[groups]
all = "*"
few = {sorted(rng.sample(range(nodes), 2))}
[[publish]]
node = "random"
group = "random"
count = 30
interval_ms = 20
[[fault]]
at_ms = {rng.randrange(800)}
kind = "join"
node = {leaf}
[calm]
ms = 20000
"""
    return Scenario(text, f"seed {seed}")


@pytest.mark.parametrize("seed", range(30))
def test_nothing_is_missing_or_out_of_order(seed: int) -> None:
    trial = try_scenario(scenario(seed))
    assert trial.problems == []
    assert trial.fired["join"] == 1
