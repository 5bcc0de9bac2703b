"""Worlds that failed once are kept as plans, and stay right; plans can be read, wrong ones not."""

from dataclasses import replace
from pathlib import Path

import pytest

from causalcast.cli.main import main
from causalcast.core.ids import NodeId
from causalcast.errors import ConfigError
from causalcast.nodeworld.drawing import draw
from causalcast.nodeworld.plan import Event, Plan
from causalcast.nodeworld.plan_file import read_plan, text_of
from causalcast.nodeworld.shrink import kind_of, shrink
from causalcast.nodeworld.trial import try_plan
from causalcast.nodeworld.verdict import Outcome
from causalcast.protocols.causal_separators.spec import SPEC
from causalcast.runtime.host import wire
from causalcast.runtime.host.acquaintances import Acquaintances
from causalcast.runtime.host.observed import Observed
from causalcast.runtime.lives import Known
from causalcast.runtime.metadata import Metadata, with_metadata

KEPT = sorted((Path(__file__).parent / "kept").glob("*.json"))


@pytest.mark.parametrize("path", KEPT, ids=[path.stem for path in KEPT])
def test_it_stays_right(path: Path) -> None:
    assert try_plan(read_plan(path)).problems == []


def test_bodies_at_the_limit_pass_through_zones_with_what_zones_add_to_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = KEPT[0].with_name("bodies_at_the_limit_in_zones.json")
    assert try_plan(read_plan(path)).problems == []
    monkeypatch.setattr(SPEC, "adds_to_bodies", 0)
    stamped = len(with_metadata(b"", Metadata(1 << 50)))
    monkeypatch.setattr(wire, "most_overhead", lambda: stamped)  # no room beside the time itself
    assert try_plan(read_plan(path)).problems != []


def test_a_plan_is_the_same_after_it_was_written(tmp_path: Path) -> None:
    plan = draw("cbcast", 4)
    (tmp_path / "plan.json").write_text(text_of(plan))
    assert read_plan(tmp_path / "plan.json") == plan


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ('"machines"', '"engines"', "machines"),
        ('"cbcast"', '"cbsact"', "cbsact"),
        (
            '"drawn_limits": {',
            '"drawn_limits": {"runtime.nothing": 1,',
            "no limit 'runtime.nothing",
        ),
        ('"events": [', '"events": [{"at": 1.0, "kind": "kill", "machines": [9]},', "kill"),
    ],
)
def test_a_wrong_plan_is_refused_with_what_is_wrong(
    before: str, after: str, complaint: str, tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    plan = replace(draw("cbcast", 4), events=[Event(1.0, "kill", (1,))])
    plan.drawn_limits = {"runtime.links.links.dial_timeout": 2.0}
    path.write_text(text_of(plan).replace(before, after, 1))
    with pytest.raises(ConfigError, match=complaint):
        read_plan(path)


def test_a_world_that_fails_is_made_small() -> None:
    """A failure that needs one event and one limit: everything else is left out."""

    def attempt(plan: Plan) -> Outcome:
        fails = any(event.kind == "cut" for event in plan.events) and "b" in plan.drawn_limits
        return Outcome(plan.seed, problems=["lost 7 of 9: gone"] if fails else [])

    plan = replace(draw("cbcast", 4), drawn_limits={"a": 1.0, "b": 1.0, "c": 1.0})
    plan.events = [Event(1.0, kind, (1, 2)) for kind in ("slow", "cut", "silence", "cut", "kill")]
    small, outcome, trials = shrink(plan, attempt(plan), attempt)
    assert [event.kind for event in small.events] == ["cut"]
    assert small.drawn_limits == {"b": 1.0} and small.publications == 1
    assert outcome.problems and trials < 60
    assert kind_of("lost 7 of 9: gone") == kind_of("lost 12 of 9: no")


def test_the_command_repeats_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["swarm", "--world", "nodes", "--plan", str(KEPT[0])]) == 0
    assert "verdict: ok" in capsys.readouterr().out


def test_what_others_pass_on_says_nothing_of_the_life_that_is_known() -> None:
    """A neighbour's publication of a later life, passed on by others, is no sign of an old disk."""
    known = Known(incarnation=5, start=1, life=11, published=3)
    acquaintances = Acquaintances(Observed.__new__(Observed), {1: known})
    assert acquaintances.known_of(NodeId(1)) == known
    acquaintances.hear(NodeId(1), 7)  # it brought this one itself
    assert acquaintances.known_of(NodeId(1)) == Known(5, 1, 11, 7)
    acquaintances.hear(NodeId(1), 6)
    assert acquaintances.known_of(NodeId(1)) == Known(5, 1, 11, 7)
