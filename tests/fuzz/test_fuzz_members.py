"""The short form of `make fuzz-member`: an authenticated node that says whatever it likes."""

import pytest
from fuzz_members import MOST_GROWTH, attack

SECONDS = 8.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "protocol", ["vector_clock_broadcast", "cbcast", "causal_barriers", "locamu", "cptcast"]
)
def test_honest_nodes_go_on_beside_a_member_that_attacks(protocol: str) -> None:
    done = attack(protocol, SECONDS, seed=1)
    assert done.rounds >= 1 and done.sent > 100 and done.liar.links_made > 1
    assert len(done.newness.seen) > 4, "nodes had something to refuse"
    assert done.most_memory < MOST_GROWTH
