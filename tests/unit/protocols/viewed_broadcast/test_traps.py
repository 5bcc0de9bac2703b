"""Schedules made by hand in which one rule alone decides: with it all is well, without it not.

A search seldom finds them: they need a message that only one node has, a view that is agreed on by
some, and a death between the two.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from causalcast.simulator.directed_run import DirectedRun
from causalcast.simulator.scenarios.director import Step
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.generate import toml_text
from causalcast.swarm.mutant import find_mutant
from causalcast.swarm.trial import Trial, try_run

MUTANTS = Path(__file__).parent / "planted.py"


class Play:
    """A run in which only what the story says happens, until it comes to rest."""

    def __init__(self, nodes: int, founders: int) -> None:
        tables = [
            ("options", {"founders": founders}),
            ("overlay", {"kind": "full_mesh", "nodes": nodes}),
            ("network", {"fifo": False}),
            ("groups", {"all": list(range(founders))}),
            ("calm", {"recover_all": True}),
        ]
        text = toml_text({"protocol": "viewed_broadcast", "seed": 1, "steps": []}, tables)
        self.run = DirectedRun(Scenario(text, "by hand"))
        self.world = self.run.simulation
        self.pump(range(nodes))

    def do(self, *step: str | int | float) -> None:
        """One step that must be possible."""
        assert self.run.director.do(step), step

    def pump(self, among: "range | list[int]") -> None:
        """All that is between these arrives, and what follows from it."""
        for _ in range(10_000):
            ways = [way for way in self.world.queues if way[0] in among and way[1] in among]
            if not ways:
                return
            self.run.director.do(("arrive", *ways[0]))

    def lose(self, node: int = -1) -> None:
        """What is under way, from one node or from all, never arrives."""
        for way in list(self.world.queues):
            for index in range(len(self.world.queues[way]) - 1, -1, -1):
                if node in (-1, way[0]):
                    step: Step = ("lose", *way, index)
                    self.run.director.do(step)

    def expire(self, node: int, name: str) -> None:
        if any(key[1] == name for key in self.world.nodes[node].timers):
            self.do("expire", node, name, 0)

    def agree(self, leader: int, among: list[int]) -> None:
        """One node leads, and these alone take part."""
        for _ in range(3):
            self.expire(leader, "change")
            self.pump(among)

    def die(self, node: int, tells: int) -> None:
        """It never comes back, and one of the others is told so."""
        self.lose(node)
        self.do("crash", node, 0.0)
        self.do("gone", tells, node)

    def view(self, node: int) -> int:
        """The newest view that a node knows."""
        return max(self.world.nodes[node].stack.multicast.membership.views)  # type: ignore[attr-defined]


def only_the_leader_has_it(play: Play) -> None:
    """Node 0 alone has a publication, leads, and dies when the view is decided."""
    play.die(4, tells=0)
    play.do("publish", 0, "all")
    play.lose()
    play.agree(0, [0, 1, 2])
    assert play.view(1) == 2
    play.die(0, tells=1)


def only_a_reporter_has_it(play: Play) -> None:
    """Node 2 alone has a publication, reports it, and dies when the view is decided."""
    play.die(4, tells=0)
    play.do("publish", 2, "all")
    play.lose()
    play.agree(0, [0, 1, 2])
    assert play.view(1) == 2
    play.die(2, tells=1)


def the_last_words_of_a_dead_member(play: Play) -> None:
    """Node 2 alone has what node 4 published; all report, and node 4 is closed."""
    play.do("publish", 4, "all")
    play.pump([2, 4])
    play.die(4, tells=0)
    play.agree(0, [0, 1, 2, 3])
    play.do("order", 0, "gone", 3)
    play.agree(0, [0, 1, 2, 3])
    assert play.view(1) == 3


def closed_while_somebody_is_away(play: Play) -> None:
    """Node 2 has what node 3 published, and is away when node 3 is removed and the next view is
    agreed on."""
    play.do("publish", 3, "all")
    play.pump([2, 3])
    play.die(3, tells=0)
    play.agree(0, [0, 1, 4])
    assert play.view(1) == 2
    play.do("order", 1, "gone", 4)
    play.pump([0, 1, 4])
    play.agree(0, [0, 1, 4])
    assert play.view(1) == 3


def a_late_copy_of_a_dead_member(play: Play) -> None:
    """What node 4 published arrives at node 2 after its promise, while node 4 is closed."""
    play.do("publish", 4, "all")
    for node in (0, 1, 3):
        play.do("lose", 4, node)
    play.do("crash", 4, 1.0)
    play.do("gone", 0, 4)
    play.agree(0, [0, 1, 2, 3])
    assert play.view(2) == 2
    play.do("order", 0, "gone", 3)
    play.expire(0, "change")
    play.pump([0, 2])
    play.pump([4, 2])
    play.agree(0, [0, 1, 2, 3])
    assert play.view(1) == 3


def a_gap_that_stays(play: Play) -> None:
    """Node 2 has the second publication of node 4, and nobody the first."""
    play.do("publish", 4, "all")
    play.do("publish", 4, "all")
    play.do("lose", 4, 2)
    play.do("arrive", 4, 2)
    play.die(4, tells=0)


def a_newcomer_comes_and_goes(play: Play) -> None:
    """Node 5 asks all to be let in, and is, and is removed, while node 0 is away."""
    play.do("crash", 0, 0.0)
    play.agree(1, [1, 2, 3, 4, 5])
    assert play.view(5) == 2
    play.do("order", 1, "gone", 5)
    play.agree(1, [1, 2, 3, 4, 5])
    assert play.view(1) == 3
    play.do("recover", 0)


def published_in_a_view_that_is_not_known(play: Play) -> None:
    """Nodes 0 and 1 let node 3 in, with a cut that node 2 has not reached; then node 1 publishes,
    with nothing in its stamp, and that alone arrives at node 2."""
    play.do("publish", 0, "all")
    play.do("lose", 0, 2)
    play.agree(0, [0, 1])
    assert play.view(1) == 2
    play.lose()
    play.do("publish", 1, "all")
    play.do("arrive", 1, 2)


def a_view_whose_cut_is_not_reached(play: Play) -> None:
    """The same, and the view arrives at node 2, before what its cut counts."""
    play.do("publish", 0, "all")
    play.do("lose", 0, 2)
    play.agree(0, [0, 1])
    play.pump([0, 2])
    assert play.view(2) == 2


STORIES: list[tuple[str, Callable[[Play], None], int, int]] = [
    ("accepted_without_copies", only_the_leader_has_it, 5, 5),
    ("proposed_without_copies", only_a_reporter_has_it, 5, 5),
    ("cut_of_the_leader", the_last_words_of_a_dead_member, 5, 5),
    ("copies_of_the_removed_taken", a_late_copy_of_a_dead_member, 5, 5),
    ("view_not_waited_for", published_in_a_view_that_is_not_known, 4, 3),
    ("installed_before_the_cut", a_view_whose_cut_is_not_reached, 4, 3),
    ("never_closed", a_gap_that_stays, 5, 5),
    ("the_dead_added_again", a_newcomer_comes_and_goes, 6, 5),
    ("closed_by_some", closed_while_somebody_is_away, 5, 5),
]


def judged(story: Callable[[Play], None], nodes: int, founders: int) -> Trial:
    play = Play(nodes, founders)

    def happen() -> None:
        story(play)
        play.run.complete()

    return try_run(play.run, happen)


NAMES = [name for name, *_ in STORIES]


@pytest.mark.parametrize(("mutant", "story", "nodes", "founders"), STORIES, ids=NAMES)
def test_the_rule_decides(
    mutant: str, story: Callable[[Play], None], nodes: int, founders: int
) -> None:
    assert judged(story, nodes, founders).problems == []
    planted = find_mutant(MUTANTS, mutant)
    with planted.planted():
        broken = judged(story, nodes, founders).broken()
    assert broken & set(planted.breaks), broken
