"""One sender at full speed: LoCaMu's rate does not depend on the size of the tree (S000, figure 6).

Links are the only limit: the rate is the share of bandwidth of the busiest link over the size of a
frame (checklist of oracles: link share / (8 · (payload + metadata))).
"""

import pytest

from causalcast.simulator.scenario_run import ScenarioRun
from causalcast.simulator.scenarios.scenario import Scenario

PAYLOAD = 512
SHARE_MBPS = 100 / 3  # what a node sends with, split among the three links of an inner node


def rate_of(nodes: int, until_ms: float) -> float:
    """Publications per second that reach the last leaf while the root sends at full speed."""
    text = f"""
protocol = "locamu"
until_ms = {until_ms}
[overlay]
kind = "tree"
nodes = {nodes}
degree = 3
[network]
latency_ms = 1.0
bandwidth_mbps = 100
[[publish]]
at_ms = 0
node = 0
count = 100000
interval_ms = 0
payload_bytes = {PAYLOAD}
[calm]
ms = 60
"""
    running = ScenarioRun(Scenario(text, "test"), "deliveries")
    running.run()
    rows = running.recorder.table().to_pylist()
    last = [r["at_us"] for r in rows if r["kind"] == "deliver" and r["node"] == nodes - 1]
    assert len(last) > 20
    return (len(last) - 1) / (last[-1] - last[0]) * 1e6


def expected(metadata: int) -> float:
    return SHARE_MBPS * 1e6 / (8 * (PAYLOAD + metadata))


@pytest.fixture(scope="module")
def small() -> float:
    return rate_of(63, 10)


def test_the_rate_is_what_the_links_allow(small: float) -> None:
    """Acknowledgements share the links, so it is a little less than copies alone would have."""
    assert 0.85 * expected(40) < small < expected(20)


@pytest.mark.slow
@pytest.mark.parametrize(("nodes", "until_ms"), [(511, 5), (1023, 4)])
def test_it_is_the_same_in_larger_trees(small: float, nodes: int, until_ms: float) -> None:
    assert rate_of(nodes, until_ms) == pytest.approx(small, rel=0.05)
