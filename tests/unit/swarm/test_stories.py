"""Short stories: the same seed tells the same one, its text repeats it, and it finds something."""

import functools

import pytest

from causalcast.registry import find_protocol
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.campaign import Plan, run_campaign
from causalcast.swarm.stories import FEWEST_MOVES, try_story
from causalcast.swarm.trial import Trial, try_scenario

LOCAMU = find_protocol("locamu")


@functools.cache
def story(seed: int) -> Trial:
    """One of LoCaMu's; some take long, and more than one test looks at them."""
    return try_story(LOCAMU, seed, {})


def test_the_same_seed_tells_the_same_story() -> None:
    first, again = try_story(LOCAMU, 7, {}), try_story(LOCAMU, 7, {})
    assert first.text == again.text
    assert first.run is not None and again.run is not None
    assert first.run.events == again.run.events


def test_its_text_repeats_it() -> None:
    told = try_story(LOCAMU, 7, {})
    repeated = try_scenario(Scenario(told.text, "story"))
    assert told.run is not None and repeated.run is not None
    assert told.run.events == repeated.run.events


def test_stories_are_short_and_have_falls_and_jumps() -> None:
    fired: dict[str, int] = {}
    steps = []
    for seed in range(40):
        trial = story(seed)
        steps.append(trial.text.split("steps = [")[1].split("]")[0].count('"') // 2)
        for kind, times in trial.fired.items():
            fired[kind] = fired.get(kind, 0) + times
    assert min(steps) < FEWEST_MOVES * 2
    for kind in ("crash", "recover", "suspect", "note.locamu.jump", "join_group"):
        assert fired[kind]


def test_who_fell_is_declared_gone() -> None:
    trials = [try_story(LOCAMU, seed, {}, gives_up=True) for seed in range(20)]
    assert sum(trial.fired.get("gone", 0) for trial in trials) >= 5


def test_some_stay_down() -> None:
    trials = [story(seed) for seed in range(30)]
    assert any(trial.fired.get("died_for_good") for trial in trials)
    assert all(not trial.problems for trial in trials)


@pytest.mark.parametrize("protocol", ["cbcast", "vector_clock_broadcast"])
def test_a_campaign_tells_them(protocol: str) -> None:
    plan = Plan(protocol, by="stories")
    campaign = run_campaign(plan, range(15))
    assert not campaign.failures
    assert "--by stories" in plan.repeat(3)


def test_it_notices_a_planted_bug() -> None:
    plan = Plan(
        "locamu",
        by="stories",
        mutants="tests/mutants/locamu.py",
        mutant="log_not_recovered",
    )
    assert run_campaign(plan, range(60), stop_at_first=True).failures
