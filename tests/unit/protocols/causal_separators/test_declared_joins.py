"""Messages that carry units say whom these make a member, so that rights can be checked."""

from causalcast.core.ids import GroupId, NodeId, message_id
from causalcast.core.message import Publication
from causalcast.protocols.causal_separators.crossing_messages import Crossing
from causalcast.protocols.causal_separators.hosted_zone import THE_ZONE, InZone
from causalcast.protocols.causal_separators.zone_unit import JOINED, NOWHERE, PUBLICATION, Unit
from causalcast.protocols.naive_flood import Copy

ORIGIN = NodeId(3)
GROUP = GroupId(1)


def packed_unit(kind: int) -> bytes:
    publication = Publication(message_id(ORIGIN, 1), GROUP, b"")
    return Unit(ORIGIN, 1, NOWHERE, False, kind, publication).packed()


def in_zone(body: bytes) -> InZone:
    return InZone(0, Copy(Publication(message_id(NodeId(1), 1), THE_ZONE, body)))


def test_a_unit_that_joins_is_declared() -> None:
    unit = packed_unit(JOINED)
    assert in_zone(unit).joins(NodeId(1)) == [(ORIGIN, GROUP)]
    assert Crossing(NodeId(1), 1, {}, unit).joins(NodeId(1)) == [(ORIGIN, GROUP)]


def test_others_join_nobody() -> None:
    for unit in (packed_unit(PUBLICATION), b"\xff"):
        assert in_zone(unit).joins(NodeId(1)) == []
        assert Crossing(NodeId(1), 1, {}, unit).joins(NodeId(1)) == []
