"""HyParView: views stay symmetric and connected through joins, leaves, crashes and partitions."""

from typing import Any

import pytest

from causalcast.core import NodeId, Outbox, Setup
from causalcast.core.effects import NeighbourDown, NeighbourUp, Send
from causalcast.core.groups import Groups
from causalcast.core.ids import LinkId, link_id
from causalcast.core.topology import Surroundings, Topology
from causalcast.overlays import hyparview
from causalcast.overlays.hyparview import (
    AskNeighbour,
    Disconnect,
    HyParView,
    Join,
    No,
    Settled,
    TurnTo,
    Welcome,
    Yes,
)
from causalcast.simulator.scenario_run import ScenarioRun
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.simulator.worlds.simulated_world import SimulatedWorld
from causalcast.swarm.generate import toml_text


def overlay_run(
    nodes: int,
    active: int,
    faults: list[dict[str, Any]],
    calm_ms: int,
    seed: int = 3,
    join_every_ms: int = 20,
) -> ScenarioRun:
    overlay = {
        "kind": "hyparview",
        "nodes": nodes,
        "active_view": active,
        "join_every_ms": join_every_ms,
        "settle_ms": 20_000,
    }
    tables: list[tuple[str, dict[str, Any]]] = [
        ("overlay", overlay),
        ("network", {"latency_ms": {"kind": "uniform", "low": 5, "high": 15}}),
        *[("[fault]", fault) for fault in faults],
        ("calm", {"ms": calm_ms}),
    ]
    head = {"protocol": "naive_flood", "until_ms": 70_000, "seed": seed}
    return ScenarioRun(Scenario(toml_text(head, tables), "test"), "deliveries")


def views(world: SimulatedWorld) -> dict[NodeId, list[NodeId]]:
    found = {}
    for node in world.nodes:
        if node.up:
            assert isinstance(node.stack.overlay, HyParView)
            found[node.me] = list(node.stack.overlay.active)
    return found


def assert_sound(world: SimulatedWorld, most: int) -> None:
    """Every neighbour is up and agrees, nobody has too many, and all are connected."""
    graph = views(world)
    for node, peers in graph.items():
        assert len(peers) <= most
        for peer in peers:
            assert node in graph[peer], f"{node} has {peer} as a neighbour, not the other way"
    assert Topology(graph).is_connected()


@pytest.mark.parametrize(("nodes", "active"), [(2, 3), (7, 3), (150, 4)])
def test_nodes_that_join_one_after_the_other_are_connected(nodes: int, active: int) -> None:
    run = overlay_run(nodes, active, [], 0)
    assert_sound(run.simulation, active)
    degrees = [len(peers) for peers in views(run.simulation).values()]
    assert sum(degrees) >= 0.9 * min(active, nodes - 1) * nodes


@pytest.mark.parametrize(("nodes", "active", "seeds"), [(6, 3, 40), (20, 3, 20), (100, 4, 4)])
def test_nodes_that_join_all_at_once_are_connected(nodes: int, active: int, seeds: int) -> None:
    """Before full views turned newcomers to others, half of such runs ended in several parts."""
    for seed in range(seeds):
        run = overlay_run(nodes, active, [], 0, seed, 0)
        assert_sound(run.simulation, active)


@pytest.mark.slow
def test_a_thousand_nodes_with_the_views_of_the_thesis() -> None:
    run = overlay_run(1000, 4, [], 0)
    assert_sound(run.simulation, 4)
    degrees = [len(peers) for peers in views(run.simulation).values()]
    assert sum(degrees) / 1000 >= 3.9


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_survivors_of_a_mass_crash_find_together(share: float) -> None:
    faults = [
        {"at_ms": 100, "kind": "crash", "node": node} for node in range(0, 100, round(1 / share))
    ]
    run = overlay_run(100, 4, faults, 1000)
    run.run()
    assert_sound(run.simulation, 4)


def test_halves_find_together_after_a_minute_apart() -> None:
    even, odd = list(range(0, 100, 2)), list(range(1, 100, 2))
    faults: list[dict[str, Any]] = [
        {"at_ms": 100, "kind": "partition", "sides": [even, odd], "loud": True},
        {"at_ms": 60_100, "kind": "heal"},
    ]
    run = overlay_run(100, 4, faults, 80_000)
    simulation = run.simulation
    simulation.run(simulation.started_us + 60_000_000)
    for node, peers in views(simulation).items():
        assert all(peer % 2 == node % 2 for peer in peers)  # the cut was complete
    run.run()
    assert_sound(simulation, 4)


def two_parts(look_every_ms: int) -> ScenarioRun:
    """Halves whose views are full of one another, and that have forgotten whom they lost."""
    sides = [list(range(0, 16, 2)), list(range(1, 16, 2))]
    overlay = {
        "kind": "hyparview",
        "nodes": 16,
        "active_view": 3,
        "probe_for": 1,
        "shuffle_every": 1000,
        "look_every": look_every_ms,
    }
    tables: list[tuple[str, dict[str, Any]]] = [
        ("overlay", overlay),
        ("network", {"latency_ms": {"kind": "uniform", "low": 5, "high": 15}}),
        ("[fault]", {"at_ms": 100, "kind": "partition", "sides": sides, "loud": True}),
        ("[fault]", {"at_ms": 40_000, "kind": "heal"}),
        ("calm", {"ms": 0}),
    ]
    head = {"protocol": "naive_flood", "until_ms": 120_000, "seed": 3}
    run = ScenarioRun(Scenario(toml_text(head, tables), "test"), "deliveries")
    run.run()
    return run


def test_parts_that_do_not_know_of_each_other_find_together() -> None:
    """They look at nodes that they knew early, and compare the names of their parts."""
    run = two_parts(6000)
    assert_sound(run.simulation, 3)
    assert run.simulation.fired["note.hyparview.another_part"] > 0
    named = {node.stack.overlay.part for node in run.simulation.nodes}  # type: ignore[attr-defined]
    assert named == {0}


def test_without_looking_they_would_be_apart_for_ever() -> None:
    graph = views(two_parts(1_000_000_000).simulation)
    assert not Topology(graph).is_connected()


def test_one_part_that_is_whole_asks_nobody_to_switch() -> None:
    run = overlay_run(30, 4, [], 60_000)
    run.run()
    assert "note.hyparview.another_part" not in run.simulation.fired
    assert_sound(run.simulation, 4)


def test_nobody_keeps_one_that_left() -> None:
    run = overlay_run(20, 3, [{"at_ms": 100, "kind": "leave", "node": 4}], 1000)
    run.run()
    assert_sound(run.simulation, 3)
    assert 4 not in views(run.simulation)


def test_a_late_node_joins_through_its_contact() -> None:
    run = overlay_run(20, 3, [{"at_ms": 100, "kind": "join", "node": 7, "via": 2}], 1000)
    assert 7 not in views(run.simulation)
    run.run()
    assert views(run.simulation)[NodeId(7)]
    assert_sound(run.simulation, 3)


# One node, message by message


class Alone:
    """One overlay whose peers are played by the test."""

    def __init__(self, me: int = 5, active: int = 2) -> None:
        around = Surroundings(NodeId(me), Topology({}), Groups({}))

        def no_inner(*_: object) -> Any:
            raise AssertionError

        options = hyparview.SPEC.settings({"active_view": active})
        setup = Setup(NodeId(me), "seed", options, Groups({}), around, no_inner)
        self.overlay = hyparview.build(setup)
        self.out = Outbox()

    def link_up(self, peer: int, dialled: bool, count: int = 1) -> LinkId:
        link = link_id(NodeId(5 if dialled else peer), count)
        self.overlay.on_link_up(NodeId(peer), link, dialled, self.out)
        return link

    def hears(self, peer: int, message: Any) -> list[Any]:
        """What it sends in answer to a message."""
        self.out.effects.clear()
        self.overlay.on_message(NodeId(peer), message, self.out)
        return self.sent()

    def sent(self) -> list[Any]:
        return [(e.to, e.message) for e in self.out.effects if isinstance(e, Send)]

    def befriend(self, peer: int) -> LinkId:
        link = self.link_up(peer, False)
        assert type(self.hears(peer, AskNeighbour(True))[0][1]) is Yes
        return link

    def notices(self) -> list[tuple[str, int, bool]]:
        found = []
        for notice in self.out.notices:
            assert isinstance(notice, (NeighbourUp, NeighbourDown))
            up = isinstance(notice, NeighbourUp)
            found.append(("up" if up else "down", int(notice.peer), up and notice.newborn))
        self.out.notices.clear()
        return found


def test_a_full_view_refuses_unless_priority_is_high() -> None:
    node = Alone()
    node.befriend(1)
    node.befriend(2)
    node.link_up(3, False)
    assert [type(message) for _, message in node.hears(3, AskNeighbour(False))] == [No]
    node.link_up(4, False)
    kinds = [type(message) for _, message in node.hears(4, AskNeighbour(True))]
    assert kinds == [Yes, Disconnect]
    assert len(node.overlay.active) == 2 and 4 in node.overlay.active
    assert len(node.overlay.passive) == 1  # the victim can be asked again


def test_a_late_yes_is_declined() -> None:
    node = Alone()
    node.befriend(1)
    node.overlay.passive[NodeId(9)] = None
    node.overlay.on_timer(hyparview.FILL, 0, node.out)
    node.link_up(9, True)
    assert node.sent()[-1][0] == 9
    node.befriend(2)  # fills the view meanwhile
    assert [type(message) for _, message in node.hears(9, Yes())] == [Disconnect]
    assert 9 not in node.overlay.active and 9 in node.overlay.passive


def test_our_dial_that_lost_against_theirs_is_forgotten() -> None:
    node = Alone()
    node.overlay.on_join(NodeId(1), node.out)
    node.link_up(1, False)
    assert not node.overlay.asked
    node.hears(1, AskNeighbour(True))
    assert node.notices() == [("up", 1, False)]


def test_a_peer_that_dials_again_replaces_its_old_link() -> None:
    node = Alone()
    old = node.befriend(1)
    new = node.link_up(1, False, count=2)
    node.hears(1, AskNeighbour(False))
    assert node.notices() == [("up", 1, False), ("down", 1, False), ("up", 1, False)]
    assert node.overlay.active == {1: new} and new != old


def test_a_newcomer_whose_contact_dies_before_its_welcome_asks_another_to_join() -> None:
    node = Alone()
    node.overlay.on_join(NodeId(1), node.out)
    node.overlay.on_join(NodeId(2), node.out)
    first = node.link_up(1, True)
    node.overlay.on_link_lost(NodeId(1), first, "broken", node.out)
    node.overlay.on_link_lost(NodeId(2), link_id(NodeId(5), 2), "refused", node.out)
    for _ in range(5):  # whichever of the two is drawn
        node.overlay.on_timer(hyparview.FILL, 0, node.out)
        asked = list(node.overlay.asked)
        assert asked
        node.out.effects.clear()
        node.link_up(asked[0], True, count=9)
        assert [type(message) for _, message in node.sent()] == [Join]
        node.overlay.on_link_lost(asked[0], link_id(NodeId(5), 9), "broken", node.out)


def test_a_newcomer_does_not_dial_a_dead_contact_without_a_pause() -> None:
    """It took somebody in itself and so is not alone: it dialled thousands of times a second."""
    node = Alone(active=3)
    node.overlay.on_join(NodeId(1), node.out)
    node.link_up(2, False)
    node.hears(2, Join())
    assert list(node.overlay.active) == [2]
    dials = 0
    while NodeId(1) in node.overlay.asked and dials < 50:
        node.overlay.on_link_lost(NodeId(1), link_id(NodeId(5), 1), "refused", node.out)
        dials += 1
    assert dials <= 2
    node.overlay.on_timer(hyparview.FILL, 0, node.out)
    assert NodeId(1) in node.overlay.asked


def test_a_newcomer_that_is_turned_in_a_circle_pauses() -> None:
    node = Alone()
    node.overlay.on_join(NodeId(1), node.out)
    turned, contact = 0, 1
    while NodeId(contact) in node.overlay.asked and turned < 50:
        node.link_up(contact, True, turned + 1)
        node.hears(contact, TurnTo([NodeId(3 - contact)]))
        turned, contact = turned + 1, 3 - contact
    assert turned == 1 + node.overlay.settings.active_walk
    node.overlay.on_timer(hyparview.FILL, 0, node.out)
    assert NodeId(1) in node.overlay.asked


def test_the_link_of_a_newcomer_is_spared_until_it_has_settled() -> None:
    node = Alone()
    node.link_up(1, False)
    node.hears(1, Join())
    node.befriend(2)
    node.befriend(3)
    assert 1 in node.overlay.active and 2 not in node.overlay.active
    node.hears(1, Settled())
    assert not node.overlay.spared


def test_a_view_of_newcomers_turns_others_away_and_says_where_to() -> None:
    node = Alone()
    for newcomer in (1, 2):
        node.link_up(newcomer, False)
        assert type(node.hears(newcomer, Join())[0][1]) is Welcome
    node.link_up(3, False)
    [(to, answer)] = node.hears(3, Join())
    assert to == 3 and isinstance(answer, TurnTo) and answer.nodes == [1, 2]
    node.link_up(4, False)
    assert [type(message) for _, message in node.hears(4, AskNeighbour(True))] == [No]
    assert list(node.overlay.active) == [1, 2]
    node.out.now += node.overlay.settings.spare_for
    node.link_up(3, False)
    assert type(node.hears(3, Join())[0][1]) is Welcome


def test_a_newcomer_keeps_a_place_for_whoever_takes_it_in() -> None:
    node = Alone()
    node.overlay.on_join(NodeId(9), node.out)
    node.link_up(9, True)
    node.link_up(1, False)
    assert type(node.hears(1, Join())[0][1]) is Welcome
    node.link_up(2, False)
    assert type(node.hears(2, Join())[0][1]) is TurnTo
    node.hears(9, Welcome([]))
    assert list(node.overlay.active) == [1, 9]


def test_a_newcomer_goes_where_it_is_turned_to() -> None:
    node = Alone()
    node.overlay.on_join(NodeId(9), node.out)
    node.link_up(9, True)
    node.link_up(1, False)
    node.hears(1, Join())  # taken in by us, as much outside as we are
    node.hears(9, TurnTo([NodeId(7)]))
    assert list(node.overlay.asked) == [7]
    node.out.effects.clear()
    node.link_up(7, True, count=2)
    assert [type(message) for _, message in node.sent()] == [Join]
    node.hears(7, TurnTo([NodeId(5)]))  # nowhere else: the contact once more, after a while
    node.overlay.on_timer(hyparview.FILL, 0, node.out)
    assert list(node.overlay.asked) == [9]


def test_whoever_was_refused_for_long_asks_with_priority() -> None:
    node = Alone()
    node.befriend(1)
    node.overlay.passive[NodeId(9)] = None
    asked = []
    for count in range(2, 10):
        node.overlay.on_timer(hyparview.FILL, 0, node.out)
        node.out.effects.clear()
        node.link_up(9, True, count=count)
        [(_, request)] = node.sent()
        asked.append(request.high)
        node.hears(9, No())
    assert asked == [False] * 5 + [True] * 3


def test_the_welcome_names_others_to_turn_to() -> None:
    node = Alone()
    node.overlay.on_join(NodeId(1), node.out)
    node.link_up(1, True)
    node.hears(1, Welcome([NodeId(7), NodeId(5)]))
    assert node.notices() == [("up", 1, True)]
    assert list(node.overlay.asked) == [7]  # it has room, and asks at once


def test_a_replaced_neighbour_is_not_drawn_again_at_once() -> None:
    node = Alone(active=1)
    link = node.befriend(1)
    node.overlay.passive[NodeId(8)] = None
    node.overlay.on_switch(link, node.out)
    assert list(node.overlay.asked) == [8] and 1 in node.overlay.passive


def test_without_losses_nobody_is_probed() -> None:
    run = overlay_run(30, 3, [], 0)
    for node in run.simulation.nodes:
        assert isinstance(node.stack.overlay, HyParView)
        assert not node.stack.overlay.lost
        assert all(name != hyparview.PROBE for _, name, _ in node.timers)
