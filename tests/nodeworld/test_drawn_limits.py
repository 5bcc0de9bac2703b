"""Limits are drawn small in worlds of whole nodes, and one that never was fails the campaign."""

import pytest

from causalcast.limits import limits_of
from causalcast.nodeworld import trial
from causalcast.nodeworld.campaign import ENOUGH, NodeCampaign, expected_to_fire
from causalcast.nodeworld.drawing import draw
from causalcast.nodeworld.drawn_limits import LEFT_OUT, expected
from causalcast.nodeworld.plan import Plan
from causalcast.nodeworld.verdict import Outcome
from causalcast.runtime.links.links import DIAL_TIMEOUT


def test_every_limit_is_drawn_within_its_bounds_and_often_the_smallest() -> None:
    every = limits_of("core", "parts", "detectors", "overlays", "wire", "trace", "runtime")
    smallest = touched = 0
    for seed in range(40):
        for name, value in draw("locamu", seed).drawn_limits.items():
            limit = every.get(name)
            if limit is not None:
                assert limit.least <= value <= limit.most and value != limit.default_value
                touched += 1
                smallest += value == limit.least
    assert 0.3 < smallest / touched < 0.8


def test_a_further_limit_moves_no_other_one() -> None:
    """The draw of each limit is its own: the same in plans of a protocol that has more of them."""
    one, other = draw("cbcast", 6).drawn_limits, draw("cbcast", 6).drawn_limits
    assert one == other
    assert any(name.startswith("protocols.cbcast.") for name in expected("cbcast"))
    assert not any(name.startswith("protocols.locamu.") for name in expected("cbcast"))


def test_what_cannot_matter_is_not_expected_and_exists() -> None:
    every = limits_of("trace", "wire", "runtime")
    for beginning in LEFT_OUT:
        assert any(name.startswith(beginning) for name in every), beginning
        assert not any(name.startswith(beginning) for name in expected("cbcast"))


def test_they_hold_while_the_world_runs_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def look(plan: Plan) -> Outcome:
        seen.append(DIAL_TIMEOUT.value)
        return Outcome(plan.seed)

    monkeypatch.setattr(trial, "_try", look)
    plan = draw("cbcast", 0)
    plan.drawn_limits = {DIAL_TIMEOUT.name: 1.5}
    outcome = trial.try_plan(plan)
    assert (seen, DIAL_TIMEOUT.value) == ([1.5], 5.0)
    assert outcome.limits == [DIAL_TIMEOUT.name]


def test_a_limit_that_was_never_drawn_fails_the_campaign() -> None:
    names = expected("cbcast")
    happened = dict.fromkeys(expected_to_fire("cbcast"), 1)
    campaign = NodeCampaign("cbcast")
    for seed in range(ENOUGH):
        campaign.add(Outcome(seed, fired=dict(happened), limits=names[1:]))
    assert campaign.never_drawn() == names[:1] and not campaign.succeeded()
    campaign.add(Outcome(ENOUGH, limits=names[:1]))
    assert campaign.never_drawn() == [] and campaign.succeeded()
