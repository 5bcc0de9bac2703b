"""Every scenario that once failed is kept and must not fail again."""

from pathlib import Path

import pytest

from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.trial import try_scenario

HERE = Path(__file__).parent
FAILURES = sorted((HERE / "past_failures").glob("*.toml"))
STILL_FAIL = sorted((HERE / "expected_failures").glob("*.toml"))
OF_CBCAST = [path for path in STILL_FAIL if '"cbcast"' in path.read_text()]


@pytest.mark.parametrize("path", FAILURES, ids=lambda path: path.stem)
def test_it_does_not_fail_again(path: Path) -> None:
    assert try_scenario(Scenario.read(path)).problems == []


@pytest.mark.parametrize("path", STILL_FAIL, ids=lambda path: path.stem)
@pytest.mark.xfail(strict=True, reason="members are not agreed on; the docs say so")
def test_it_still_fails(path: Path) -> None:
    """The day one of these holds it is noticed, and moves to `past_failures`."""
    assert try_scenario(Scenario.read(path)).problems == []


@pytest.mark.parametrize("path", OF_CBCAST, ids=lambda path: path.stem)
def test_causal_barriers_withstands_what_cbcast_does_not(path: Path) -> None:
    assert try_scenario(Scenario.read(path, "causal_barriers")).problems == []


def test_there_are_some() -> None:
    assert OF_CBCAST
    assert FAILURES
