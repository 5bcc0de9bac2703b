"""Open mesh: whoever knows one node comes to know all, and everybody is linked with everybody."""

from typing import Any

import pytest

from causalcast.core import ANY_LINK, Message, NodeId, Outbox
from causalcast.core.effects import CancelTimer, CloseLink, NeighbourUp, OpenLink, Send, StartTimer
from causalcast.core.ids import LinkId, link_id
from causalcast.overlays import open_mesh
from causalcast.overlays.open_mesh import DIAL, TELL, Heard, Known, OpenMesh
from causalcast.simulator.scenario_run import ScenarioRun
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.generate import toml_text

ME = NodeId(5)


class Alone:
    """A node's overlay, and what it wants after each input."""

    def __init__(self) -> None:
        self.out = Outbox()
        self.overlay = OpenMesh(ME, 100)

    def wants(self) -> list[Any]:
        """What it asked for since this was last called."""
        wanted = [*self.out.notices, *self.out.effects]
        self.out.notices.clear()
        self.out.effects.clear()
        self.out.records.clear()
        return wanted

    def dials(self) -> list[NodeId]:
        return [effect.to for effect in self.wants() if isinstance(effect, OpenLink)]

    def sends(self) -> list[tuple[NodeId, str, list[NodeId]]]:
        return [
            (effect.to, type(effect.message).__name__, effect.message.nodes)
            for effect in self.wants()
            if isinstance(effect, Send) and isinstance(effect.message, Known | Heard)
        ]

    def timers(self) -> dict[tuple[str, int], int]:
        return {
            (effect.name, effect.subject): effect.after
            for effect in self.wants()
            if isinstance(effect, StartTimer)
        }

    def link(self, peer: int, count: int = 1) -> LinkId:
        link = link_id(NodeId(peer), count)
        self.overlay.on_link_up(NodeId(peer), link, False, self.out)
        return link

    def hear(self, peer: int, message: Message) -> None:
        self.overlay.on_message(NodeId(peer), message, self.out)

    def expire(self, name: str, subject: int = 0) -> None:
        self.overlay.on_timer(name, subject, self.out)

    def lose(self, peer: int, link: LinkId = ANY_LINK) -> None:
        """A link, or a dial that failed."""
        self.overlay.on_link_lost(NodeId(peer), link, "gone", self.out)


def names(*nodes: int) -> list[NodeId]:
    return [NodeId(node) for node in nodes]


def test_a_newcomer_dials_its_contact_and_then_whom_that_knows() -> None:
    node = Alone()
    node.overlay.on_join(NodeId(1), node.out)
    assert node.dials() == [1]
    node.link(1)
    assert any(isinstance(wanted, NeighbourUp) for wanted in node.wants())
    node.hear(1, Known(names(2, 9)))
    wanted = node.wants()
    assert [w.to for w in wanted if isinstance(w, OpenLink)] == [2]  # the lesser waits for 9
    assert next((w.name, w.subject) for w in wanted if isinstance(w, StartTimer)) == (DIAL, 9)
    node.expire(DIAL, 9)
    assert node.dials() == [9]


def test_who_is_met_is_told_of_to_all_others() -> None:
    node = Alone()
    node.link(1)
    node.link(2)
    assert (1, "Known", [2]) in node.sends()
    node.link(9)
    assert set(map(str, node.sends())) >= {
        str((1, "Known", names(2, 9))),
        str((2, "Known", names(1, 9))),
        str((9, "Known", names(1, 2))),
    }


def test_names_are_told_again_until_they_are_confirmed() -> None:
    node = Alone()
    node.link(1)
    node.link(2)
    node.wants()
    node.hear(2, Heard(names(1)))
    node.expire(TELL)
    wanted = node.wants()
    assert [w.to for w in wanted if isinstance(w, Send)] == [1]
    assert [w.after for w in wanted if isinstance(w, StartTimer)] == [200]  # twice as long
    node.hear(1, Heard(names(2)))
    node.expire(TELL)
    assert node.wants() == []


def test_who_tells_names_knows_them() -> None:
    node = Alone()
    node.link(1)
    node.hear(1, Known(names(2)))
    assert (1, "Heard", [2]) in node.sends()
    node.expire(TELL)
    assert node.sends() == []


def test_a_new_link_is_told_everything_again() -> None:
    node = Alone()
    first = node.link(1)
    node.link(2)
    node.hear(1, Heard(names(2)))
    node.lose(1, first)
    node.wants()
    node.link(1, 2)
    assert (1, "Known", [2]) in node.sends()


def test_a_lost_neighbour_is_dialled_again_after_longer_and_longer_pauses() -> None:
    node = Alone()
    node.lose(1, node.link(1))
    pauses = []
    for _ in range(8):
        pauses += [after for (name, _), after in node.timers().items() if name == DIAL]
        node.expire(DIAL, 1)
        assert node.dials() == [1]
        node.lose(1)
    assert pauses == [100, 200, 400, 800, 1600, 3200, 3200, 3200]


def test_a_name_that_nobody_answers_to_is_dialled_ever_more_seldom() -> None:
    """Never given up: the other end may be cut off from this node for an hour, and think the
    same."""
    node = Alone()
    node.link(1)
    node.hear(1, Known(names(2)))
    for _ in range(20):
        node.wants()
        node.lose(2)
        pauses = node.timers()
        node.expire(DIAL, 2)
    assert pauses == {(DIAL, 2): 100 * open_mesh.LONGEST_ON_HEARSAY.value}
    node.link(2)  # it came, and is kept up from now on
    node.wants()
    node.lose(2, link_id(NodeId(2), 1))
    assert node.timers() == {(DIAL, 2): 100}


def test_who_was_let_go_is_not_dialled_and_may_come() -> None:
    node = Alone()
    node.link(1)
    link = node.link(2)
    node.overlay.on_let_go(NodeId(2), node.out)
    assert any(isinstance(wanted, CancelTimer) for wanted in node.wants())
    node.lose(2, link)
    assert node.timers() == {}
    node.hear(1, Known(names(2)))
    assert node.dials() == []
    node.link(2, 2)
    assert any(isinstance(wanted, NeighbourUp) for wanted in node.wants())
    node.link(8)
    assert (8, "Known", [1]) in node.sends()


def test_who_was_let_go_before_it_was_met_may_come() -> None:
    node = Alone()
    node.overlay.on_let_go(NodeId(2), node.out)
    node.link(2)
    wanted = node.wants()
    assert any(isinstance(effect, NeighbourUp) for effect in wanted)
    assert not any(isinstance(effect, CloseLink) for effect in wanted)
    assert node.overlay.snapshot() == []


def test_there_are_never_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_mesh.MOST_NODES, "value", 2)
    node = Alone()
    node.link(1)
    node.hear(1, Known(names(2, 3, 4)))
    assert node.dials() == [2]
    node.link(7)
    assert any(isinstance(wanted, CloseLink) for wanted in node.wants())


def test_names_survive_a_crash() -> None:
    node = Alone()
    node.link(1)
    node.hear(1, Known(names(2, 3)))
    records = [record.message for record in node.out.records]
    for kept in (records, node.overlay.snapshot()):
        again = Alone()
        again.overlay.on_recover(kept, again.out)
        assert again.dials() == [1, 2, 3]


def test_who_has_left_dials_nobody() -> None:
    node = Alone()
    link = node.link(1)
    node.overlay.on_leave(node.out)
    assert any(isinstance(wanted, CloseLink) for wanted in node.wants())
    node.lose(1, link)
    assert node.timers() == {}
    node.expire(DIAL, 1)
    assert node.dials() == []


@pytest.mark.parametrize(
    ("nodes", "loss", "seed"), [(2, 0.0, 1), (12, 0.4, 1), *((3, 0.4, seed) for seed in range(9))]
)
def test_everybody_comes_to_be_linked_with_everybody(nodes: int, loss: float, seed: int) -> None:
    sides = [list(range(0, nodes, 2)), list(range(1, nodes, 2))]
    tables: list[tuple[str, dict[str, Any]]] = [
        ("overlay", {"kind": "open_mesh", "nodes": nodes, "join_every_ms": 0, "settle_ms": 9000}),
        ("network", {"latency_ms": {"kind": "uniform", "low": 5, "high": 15}, "loss": loss}),
        ("[fault]", {"at_ms": 100, "kind": "partition", "sides": sides, "loud": True}),
        ("[fault]", {"at_ms": 3_000, "kind": "heal"}),
        ("calm", {"ms": 20_000}),
    ]
    tables[1][1]["fifo"] = True
    head = {"protocol": "viewed_broadcast", "until_ms": 5_000, "seed": seed}
    run = ScenarioRun(Scenario(toml_text(head, tables), "test"), "deliveries")
    for _ in range(2):
        for node in run.simulation.nodes:
            assert isinstance(node.stack.overlay, OpenMesh)
            linked = [peer for peer, state in node.stack.overlay._peers.items() if state.link]
            assert sorted(linked) == [n.me for n in run.simulation.nodes if n.me != node.me]
        run.run()
