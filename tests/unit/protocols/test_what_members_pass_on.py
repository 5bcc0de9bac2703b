"""`member_multicast` where a link is slow, a member dies half-way, or two lose their link."""

from pathlib import Path

from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.trial import try_scenario
from causalcast.testing import Cluster

PAST = Path(__file__).parents[2] / "simulation" / "past_failures"


def test_a_slow_link_makes_nobody_deaf() -> None:
    """More than a thousand messages wait for one that is on its way."""
    trial = try_scenario(Scenario.read(PAST / "hold_back_queue_was_full.toml"))
    assert trial.problems == [] and trial.run is not None
    rows = trial.run.events.to_pylist()
    published = sum(row["kind"] == "publish" for row in rows)
    for node in range(3):
        delivered = sum(row["kind"] == "deliver" and row["node"] == node for row in rows)
        assert delivered == published == 1211


def members(nodes: int = 4) -> Cluster:
    return Cluster(nodes=nodes, protocol="member_multicast", fifo=True, detection_ms=5)


def test_when_a_member_dies_half_way_the_others_go_on() -> None:
    """Its last message reached one of them, whose answer waits at the others."""
    cluster = members()
    cluster.delay(0, 2, extra_ms=100)
    cluster.delay(0, 3, extra_ms=100)
    cluster.publish(0, b"last words")
    cluster.run_ms(2)
    cluster.crash(0)
    cluster.publish(1, b"answer")
    cluster.publish(2, b"meanwhile")
    cluster.run_ms(2)
    assert cluster.delivered(3) == [b"meanwhile"]
    cluster.run_ms(500)
    cluster.publish(3, b"and on")
    cluster.run_ms(500)
    for node in (1, 2, 3):
        said = cluster.delivered(node)
        assert sorted(said) == [b"and on", b"answer", b"last words", b"meanwhile"]
        assert said.index(b"last words") < said.index(b"answer") < said.index(b"and on")


def test_two_members_that_lost_their_link_hear_of_each_other_through_others() -> None:
    cluster = members(3)
    cluster.cut(0, 2)
    cluster.publish(0, b"on its way")
    cluster.run_ms(50)
    cluster.publish(0, b"question")
    cluster.run_ms(50)
    cluster.publish(2, b"answer")
    cluster.settle()
    for node in range(3):
        assert cluster.delivered(node) == [b"on its way", b"question", b"answer"]
    cluster.check()


def test_what_none_of_the_living_has_is_lost_and_holds_up_nobody() -> None:
    cluster = members(3)
    cluster.delay(0, 1, extra_ms=100)
    cluster.delay(0, 2, extra_ms=100)
    cluster.publish(0, b"to nobody")
    cluster.crash(0)
    cluster.run_ms(50)
    cluster.publish(1, b"still here")
    cluster.run_ms(500)
    assert cluster.delivered(1) == cluster.delivered(2) == [b"still here"]


def test_nonsense_about_members_is_noted() -> None:
    from causalcast.core import NodeId, Outbox, Publication, message_id
    from causalcast.core.effects import Note
    from causalcast.protocols.member_multicast.protocol import Lost, PassedOn

    node = members(3).world.nodes[0].stack.multicast
    made_up = Publication(message_id(NodeId(2), 1), 0, b"never said")  # type: ignore[arg-type]
    out = Outbox()
    node.on_message(NodeId(1), Lost(NodeId(9), 0), out)
    node.on_message(NodeId(1), Lost(NodeId(2), -1), out)
    node.on_message(NodeId(1), PassedOn(made_up, [0, 0, 1]), out)
    noted = [effect.name for effect in out.effects if isinstance(effect, Note)]
    nobody, asked = "member_multicast.no_member", "member_multicast.nobody_asked"
    assert noted == [nobody, nobody, asked] and len(out.effects) == 3
