"""A node is a member of a group of LoCaMu when it was admitted, not when it asks.

Nodes 0, 1 and 2 stand in a line. 0 and 2 founded g, so 0 admits its new members; 1 and 2 founded h.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from causalcast.core import GroupId, NodeId
from causalcast.errors import NodeError
from causalcast.judge import judge
from causalcast.protocols.locamu.protocol import Locamu
from causalcast.simulator.directed_run import DirectedRun
from causalcast.simulator.scenarios.director import parse
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.generate import toml_text
from causalcast.swarm.mutant import find_mutant
from causalcast.swarm.trial import try_scenario
from causalcast.testing import Applications, Cluster

MUTANTS = Path(__file__).parent.parent / "mutants" / "locamu.py"
GROUPS = {"g": [0, 2], "h": [1, 2]}
G = GroupId(0)
LEFT_OPEN = ("join 1 g", "crash 0 0")  # before it has heard of the join


class Story:
    """Steps, one after the other, and what came of them."""

    def __init__(self, *steps: str) -> None:
        tables: list[tuple[str, dict[str, Any]]] = [
            ("overlay", {"kind": "edges", "nodes": 3, "edges": [[0, 1], [1, 2]]}),
            ("groups", GROUPS),
            ("calm", {"recover_all": True}),
        ]
        self.text = toml_text({"protocol": "locamu", "steps": list(steps)}, tables)
        self.run = DirectedRun(Scenario(self.text, "story"), "full")
        self.do(*steps)

    def do(self, *steps: str) -> None:
        for step in steps:
            assert self.run.director.do(parse(step, 3, list(GROUPS))), step

    def let_happen(self) -> None:
        """Everything arrives; who is away stays away."""
        self.run.director.complete(recover_all=False)

    def let_end(self) -> None:
        """Everybody is back, and all promises were kept."""
        self.run.complete()
        assert not any(judge(self.run.result()).violations.values())
        assert not any(self.locamu(node).asked_for() for node in range(3))

    def locamu(self, node: int) -> Locamu:
        multicast = self.run.simulation.nodes[node].stack.multicast
        assert isinstance(multicast, Locamu)
        return multicast

    def is_member(self, node: int) -> bool:
        simulated = self.run.simulation.nodes[node]
        assert (G in simulated.groups) == (G in simulated.stack.groups)
        return G in simulated.groups

    def rows(self, node: int, *kinds: str) -> list[str]:
        rows = self.run.result().events.to_pylist()
        return [row["kind"] for row in rows if row["node"] == node and row["kind"] in kinds]


def test_it_is_a_member_from_its_admission_on() -> None:
    story = Story("join 1 g", "publish 1 g", "bring 1 2")
    assert not story.is_member(1) and story.locamu(1).asked_for() == [G]
    story.let_happen()
    assert story.is_member(1) and story.locamu(1).asked_for() == []
    story.do("publish 1 g")
    story.let_end()
    assert story.rows(1, "publish", "join", "deliver") == ["publish", "join", "publish", "deliver"]
    assert story.rows(2, "deliver") == ["deliver", "deliver"]


def test_nothing_that_it_publishes_waits_for_the_admission() -> None:
    story = Story(*LEFT_OPEN, "publish 1 h", "publish 1 g")
    story.let_happen()
    assert story.rows(1, "deliver") == ["deliver"]  # h, of which it is a member
    assert story.rows(2, "deliver") == ["deliver", "deliver"]
    story.let_end()
    assert story.is_member(1)
    assert story.rows(0, "deliver") == ["deliver"]


@pytest.mark.parametrize("how", ["records", "snapshot"])
@pytest.mark.parametrize("wanted", ["wanted", "withdrawn", "wanted again"])
def test_what_was_asked_for_is_known_after_a_crash(how: str, wanted: str) -> None:
    story = Story(*LEFT_OPEN)
    if wanted != "wanted":
        story.do("leave 1 g")
        assert story.locamu(1).asked_for() == []
    if wanted == "wanted again":
        story.do("join 1 g")
    if how == "snapshot":
        story.do("compact 1")
    story.do("crash 1", "recover 1")
    asked = [] if wanted == "withdrawn" else [G]
    assert story.locamu(1).asked_for() == asked
    story.let_end()
    assert story.is_member(1) == (wanted != "withdrawn")
    assert story.rows(1, "join", "leave") == (["join"] if asked else [])


def test_it_asks_again_with_what_was_not_sent_before_the_crash() -> None:
    story = Story("join 1 g", "crash 1 0", "recover 1")
    story.let_end()
    assert story.is_member(1)


@pytest.mark.parametrize("effects", range(8))
def test_it_crashes_in_the_step_in_which_it_is_admitted(effects: int) -> None:
    story = Story("join 1 g", "arrive 1 0", f"crash_in_step 1 {effects}")
    story.let_end()
    assert story.is_member(1)
    assert story.rows(1, "join") == ["join"]


def test_a_join_that_is_open_is_asked_for_once() -> None:
    story = Story(*LEFT_OPEN)
    assert not story.run.director.do(("join", 1, "g"))
    story.run.simulation.lives.join_group(NodeId(1), G)
    assert story.run.simulation.fired["join_group"] == 1
    story.let_end()


def test_who_withdrew_joins_at_once_when_it_was_admitted_all_the_same() -> None:
    story = Story(*LEFT_OPEN, "leave 1 g")
    assert story.run.simulation.fired["join_withdrawn"] == 1
    story.let_end()
    assert not story.is_member(1)
    story.do("join 1 g")
    assert story.is_member(1)
    story.do("leave 1 g", "join 1 g")
    assert story.rows(1, "join", "leave") == ["join", "leave", "join"]
    story.let_end()


def test_a_join_is_refused_while_the_coordinator_is_down() -> None:
    story = Story("crash 0 0")
    story.let_happen()
    story.run.director.do(("join", 1, "g"))
    assert story.run.simulation.fired["join_refused"] == 1
    story.let_end()
    assert not story.is_member(1)


def test_nobody_becomes_a_member_unasked_or_twice() -> None:
    members = Story().locamu(1).members
    assert not members.admit(G, NodeId(1), 1)
    members.remember_joiner(GroupId(2), NodeId(1), [])
    assert members.admit(GroupId(2), NodeId(1), 1)
    assert not members.admit(GroupId(2), NodeId(1), 2)


def test_a_node_may_be_admitted_to_several_groups_in_one_step() -> None:
    story = Story("crash 2 0")
    locamu = story.locamu(1)
    assert locamu.joins_at_once(GroupId(1)) and not locamu.joins_at_once(G)
    world = story.run.simulation
    world.out.joined(G)
    world.out.joined(GroupId(1))
    world.steps.finish(world.nodes[1], None)
    assert list(world.nodes[1].groups) == [GroupId(1), G]
    assert story.rows(1, "join") == ["join", "join"]


def test_a_join_that_a_crash_loses_would_be_noticed() -> None:
    """That a member too early would be is shown in `tests/papers/test_locamu_errata.py`."""
    scenario = Scenario(Story("join 1 g", "crash 1 0", "recover 1").text, "story")
    assert try_scenario(scenario).problems == []
    with find_mutant(MUTANTS, "join_lost_in_a_crash").planted():
        assert try_scenario(scenario).broken() == {"at_rest"}


def test_an_application_waits_until_it_is_admitted() -> None:
    cluster = Cluster(nodes=3, overlay="line", protocol="locamu", groups=GROUPS)
    applications = Applications(cluster)
    heard: list[bytes] = []

    async def application(node: Any) -> None:
        async with node.group("g") as g:
            assert node.is_member(G)
            await g.publish(b"I am here")
            async for message in g:
                heard.append(message.payload)

    async def story() -> None:
        applications.start(1, application)
        await asyncio.sleep(5)

    applications.run(story())
    assert heard == [b"I am here"]


def test_the_test_kit_says_why_nobody_can_join_now() -> None:
    cluster = Cluster(nodes=3, overlay="line", protocol="locamu", groups=GROUPS)
    cluster.run_ms(100)
    cluster.crash(0)
    cluster.run_ms(1000)
    with pytest.raises(NodeError, match="cannot join 'g' now: node 0"):
        cluster.join(1, "g")
