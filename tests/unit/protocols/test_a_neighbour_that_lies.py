"""A neighbour on a safe link brings what cannot be next: it is dropped, and the rest goes on."""

from typing import Any

import pytest

from causalcast.core import MILLISECOND, Message, NodeId, Publication
from causalcast.core.effects import Send
from causalcast.core.ids import ANY_LINK, GroupId, message_id
from causalcast.core.stack import MULTICAST
from causalcast.parts.safe_links.links import SafeLinks, safe_links_of
from causalcast.protocols import prc_broadcast
from causalcast.protocols.cptcast import messages as cptcast
from causalcast.simulator.directed_run import DirectedRun
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.generate import toml_text

LIAR, VICTIM, HONEST = NodeId(0), NodeId(1), NodeId(2)
NOT_NEXT = Publication(message_id(HONEST, 5), GroupId(0), b"made up")
LIES: list[tuple[str, dict[str, str], list[Message]]] = [
    ("prc_broadcast", {}, [prc_broadcast.Gossip(NOT_NEXT)]),
    ("cptcast", {"order": "queue"}, [cptcast.Gossip(NOT_NEXT, 1)]),
    ("cptcast", {}, [cptcast.Gossip(NOT_NEXT, 1)]),
    # It stalls, and its payload comes unasked: the stream must not turn round it for ever.
    ("cptcast", {}, [cptcast.IHave(NOT_NEXT.id, 1), cptcast.Grafted(NOT_NEXT, 1)]),
]


class Line:
    """Three in a line; the test speaks for the first of them too."""

    def __init__(self, protocol: str, options: dict[str, str]) -> None:
        overlay = {"kind": "line", "nodes": 3}
        tables: list[tuple[str, dict[str, Any]]] = [("options", options), ("overlay", overlay)]
        text = toml_text({"protocol": protocol, "seed": 1, "steps": []}, tables)
        self.run = DirectedRun(Scenario(text, "line"), "deliveries", turn_us=MILLISECOND)
        self.victim = self.run.simulation.nodes[VICTIM].stack.multicast
        assert all(link.safe_in for link in safe_links_of(self.victim).links.values())

    def says(self, lie: Message) -> None:
        self.run.simulation.send(LIAR, Send(MULTICAST, VICTIM, lie, ANY_LINK))
        assert self.run.director.do(("arrive", LIAR, VICTIM))

    def delivered(self, node: NodeId) -> list[tuple[int, int]]:
        rows = self.run.result().events.to_pylist()
        ids = [row["message"] for row in rows if row["node"] == node and row["kind"] == "deliver"]
        return [(message >> 32, message & 0xFFFFFFFF) for message in ids]


@pytest.mark.parametrize(("protocol", "options", "lies"), LIES)
def test_what_cannot_be_next_is_dropped_and_everything_else_comes(
    protocol: str, options: dict[str, str], lies: list[Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    accept = SafeLinks.accept
    asked = 0

    def counted(self: SafeLinks, *arguments: Any) -> bool:
        nonlocal asked
        asked += 1
        assert asked < 50, "it turns for ever"
        return accept(self, *arguments)

    monkeypatch.setattr(SafeLinks, "accept", counted)
    line = Line(protocol, options)
    empty = line.victim.state_size()
    for lie in lies:
        line.says(lie)
    assert safe_links_of(line.victim).out_of_turn == 1
    assert line.victim.state_size() == empty, "nothing is kept of it"
    assert line.run.director.do(("publish", LIAR, "all"))
    assert line.run.director.do(("publish", HONEST, "all"))
    assert line.run.director.complete(recover_all=True)
    for node in (LIAR, VICTIM, HONEST):
        assert sorted(line.delivered(node)) == [(LIAR, 1), (HONEST, 1)]
