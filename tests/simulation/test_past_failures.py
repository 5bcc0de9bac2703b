"""Every scenario that once failed is kept and must not fail again."""

from pathlib import Path

import pytest

from causalcast.simulator.scenario import Scenario
from causalcast.swarm.trial import try_scenario

FAILURES = sorted((Path(__file__).parent / "past_failures").glob("*.toml"))


@pytest.mark.parametrize("path", FAILURES, ids=lambda path: path.stem)
def test_it_does_not_fail_again(path: Path) -> None:
    assert try_scenario(Scenario.read(path)).problems == []


def test_there_are_some() -> None:
    assert FAILURES
