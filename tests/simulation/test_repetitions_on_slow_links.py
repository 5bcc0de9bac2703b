"""A link that has not sent yet what it was given gets no repetitions: they would only come later.

Before protocols looked at that, LoCaMu sent 22 times the bodies over links that are slower than its
timers, and CBCAST more than 200 times.
"""

import pytest

from causalcast.parts.addressed.reliable_links import ReliableLinks
from causalcast.simulator.runner import simulate
from causalcast.swarm.mutant import Rewritten

# A body takes half a second and more on a link: longer than any timer waits.
SLOW = """
protocol = "{protocol}"
until_ms = 5000
[overlay]
kind = "{overlay}"
nodes = 3
[network]
latency_ms = 5
bandwidth_mbps = 0.32
[[publish]]
node = 0
count = 30
interval_ms = 100
payload_bytes = 20000
[calm]
ms = 120000
[world]
links_lose_nothing = true
congestion = "bandwidth"
"""
NEEDED = 60  # copies of bodies: one for each other node
# How many times that each may send; who floods a triangle sends each over all its links.
MOST = {
    "locamu": ("line", 1.3),
    "delta_neighbourhood": ("line", 1.6),
    "vector_clock_broadcast": ("line", 1.0),
    "psync": ("line", 1.0),
    "cbcast": ("full_mesh", 1.0),
    "causal_barriers": ("full_mesh", 1.0),
    "compaction_pairwise": ("full_mesh", 2.0),
    "causal_separators": ("full_mesh", 2.0),
}


def bodies(protocol: str) -> float:
    """Copies of bodies that were sent, per copy that is needed."""
    run = simulate(SLOW.format(protocol=protocol, overlay=MOST[protocol][0]))
    rows = zip(run.events["kind"].to_pylist(), run.events["payload_bytes"].to_pylist(), strict=True)
    return sum(1 for kind, size in rows if kind == "send" and size >= 20_000) / NEEDED


@pytest.mark.parametrize("protocol", MOST)
def test_nothing_is_repeated_that_has_not_left(protocol: str) -> None:
    assert bodies(protocol) <= MOST[protocol][1]


def test_who_does_not_look_sends_everything_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blind = Rewritten(ReliableLinks, "on_timer", "if peer in out.world.congested:", "if False:")
    monkeypatch.setattr(ReliableLinks, "on_timer", blind.replacement)
    assert bodies("cbcast") > 100
