"""A scenario says what protocols may know of their world, and the world is so."""

import pytest

from causalcast.core.ids import NodeId
from causalcast.core.outbox import Outbox
from causalcast.protocols.vector_clock_broadcast import VectorClockBroadcast
from causalcast.simulator.runner import simulate
from causalcast.simulator.scenario_run import prepare
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.explore import Explorer, Limits
from causalcast.swarm.trial import try_scenario
from causalcast.testing import play

TIMED = """
protocol = "vector_clock_broadcast"
until_ms = 200
[options]
spread = "direct"
[overlay]
kind = "full_mesh"
nodes = 3
[[publish]]
node = 0
count = 40
interval_ms = 1
[[publish]]
node = 1
at_ms = 10
count = 40
interval_ms = 1
"""
DIRECTED = """
protocol = "vector_clock_broadcast"
steps = ["publish 0 all", "publish 0 all", "publish 0 all", "arrive 0 1"]
[options]
spread = "direct"
[overlay]
kind = "full_mesh"
nodes = 2
"""
REAL = "[world]\nlinks_lose_nothing = true\nread_every_ms = 5\ncongestion = 0.3\n"


@pytest.mark.parametrize("records", ["true", "false"])
def test_publications_that_follow_one_another_come_as_runs(records: str) -> None:
    trial = try_scenario(Scenario(f"{TIMED}{REAL}keeps_records = {records}\n", "test"))
    assert trial.problems == []
    assert trial.fired["run"] > 10
    assert trial.fired["congested"] > 0
    assert trial.fired["world.links_lose_nothing"] == 1
    assert ("world.no_records" in trial.fired) == (records == "false")


def test_a_world_that_says_nothing_is_as_it_was() -> None:
    plain, said = simulate(TIMED), simulate(TIMED + "[world]\ncongestion = 0\n")
    assert plain.events.equals(said.events)
    assert not [kind for kind in plain.header.faults if kind.startswith("world.")]
    assert "run" not in plain.header.faults


def test_what_is_recorded_does_not_alter_what_is_read_together() -> None:
    few, all_ = (
        try_scenario(Scenario(TIMED + REAL, "test"), (), level) for level in ("deliveries", "full")
    )
    assert few.fired == all_.fired
    assert few.run is not None and all_.run is not None
    rows = [
        [row for row in run.events.to_pylist() if row["kind"] == "deliver"]
        for run in (few.run, all_.run)
    ]
    keys = ("node", "time_us", "message")
    told = [[tuple(row.get(key) for key in keys) for row in one] for one in rows]
    assert told[0] == told[1] and told[0]


def test_a_director_lets_a_run_arrive_as_one() -> None:
    alone, together = (prepare(Scenario(DIRECTED + more, "test")) for more in ("", REAL))
    for run in (alone, together):
        run.run()
        assert run.result().header.complete
    assert "run" not in alone.simulation.fired
    assert together.simulation.fired["run"] == 1


def test_what_waits_when_a_link_is_lost_is_read_before() -> None:
    """Node 0 says something and falls; what had come counts, though nobody had read it yet."""
    text = TIMED.replace("count = 40", "count = 3") + REAL.replace("= 5", "= 50")
    falls = '[[fault]]\nat_ms = 6\nkind = "crash"\nnode = 0\nkeep = 1.0\n'
    run = simulate(f"{text}{falls}[detector]\ndelay_ms = 0\n")
    got = [
        (row["node"], row["message"] & 0xFFFF)
        for row in run.events.to_pylist()
        if row["kind"] == "deliver" and row["node"] > 0 and row["message"] >> 32 == 0
    ]
    assert sorted(got) == [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3)]


def test_the_explorer_sees_runs_and_congestion(monkeypatch: pytest.MonkeyPatch) -> None:
    text = DIRECTED.replace(', "arrive 0 1"', "")
    explored = Explorer(Scenario(text + REAL, "test"), Limits(timers=1), 3000).explore()
    assert explored.problem is None and explored.states > 10

    def planted(*_: object) -> None:
        raise AssertionError("planted")

    monkeypatch.setattr(VectorClockBroadcast, "on_run", planted)
    found = Explorer(Scenario(text + REAL, "test"), Limits(timers=1), 3000).explore()
    assert found.problem is not None and "planted" in found.problem.detail


SLOW = (
    TIMED.replace("count = 40", "count = 40\npayload_bytes = 1000")
    + '[network]\nbandwidth_mbps = 0.16\n[world]\ncongestion = "bandwidth"\n'
)


def test_links_with_something_to_send_are_congested() -> None:
    run = prepare(Scenario(SLOW, "test"))
    run.run()
    assert run.simulation.fired["congested"] > 0
    unlimited = prepare(Scenario(TIMED, "test"))
    unlimited.run()
    assert "congested" not in unlimited.simulation.fired


def test_congestion_is_told_at_timers_only() -> None:
    run = prepare(Scenario(SLOW, "test"))
    run.run()
    assert run.simulation.out.world.congested == {}


def test_nobody_resumes_where_nothing_was_kept() -> None:
    run = prepare(Scenario(f"{DIRECTED}[world]\nkeeps_records = false\n", "test"))
    run.run()
    lives = run.simulation.lives
    lives.crash(NodeId(1), 1.0)
    assert lives.recover(NodeId(1)) == 1
    assert not run.simulation.nodes[1].up
    assert run.simulation.nodes[0].disk.records == []


def test_a_story_says_it_too() -> None:
    story = """\
cluster vector_clock_broadcast nodes 2
----
ok

world links_lose_nothing congested=1
----
ok

publish 0 hello
----
0 -> 1  #1 Stamped(hello, needs={})
0 delivers hello

timer 0 reliable_sending.repeat 1
----
ok
"""
    assert play(story) == story
    again = play(story.replace("world links_lose_nothing congested=1", "world"))
    assert "notes reliable_sending.repeated" in again


def test_an_outbox_knows_nothing_by_itself() -> None:
    facts = Outbox().world
    assert (facts.keeps_records, facts.links_lose_nothing, facts.congested) == (True, False, {})
