"""The log of deliveries is bounded by number and by bytes; what waits for a birth is counted; who
was left behind notices."""

import pytest

from causalcast.core import (
    SECOND,
    GroupId,
    Groups,
    LinkId,
    MessageId,
    NodeId,
    Outbox,
    Publication,
    Send,
    Setup,
    message_id,
)
from causalcast.core.effects import CancelTimer, Note, StartTimer
from causalcast.core.topology import Surroundings, Topology
from causalcast.parts.kept_weight import KEPT_OVERHEAD
from causalcast.parts.safe_links.vector_setup import (
    ALONE,
    GIVE_UP,
    LEFT_BEHIND,
    CatchUp,
    Counts,
    NeedBase,
    TooFarBehind,
    VectorSetup,
)
from causalcast.protocols.prc_broadcast import SPEC, PrcBroadcast

ME = NodeId(7)
PEER = NodeId(8)
LINK = LinkId(1)


def node(most: int, most_bytes: int, newcomer: bool = False) -> PrcBroadcast:
    options = {option.name: option.default for option in SPEC.options}
    options |= {"log": most, "log_bytes": most_bytes}
    groups = Groups({"all": [ME]})
    around = Surroundings(ME, Topology({ME: []}), groups)

    def no_inner(*_: object) -> None:
        raise AssertionError

    setup = Setup(ME, "seed", options, groups, around, no_inner)  # type: ignore[arg-type]
    setup.newcomer = newcomer
    return PrcBroadcast(setup)


def publish(protocol: PrcBroadcast, *sizes: int) -> None:
    for number, size in enumerate(sizes, 1):
        publication = Publication(message_id(ME, number), GroupId(0), b"." * size)
        protocol.on_publish(publication, Outbox())


def publish_more(protocol: PrcBroadcast, *numbers: int) -> None:
    for number in numbers:
        protocol.on_publish(Publication(message_id(ME, number), GroupId(0), b""), Outbox())


def log_of(protocol: PrcBroadcast) -> list[MessageId]:
    assert isinstance(protocol.safe.setup, VectorSetup)
    return list(protocol.safe.setup.log)


def test_the_oldest_are_forgotten_where_bodies_are_large() -> None:
    protocol = node(100, 250)
    publish(protocol, 100, 100, 100, 10)
    assert log_of(protocol) == [message_id(ME, number) for number in (2, 3, 4)]
    publish_one = Publication(message_id(ME, 5), GroupId(0), b"." * 300)
    protocol.on_publish(publish_one, Outbox())
    assert log_of(protocol) == []  # larger than all that may be kept
    assert isinstance(protocol.safe.setup, VectorSetup) and protocol.safe.setup.forgotten == {ME: 5}


def test_and_where_there_are_many() -> None:
    protocol = node(2, 250)
    publish(protocol, 0, 0, 0)
    assert log_of(protocol) == [message_id(ME, 2), message_id(ME, 3)]


def test_what_an_unborn_node_publishes_is_counted_until_its_birth() -> None:
    protocol = node(100, 1000, newcomer=True)
    publish(protocol, 100, 0)
    assert protocol.kept_bytes() == 2 * KEPT_OVERHEAD + 100
    protocol.safe.be_born(Outbox())
    assert protocol.kept_bytes() == 0
    assert len(log_of(protocol)) == 2


def test_publishers_wait_for_a_link_that_is_being_made_safe_but_not_for_ever() -> None:
    protocol = node(10, 1000)
    protocol.on_neighbour_up(PEER, LINK, False, Outbox())
    publish(protocol, *[0] * 5)
    assert not protocol.crowded_by(0)
    publish_more(protocol, 6)
    assert protocol.crowded_by(0) == "node 8 does not follow"
    assert protocol.crowded_by(9 * SECOND - 1)
    assert not protocol.crowded_by(9 * SECOND)  # it gets nowhere


def test_they_do_not_wait_for_a_link_that_the_log_does_not_reach() -> None:
    protocol = node(2, 1000)
    publish(protocol, 0, 0, 0)
    protocol.on_neighbour_up(PEER, LINK, False, Outbox())
    publish_more(protocol, 4, 5)
    assert protocol.crowded_by(0)
    protocol.on_message(PEER, Counts({}), Outbox())  # it lacks what is forgotten
    assert not protocol.crowded_by(0)


def test_they_wait_for_a_safe_link_whose_peer_owes_much() -> None:
    protocol = node(10, 1000)
    protocol.on_neighbour_up(PEER, LINK, False, Outbox())
    protocol.on_message(PEER, NeedBase(), Outbox())
    most = protocol.safe.most_kept // 2
    publish(protocol, *[0] * most)
    assert not protocol.crowded_by(0)
    publish_more(protocol, most + 1)
    assert protocol.crowded_by(0)
    protocol.on_neighbour_down(PEER, LINK, Outbox())
    assert not protocol.crowded_by(0)


def test_they_wait_for_the_birth() -> None:
    protocol = node(10, 1000, newcomer=True)
    publish(protocol, *[0] * 5)
    assert not protocol.crowded_by(0)
    publish_more(protocol, 6)
    assert protocol.crowded_by(1 << 60) == "this node has not joined yet"
    protocol.safe.be_born(Outbox())
    assert not protocol.crowded_by(0)


# A node that hears nobody, and whose neighbours have forgotten what it lacks

LOWER = NodeId(6)
OTHER_LINK = LinkId(2)


def notes_of(out: Outbox) -> list[str]:
    return [effect.name for effect in out.effects if isinstance(effect, Note)]


def after_a_while(protocol: PrcBroadcast) -> list[str]:
    out = Outbox()
    protocol.on_timer(ALONE, 0, out)
    return notes_of(out)


def told_of_a_gap(peer: NodeId, hears: int, lacks_too: bool = False) -> tuple[PrcBroadcast, Outbox]:
    """A node of which `peer` has forgotten what it lacks, and that has, or has not, itself."""
    protocol, out = node(2, 1000), Outbox()
    publish(protocol, 0, 0, 0)
    protocol.on_neighbour_up(peer, LINK, False, out)
    protocol.on_message(peer, Counts({ME: 0 if lacks_too else 3, peer: 5}), out)
    protocol.on_message(peer, TooFarBehind({peer: 3}, hears), out)
    return protocol, out


def starts_to_doubt(out: Outbox) -> bool:
    return any(isinstance(effect, StartTimer) and effect.name == ALONE for effect in out.effects)


def test_who_was_left_behind_does_not_take_part_and_ends() -> None:
    protocol, out = told_of_a_gap(PEER, hears=0)
    assert starts_to_doubt(out)
    assert not protocol.takes_part()
    assert protocol.crowded_by(0)  # what it publishes would reach nobody for good
    assert after_a_while(protocol) == [LEFT_BEHIND]
    assert LEFT_BEHIND in SPEC.ends


@pytest.mark.parametrize(
    ("peer", "hears", "yields"), [(PEER, 0, False), (PEER, 1, True), (LOWER, 0, True)]
)
def test_of_two_that_left_one_another_behind_one_stays(
    peer: NodeId, hears: int, yields: bool
) -> None:
    protocol, out = told_of_a_gap(peer, hears, lacks_too=True)
    assert starts_to_doubt(out) == yields
    assert protocol.takes_part() != yields


def test_who_hears_somebody_is_not_left_behind_until_that_one_is_lost() -> None:
    protocol, out = node(2, 1000), Outbox()
    protocol.on_neighbour_up(LOWER, OTHER_LINK, False, out)
    protocol.on_message(LOWER, CatchUp({}, [], []), out)
    protocol.on_neighbour_up(PEER, LINK, False, out)
    protocol.on_message(PEER, TooFarBehind({PEER: 3}, 1), out)
    assert protocol.takes_part() and not starts_to_doubt(out)
    protocol.on_neighbour_down(LOWER, OTHER_LINK, out)
    assert not protocol.takes_part() and starts_to_doubt(out)


def test_nor_is_who_hears_somebody_in_time() -> None:
    protocol, out = told_of_a_gap(PEER, hears=1)
    protocol.on_neighbour_up(LOWER, OTHER_LINK, False, out)
    protocol.on_message(LOWER, CatchUp({ME: 3}, [], []), out)
    assert protocol.takes_part()
    assert any(isinstance(effect, CancelTimer) and effect.name == ALONE for effect in out.effects)


def test_a_peer_is_told_how_many_others_are_heard() -> None:
    protocol, out = node(2, 1000), Outbox()
    publish(protocol, 0, 0, 0)
    protocol.on_neighbour_up(LOWER, OTHER_LINK, False, out)
    protocol.on_message(LOWER, CatchUp({ME: 3}, [], []), out)
    protocol.on_neighbour_up(PEER, LINK, False, out)
    protocol.on_message(PEER, Counts({}), out)
    told = [e.message for e in out.effects if isinstance(e, Send)]
    assert [m.hears for m in told if isinstance(m, TooFarBehind)] == [1]


def test_a_link_that_the_log_does_not_reach_is_told_of_once() -> None:
    protocol, out = node(2, 1000), Outbox()
    publish(protocol, 0, 0, 0)
    protocol.on_neighbour_up(PEER, LINK, False, out)
    protocol.on_message(PEER, Counts({}), out)
    for _ in range(3):
        protocol.on_timer(GIVE_UP, LINK, out)
    assert notes_of(out).count("vector_setup.unserved") == 1
