"""Limits of a protocol are drawn small, the same for the same seed."""

import pytest

from causalcast.errors import ConfigError
from causalcast.limits import limits_of
from causalcast.registry import find_protocol
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.campaign import Plan, try_seed
from causalcast.swarm.small_limits import small_limits, with_limits
from causalcast.swarm.trial import try_scenario

PATIENCE = "parts.safe_keeping.most_patience"


def test_the_same_seed_draws_the_same_limits() -> None:
    spec = find_protocol("cbcast")
    drawn = [small_limits(spec, {}, seed) for seed in range(40)]
    assert drawn == [small_limits(spec, {}, seed) for seed in range(40)]
    assert {} in drawn, "some worlds are as shipped"
    assert any(one.get(PATIENCE) == 1 for one in drawn)


def test_limits_of_other_protocols_do_not_matter() -> None:
    found = {
        name
        for seed in range(40)
        for name in small_limits(find_protocol("causal_separators"), {}, seed)
        if name.startswith("protocols.")
    }
    assert any(name.startswith("protocols.causal_separators.") for name in found)
    assert not any(name.startswith("protocols.locamu.") for name in found)


def test_a_seed_is_tried_with_its_limits_and_they_come_back() -> None:
    plan = Plan("cbcast", small_limits=True)
    assert "--small-limits" in plan.repeat(3)
    before = {name: limit.current() for name, limit in limits_of("parts").items()}
    assert not [problem for seed in range(6) for problem in try_seed(plan, seed).problems]
    assert before == {name: limit.current() for name, limit in limits_of("parts").items()}


@pytest.mark.parametrize("by", ["random", "adversary"])
def test_a_trial_is_repeated_from_its_text_alone(by: str) -> None:
    plan = Plan("cbcast", by=by, small_limits=True)
    seed = next(seed for seed in range(1, 99) if len(plan.limits(seed)) > 5)
    trial = try_seed(plan, seed)
    assert "[limits]" in trial.text
    again = try_scenario(Scenario(trial.text, "again"))
    assert again.run is not None and trial.run is not None
    assert again.run.events.equals(trial.run.events)
    assert Scenario(trial.text, "again").limits == plan.limits(seed)


def test_a_limit_that_is_none_is_refused() -> None:
    text = 'protocol = "cbcast"\nuntil_ms = 1\n[overlay]\nkind = "full_mesh"\nnodes = 3\n'
    assert Scenario(with_limits(text, {PATIENCE: 1}), "x").limits == {PATIENCE: 1}
    assert with_limits(text, {}) == text
    for value, words in ((-1, "expected another one"), (True, "expected a number")):
        with pytest.raises(ConfigError, match=words):
            Scenario(with_limits(text, {PATIENCE: value}), "x")
    with pytest.raises(ConfigError, match=r"there is no limit 'parts\.nothing'"):
        Scenario(with_limits(text, {"parts.nothing": 1}), "x")
