"""Limits of a protocol are drawn small, the same for the same seed."""

from causalcast.limits import limits_of
from causalcast.registry import find_protocol
from causalcast.swarm.campaign import Plan, try_seed
from causalcast.swarm.small_limits import small_limits

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
