"""A member says what a neighbour of the receiver did, which is up: it is not believed.

Line 0-1-2. Node 0 lies to node 2 about the numbers of node 1. If node 2 took a number of node 1 for
arrived, it would drop the message that node 1 gives that number.
"""

import pytest

from causalcast.core import Message, NodeId, Outbox, Publication
from causalcast.core.effects import Send
from causalcast.core.ids import ANY_LINK, GroupId, message_id
from causalcast.core.stack import MULTICAST
from causalcast.protocols.locamu.messages import Copy, HandedOn, Names, Replay
from causalcast.protocols.locamu.peers import Peers
from causalcast.protocols.locamu.protocol import Locamu
from causalcast.simulator.directed_run import DirectedRun
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.generate import toml_text
from causalcast.swarm.mutant import Mutant, Patch

LIAR, HONEST, VICTIM = NodeId(0), NodeId(1), NodeId(2)
TRUE = message_id(HONEST, 1)
LIE = Publication(message_id(LIAR, 1), GroupId(0), b"made up")
NUMBER = {VICTIM: 1}  # of the first message of node 1 for node 2
LIES: dict[str, Message] = {
    "a replay": Replay(Copy(LIE, b""), HONEST, 0, NUMBER, {}),
    "names": Names(HONEST, VICTIM, {1: [int(LIE.id)]}),
    "what is handed on": HandedOn(Copy(LIE, b""), LIAR, 0, {LIAR: {VICTIM: 1}, HONEST: NUMBER}, {}),
}


class Line:
    """Three in a line; the test speaks for the first of them too."""

    def __init__(self) -> None:
        tables = [
            ("overlay", {"kind": "line", "nodes": 3}),
            ("network", {"fifo": False}),
            ("groups", {"all": "*"}),
        ]
        text = toml_text({"protocol": "locamu", "steps": []}, tables)
        self.run = DirectedRun(Scenario(text, "line"), "full")

    def says(self, lie: Message) -> None:
        self.run.simulation.send(LIAR, Send(MULTICAST, VICTIM, lie, ANY_LINK))
        assert self.run.director.do(("arrive", LIAR, VICTIM))

    def do(self, *step: str | int) -> None:
        assert self.run.director.do(step), step

    def delivered(self) -> list[int]:
        """By the node that was lied to."""
        rows = self.run.result().events.to_pylist()
        return [r["message"] for r in rows if r["node"] == VICTIM and r["kind"] == "deliver"]


def after_the_lies(name: str) -> Line:
    """The liar's own message comes past the other one; what is true comes after it."""
    line = Line()
    line.do("suspect", LIAR, HONEST)
    line.do("publish", LIAR, "all")
    line.do("bring", LIAR, VICTIM)
    line.says(LIES[name])
    line.do("publish", HONEST, "all")
    line.do("publish", HONEST, "all")
    line.run.complete()
    return line


@pytest.mark.parametrize("name", LIES)
def test_a_member_is_not_believed_about_a_node_that_is_up(name: str) -> None:
    line = after_the_lies(name)
    rows = line.run.result().events.to_pylist()
    assert [r["note"] for r in rows if r["kind"] == "note"].count("locamu.not_believed") == 1
    assert sorted(line.delivered()) == [LIE.id, TRUE, TRUE + 1]
    assert line.run.is_complete()


def believe_everybody(self: Peers, nodes: list[NodeId], sender: NodeId, out: Outbox) -> bool:
    return True


@pytest.mark.parametrize("name", LIES)
def test_believed_it_would_do_harm(name: str) -> None:
    with Mutant("planted", "", [], [Patch(Peers, "may_speak_for", believe_everybody)]).planted():
        assert sorted(after_the_lies(name).delivered()) != [LIE.id, TRUE, TRUE + 1]


def test_nobody_is_told_more_about_his_own_numbers_than_he_knows() -> None:
    """What depends on numbers that a node never gave does not make it leave some out."""
    line = Line()
    victim = line.run.simulation.nodes[VICTIM].stack.multicast
    assert isinstance(victim, Locamu)
    victim.past.raise_to((VICTIM, HONEST), 7)
    line.do("publish", VICTIM, "all")
    line.run.complete()
    others = {node.me: node.stack.multicast for node in line.run.simulation.nodes}
    assert all(one.is_idle() for one in others.values() if isinstance(one, Locamu))
