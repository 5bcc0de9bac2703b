"""A search that learns: it repeats itself, stays within promises, and reaches what draws do not."""

import shlex

import pytest

from causalcast.cli.main import main
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm import feedback
from causalcast.swarm.campaign import Plan, run_campaign
from causalcast.swarm.feedback import Search, run_feedback
from causalcast.swarm.trial import try_scenario

MUTANTS = "tests/mutants"


def test_the_same_numbers_are_the_same_search() -> None:
    plan = Plan("vector_clock_broadcast")
    one, other = Search(plan, 3), Search(plan, 3)
    texts = [(one.trial(number).text, other.trial(number).text) for number in range(3, 40)]
    assert all(first == again for first, again in texts)
    assert len({first for first, _ in texts}) > 30, "trials differ from one another"
    assert list(one.times) == list(other.times)


def test_on_several_processes_it_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan("naive_flood", check=("causal_order",), by="adversary")
    monkeypatch.setattr(feedback, "LIFE", 20)
    one, two = run_feedback(plan, range(40)), run_feedback(plan, range(40), processes=2)
    assert one.failures == two.failures and one.failures
    assert one.fired == two.fired


def test_what_is_new_is_kept_and_varied() -> None:
    campaign = run_feedback(Plan("cbcast", by="adversary"), range(60))
    assert not campaign.failures
    fired = campaign.fired
    assert fired["search.kept"] >= 10 and fired["search.reached"] >= 300
    assert fired["search.played on"] >= 10 and fired["search.changed"] >= 5
    assert 5 <= fired["search.drawn anew"] <= 30


@pytest.mark.parametrize("by", ["random", "adversary", "stories"])
@pytest.mark.parametrize("protocol", ["vector_clock_broadcast", "psync"])
def test_it_stays_within_what_is_promised(protocol: str, by: str) -> None:
    assert not run_feedback(Plan(protocol, by=by), range(30)).failures


def test_nodes_that_are_gone_stay_within_it_too() -> None:
    campaign = run_feedback(Plan("locamu", by="stories", gives_up=True), range(20))
    assert not campaign.failures and campaign.fired["gone"]


def test_the_text_of_a_trial_repeats_it() -> None:
    search = Search(Plan("vector_clock_broadcast"), 0)
    for number in range(30):
        trial = search.trial(number)
        again = try_scenario(Scenario(trial.text, "again"))
        assert trial.run is not None and again.run is not None
        assert trial.run.events == again.run.events, number


def test_a_failure_comes_with_the_command_that_repeats_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = Plan("naive_flood", check=("causal_order",), by="adversary", search="feedback")
    failure = run_feedback(plan, range(300), stop_at_first=True).failures[0]
    command, *arguments = shlex.split(failure.repeat)
    assert command == "causalcast" and failure.text
    assert main([*arguments, "--json"]) == 1
    assert f'"seed": {failure.seed}, "property": "causal_order"' in capsys.readouterr().out


def test_it_reaches_what_draws_do_not() -> None:
    """The same number of trials, the same adversary: only what is learnt differs."""
    plan = Plan(
        "psync",
        by="adversary",
        mutants=f"{MUTANTS}/psync.py",
        mutant="leaves_not_restored",
        facts="plain",
    )
    assert run_feedback(plan, range(100_000, 100_160), stop_at_first=True).failures
    assert not run_campaign(plan, range(100_000, 100_160), stop_at_first=True).failures
