"""What LoCaMu tells people: why a message waits, when too many nodes are down, who is a member."""

from causalcast.core import NodeId, graphs
from causalcast.core.ids import MessageId, message_id
from causalcast.protocols.locamu.fault_budget import is_within_budget
from causalcast.protocols.locamu.protocol import Locamu
from causalcast.protocols.locamu.spec import SPEC
from causalcast.simulator.directed_run import DirectedRun
from causalcast.simulator.scenarios.director import parse
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.generate import toml_text


class Stage:
    """A directed run that takes steps as text."""

    def __init__(
        self, edges: list[list[int]], groups: dict[str, list[int]], headers: str = "compressed"
    ) -> None:
        nodes = 1 + max(max(edge) for edge in edges)
        tables = [
            ("options", {"headers": headers}),
            ("overlay", {"kind": "edges", "nodes": nodes, "edges": edges}),
            ("groups", groups),
        ]
        self.scenario = Scenario(toml_text({"protocol": "locamu", "steps": []}, tables), "stage")
        self.run = DirectedRun(self.scenario, "full")

    def do(self, *steps: str) -> None:
        groups = self.scenario.blueprint.groups.names
        for step in steps:
            assert self.run.director.do(parse(step, self.scenario.nodes(), groups)), step

    def locamu(self, node: int) -> Locamu:
        multicast = self.run.simulation.nodes[node].stack.multicast
        assert isinstance(multicast, Locamu)
        return multicast

    def delivered(self, node: int) -> list[MessageId]:
        rows = self.run.result().events.to_pylist()
        return [r["message"] for r in rows if r["node"] == node and r["kind"] == "deliver"]


LINE = [[0, 1], [1, 2], [2, 3], [3, 4]]
M0, M1 = message_id(NodeId(0), 1), message_id(NodeId(0), 2)


def test_a_held_message_says_which_number_it_waits_for() -> None:
    stage = Stage([[0, 1], [1, 2]], {"all": [0, 1, 2]}, headers="dense")
    stage.do("suspect 0 1", "publish 0 all", "publish 0 all", "lose 0 2", "bring 0 2")
    held = stage.locamu(2)
    assert held.explain(M1) == []  # no copy that waits shows the id of what is missing
    words = "the message that node 0 numbered 1 for this node"
    assert held.reasons(M1) == [f"a copy from node 0 waits for {words}"]
    rows = stage.run.result().events.to_pylist()
    assert [r["note"] for r in rows if r["kind"] == "hold"] == [f"waits for {words}"]


def test_a_message_that_may_not_leave_says_which_path_it_lacks() -> None:
    stage = Stage(LINE, {"all": [0, 1, 2, 3, 4]})
    stage.do("publish 0 all", "suspect 0 1", "bring 0 2", "suspect 2 3")
    assert "node 4 needs the numbers of 2 nodes on a safe path; known are those of 2" in (
        stage.locamu(2).reasons(M0)
    )
    assert stage.locamu(0).reasons(M0) == [
        "node 1 is suspected; it gets the message when it is back",
        "node 2 has not confirmed that it has the message and all its numbers",
    ]


def test_too_many_down_is_told_and_so_is_the_end_of_it() -> None:
    stage = Stage(LINE, {"all": [0, 1, 2, 3, 4]})
    fired = stage.run.simulation.fired
    stage.do("suspect 0 1")
    assert "note.locamu.too_many_down" not in fired
    stage.do("suspect 0 2")
    assert fired["note.locamu.too_many_down"] == 1
    stage.do("publish 0 all")
    assert stage.delivered(2) == []
    stage.do("trust 0 2")
    assert fired["note.locamu.within_budget"] == 1
    stage.run.complete()
    assert stage.delivered(4) == [M0]


def test_the_budget_is_f_of_any_2f_plus_1_in_a_row() -> None:
    line = graphs.from_edges(9, graphs.line(9))
    star = graphs.from_edges(5, graphs.star(5))

    def within(f: int, *down: int) -> bool:
        return is_within_budget({NodeId(node): None for node in down}, line, f)

    assert within(1, 1, 4) and not within(1, 1, 3) and not within(1, 1, 2)
    assert within(2, 1, 2, 6) and not within(2, 1, 2, 5)
    assert not is_within_budget({NodeId(1): None, NodeId(2): None}, star, 1)


def test_a_member_that_joins_gets_what_is_published_after_it_was_admitted() -> None:
    stage = Stage(LINE, {"g": [0]})
    stage.do("publish 1 g", "join 4 g", "publish 4 g")
    stage.run.complete()
    assert stage.delivered(4) == []  # it was no member
    assert message_id(NodeId(4), 1) in stage.delivered(0)
    stage.do("publish 4 g", "publish 1 g", "publish 0 g")
    stage.run.complete()
    after = [message_id(NodeId(node), number) for node, number in ((4, 2), (1, 2), (0, 1))]
    assert sorted(stage.delivered(4)) == sorted(after)
    assert all(SPEC.at_rest[0](stage.locamu(node)) for node in range(5))
