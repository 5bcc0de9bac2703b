"""LoCaMu's golden examples: figure 3 of the paper, figure 3 of the dissertation."""

from pathlib import Path

import pytest

from causalcast.core import NodeId, Outbox, Publication
from causalcast.core.ids import MessageId
from causalcast.protocols.locamu.link_header import Header, HeaderReader
from causalcast.protocols.locamu.messages import Copy
from causalcast.protocols.locamu.protocol import Locamu
from causalcast.simulator.directed_run import DirectedRun
from causalcast.simulator.scenarios.director import parse
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.campaign import Plan, try_seed
from causalcast.swarm.generate import toml_text
from causalcast.swarm.mutant import Mutant, Patch, find_mutant

MUTANTS = Path(__file__).parent.parent / "mutants" / "locamu.py"
NI, NJ, NK, NL, NM = (NodeId(node) for node in range(5))  # i, j, k, l, m of the figure


class Line:
    """Nodes in a line, f = 1, all of them members; headers can be read on their way."""

    def __init__(self, nodes: int) -> None:
        tables = [
            ("overlay", {"kind": "line", "nodes": nodes}),
            ("groups", {"all": "*"}),
            ("calm", {"recover_all": True}),
        ]
        self.scenario = Scenario(toml_text({"protocol": "locamu", "steps": []}, tables), "line")
        self.run = DirectedRun(self.scenario, "messages")

    def do(self, *steps: str) -> None:
        for step in steps:
            words = parse(step, self.scenario.nodes(), ["all"])
            assert self.run.director.do(words), f"{step} cannot happen"

    def headers(self, sender: NodeId, to: NodeId) -> list[Header]:
        """The headers of all copies under way between two nodes, read in their order."""
        world = self.run.simulation
        receiver = world.nodes[to].stack.multicast
        assert isinstance(receiver, Locamu)
        reader = HeaderReader(receiver.headers.plan(sender, to))
        messages = [world.codec.decode(item.data)[1] for item in world.queues[sender, to]]
        return [reader.read(m.header) for m in messages if isinstance(m, Copy)]

    def delivered(self, node: NodeId) -> int:
        rows = self.run.result().events.to_pylist()
        return sum(row["node"] == node and row["kind"] == "deliver" for row in rows)


def test_g4_numbers_are_given_at_every_hop_and_dropped_outside_the_window() -> None:
    line = Line(6)
    line.do("publish 0 all")
    (first,) = line.headers(NI, NJ)
    assert first.numbers == {NI: {NJ: 1, NK: 1}}
    assert first.origin == NI
    line.do("bring 0 1")
    (second,) = line.headers(NJ, NK)
    assert second.numbers == {NI: {NJ: 1, NK: 1}, NJ: {NK: 1, NL: 1}}
    line.do("bring 1 2")
    (third,) = line.headers(NK, NL)
    assert set(third.numbers) == {NI, NJ, NK}
    line.do("bring 2 3")
    (fourth,) = line.headers(NL, NM)
    assert set(fourth.numbers) == {NJ, NK, NL}  # i is 4 hops from m
    assert fourth.origin != NI


def test_g5_copies_along_two_ways_are_recognised_by_the_numbers_they_share() -> None:
    line = Line(5)
    line.do("suspect 1 2", "publish 0 all", "bring 0 1", "suspect 0 1", "bring 0 2")
    (by_j,) = line.headers(NJ, NL)
    (by_k,) = line.headers(NK, NL)
    assert set(by_j.numbers) == {NI, NJ} and set(by_k.numbers) == {NI, NK}
    line.do("bring 1 3")
    (before,) = line.headers(NL, NM)
    assert set(before.numbers) == {NJ, NL}
    line.do("bring 2 3")
    assert line.delivered(NL) == 1
    before, merged = line.headers(NL, NM)
    assert set(merged.numbers) == {NJ, NK, NL}


def through_two_gaps() -> Line:
    """a, b, c, d, e: a reaches b and c, b only d, c only e, and d reaches e."""
    line = Line(5)
    line.do("suspect 1 2", "suspect 2 3", "publish 0 all", "suspect 0 1")
    line.do("bring 0 1", "bring 0 2", "bring 1 3", "bring 3 4")
    line.run.complete()
    return line


def test_g6_with_the_safety_rule_nobody_delivers_twice() -> None:
    line = through_two_gaps()
    assert [line.delivered(node) for node in (NI, NJ, NK, NL, NM)] == [1, 1, 1, 1, 1]


def test_g6_without_the_safety_rule_the_last_node_delivers_twice() -> None:
    with find_mutant(MUTANTS, "always_safe").planted():
        line = through_two_gaps()
    assert line.delivered(NM) == 2


@pytest.mark.slow
def test_the_global_id_is_only_looked_at_for_names() -> None:
    """With one and the same id on all publications everybody sends the same as before, where f is
    more than 1. With f = 1 it names publications for those who wait for numbers of the fallen."""
    on_publish = Locamu.on_publish

    def scrambled(self: Locamu, publication: Publication, out: Outbox) -> None:
        alike = Publication(MessageId(7 << 32 | 7), publication.group, publication.body)
        on_publish(self, alike, out)

    mutant = Mutant("scrambled", "", [], [Patch(Locamu, "on_publish", scrambled)])
    sent = 0
    for seed in range(80):
        drawn = try_seed(Plan("locamu", {"f": 2}, by="adversary", facts="plain"), seed)
        assert drawn.problems == []
        plain = sends(drawn.text)
        with mutant.planted():
            assert sends(drawn.text) == plain
        sent += len(plain)
    assert sent > 1000


def sends(text: str) -> list[tuple[int, int, str]]:
    """Who sends what kind of message to whom, in the order it happens at each node."""
    run = DirectedRun(Scenario(text, "replay"), "messages")
    run.run()
    rows = run.result().events.to_pylist()
    return [(row["node"], row["peer"], row["note"]) for row in rows if row["kind"] == "send"]
