"""The log of deliveries is bounded by number and by bytes; what waits for a birth is counted."""

from causalcast.core import (
    SECOND,
    GroupId,
    Groups,
    LinkId,
    MessageId,
    NodeId,
    Outbox,
    Publication,
    Setup,
    message_id,
)
from causalcast.core.topology import Surroundings, Topology
from causalcast.parts.kept_weight import KEPT_OVERHEAD
from causalcast.parts.safe_links.vector_setup import Counts, NeedBase, VectorSetup
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
