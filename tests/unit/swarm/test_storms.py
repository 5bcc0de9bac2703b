"""Who goes on sending when all is over, or sends far too much for a publication, is noticed."""

from typing import Any

import pytest

from causalcast.core import Outbox
from causalcast.limits import set_to
from causalcast.parts.broadcast.reliable_sending import ACKNOWLEDGE, ReliableSending
from causalcast.protocols.causal_separators.hosted_zone import InZone
from causalcast.protocols.vector_clock_broadcast import SPEC
from causalcast.simulator.scenario_run import ScenarioRun, prepare
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.storms import carries, storms_in
from causalcast.swarm.trial import STORMS, try_scenario

TEXT = """
protocol = "vector_clock_broadcast"
until_ms = 500
[overlay]
kind = "line"
nodes = 3
[[publish]]
node = 0
count = 5
[calm]
ms = 20000
"""


def test_a_quiet_protocol_makes_no_storm() -> None:
    run = prepare(Scenario(TEXT, "test"))
    assert isinstance(run, ScenarioRun)
    run.run()
    sent = run.simulation.shared.sent
    assert sent.rest_us == 5_000_000
    assert sent.frames and sent.bytes > 0 and not sent.at_rest()
    assert storms_in(run) == []


def test_who_acknowledges_for_ever_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every promise is kept; only the network is never quiet again."""
    once = ReliableSending._acknowledge

    def for_ever(self: ReliableSending, peer: Any, neighbour: Any, out: Outbox) -> None:
        once(self, peer, neighbour, out)
        out.start_timer(ACKNOWLEDGE, self.acknowledge_after, peer)

    monkeypatch.setattr(ReliableSending, "_acknowledge", for_ever)
    problems = try_scenario(Scenario(TEXT, "test")).problems
    assert [problem.property for problem in problems] == [STORMS]
    assert "frames a second and node at rest" in problems[0].detail
    assert "reliable_sending.have" in problems[0].detail


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("bodies", "copies of a publication for each node"),
        ("questions", "questions for each event and node"),
    ],
)
def test_so_is_what_a_publication_costs(limit: str, words: str) -> None:
    crowded = TEXT + "[network]\nlatency_ms = 5000\n"  # everything is repeated until it arrives
    with set_to({f"swarm.storms.{limit}": 1}):
        problems = try_scenario(Scenario(crowded, "test")).problems
    assert words in problems[0].detail
    assert try_scenario(Scenario(TEXT, "test")).problems == []


def test_what_carries_publications() -> None:
    assert any(carries(kind) for kind in SPEC.messages)
    assert not all(carries(kind) for kind in SPEC.messages)
    assert not carries(InZone)
