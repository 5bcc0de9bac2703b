"""Every scenario that once failed is kept and must not fail again."""

from pathlib import Path

import pytest

from causalcast.judge import judge
from causalcast.protocols.locamu import Locamu
from causalcast.protocols.vector_clock_broadcast import VectorClockBroadcast
from causalcast.simulator.runner import prepare
from causalcast.simulator.scenario import Scenario
from causalcast.trace.schema import WEAKER_FORMS

FAILURES = sorted((Path(__file__).parent / "past_failures").glob("*.toml"))


@pytest.mark.parametrize("path", FAILURES, ids=lambda path: path.stem)
def test_it_does_not_fail_again(path: Path) -> None:
    running = prepare(Scenario.read(path), "messages")
    running.run()
    found = judge(running.result())
    for guarantee in running.scenario.blueprint.protocol.guarantees:
        assert found.violations[WEAKER_FORMS.get(guarantee, guarantee)] == []
    assert not found.pending
    for node in running.simulation.nodes:
        multicast = node.stack.multicast
        if isinstance(multicast, VectorClockBroadcast):
            assert multicast.sending.kept() == 0  # nothing is kept once everybody has it
        if isinstance(multicast, Locamu):
            assert multicast.is_idle()


def test_there_are_some() -> None:
    assert FAILURES
