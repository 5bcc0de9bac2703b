"""Campaigns count what fired, name what never did, and repeat what failed."""

import shlex
from pathlib import Path

import pytest

from causalcast.cli.main import main
from causalcast.core.automaton import Multicast
from causalcast.protocols.naive_flood import NaiveFlood
from causalcast.protocols.vector_clock_broadcast import SPEC, VectorClockBroadcast
from causalcast.registry import find_protocol
from causalcast.simulator.worlds.lives import Lives
from causalcast.swarm import campaign as campaign_module
from causalcast.swarm.campaign import Plan, run_campaign, try_seed
from causalcast.swarm.generate import expected_kinds

VECTOR = "vector_clock_broadcast"


def test_the_same_seeds_find_the_same_on_any_number_of_processes() -> None:
    plan = Plan("naive_flood", check=("causal_order",))
    one, two = run_campaign(plan, range(60)), run_campaign(plan, range(60), processes=2)
    assert one.failures == two.failures and one.failures
    assert (one.fired, one.logical_us) == (two.fired, two.logical_us)


def test_an_adversary_repeats_itself_and_its_text_repeats_the_run() -> None:
    from causalcast.simulator.runner import simulate
    from causalcast.simulator.scenarios.scenario import Scenario

    plan = Plan(VECTOR, by="adversary")
    for seed in range(40):
        one, other = try_seed(plan, seed), try_seed(plan, seed)
        assert one.text == other.text and one.run is not None and other.run is not None
        assert one.run.events.equals(other.run.events)
        again = simulate(Scenario(one.text, "again"), "deliveries")
        assert again.events.equals(one.run.events), f"seed {seed}"


def test_a_failure_comes_with_the_command_that_repeats_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = Plan("naive_flood", check=("causal_order",), by="adversary")
    failure = run_campaign(plan, range(300), stop_at_first=True).failures[0]
    command, *arguments = shlex.split(failure.repeat)
    assert command == "causalcast"
    assert main([*arguments, "--json"]) == 1
    assert f'"seed": {failure.seed}, "property": "causal_order"' in capsys.readouterr().out


def test_a_fault_that_never_fires_fails_the_campaign(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compaction that quietly does nothing: all promises hold, and still the campaign fails."""
    monkeypatch.setattr(Lives, "compact", lambda self, me: None)
    monkeypatch.setattr(campaign_module, "ENOUGH_SEEDS", 100)
    found = run_campaign(Plan(VECTOR), range(100))
    assert not found.failures
    assert "compact" in found.never_fired() and not found.succeeded()


def test_a_rare_branch_that_is_never_reached_fails_the_campaign(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SPEC, "rare", [*SPEC.rare, "never.reached"])
    monkeypatch.setattr(campaign_module, "ENOUGH_SEEDS", 100)
    found = run_campaign(Plan(VECTOR), range(100))
    assert found.never_fired() == ["note.never.reached"]


def test_too_few_seeds_blame_nothing() -> None:
    found = run_campaign(Plan(VECTOR), range(2))
    assert found.never_fired() == [] and found.succeeded()


def test_what_is_expected_depends_on_what_is_promised() -> None:
    flood, vector = find_protocol("naive_flood"), find_protocol(VECTOR)
    assert "crash" not in expected_kinds(flood, "both", beyond=False)
    assert "crash" in expected_kinds(flood, "both", beyond=True)
    assert {"crash", "loss", "pause"} <= set(expected_kinds(vector, "both", beyond=False))
    assert "pause" not in expected_kinds(vector, "adversary", beyond=False)
    for_good = expected_kinds(vector, "both", beyond=False, for_good=True)
    assert {"hang", "died_for_good"} <= set(for_good)
    barriers = find_protocol("causal_barriers")  # its promise covers those that die
    assert "died_for_good" in expected_kinds(barriers, "both", beyond=False)


@pytest.mark.parametrize("seed", [1, 9])
def test_only_where_nodes_die_for_good_the_adversary_doubts_on_a_mesh(seed: int) -> None:
    some_die = Plan(VECTOR, {"spread": "direct"}, "mesh", for_good=True, facts="plain")
    text = try_seed(some_die, seed).text
    assert "recover_all = false" in text and '"suspect ' in text
    assert '"suspect ' not in try_seed(Plan(VECTOR, {"spread": "direct"}, "mesh"), seed).text


def test_an_invariant_is_asked_after_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def delivered_at_most_two(multicast: Multicast) -> bool:
        assert isinstance(multicast, VectorClockBroadcast)
        asked.append(multicast)
        return sum(multicast.broadcast.delivery.delivered.values()) <= 2

    monkeypatch.setattr(SPEC, "invariants", [delivered_at_most_two])
    for seed in (0, 1):  # a random scenario, and the adversary
        asked.clear()
        trial = try_seed(Plan(VECTOR), seed)
        assert trial.broken() == {"invariant"}
        assert trial.problems[0].detail.startswith("delivered_at_most_two at node ")
        assert len(asked) > 20


def test_what_an_automaton_raises_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(*_: object) -> None:
        raise ValueError("stumbled")

    monkeypatch.setattr(NaiveFlood, "on_publish", stumble)
    for seed in (0, 1):
        trial = try_seed(Plan("naive_flood"), seed)
        assert [(p.property, p.detail) for p in trial.problems] == [
            ("no_exception", "ValueError: stumbled")
        ]


def test_a_users_own_file(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    found = run_campaign(Plan(str(root / "examples" / "my_protocol.py")), range(20), processes=2)
    assert found.seeds == 20 and not found.failures
