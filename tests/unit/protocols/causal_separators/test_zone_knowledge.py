"""News of zones: as bytes and back, and what a node knows when it has heard them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causalcast.core import GroupId, NodeId, graphs, message_id
from causalcast.core.groups import Groups
from causalcast.core.message import Publication
from causalcast.protocols.causal_separators.crossing_messages import (
    Arrivals,
    Carry,
    Closing,
    Crossing,
)
from causalcast.protocols.causal_separators.zone_crossing import ZoneCrossing
from causalcast.protocols.causal_separators.zone_knowledge import OPEN, PARTING, SHUT, ZoneKnowledge
from causalcast.protocols.causal_separators.zone_map import Zone, ZoneMap
from causalcast.protocols.causal_separators.zone_news import (
    CLOSED,
    CUT,
    DONE,
    DROPPED,
    JOIN,
    PART,
    News,
    unpacked_news,
)
from causalcast.protocols.causal_separators.zone_unit import NOWHERE, PUBLICATION, Unit

SMALL = st.integers(0, 2**32 - 1)
NODES = st.integers(0, 5).map(NodeId)
NEWS = st.builds(
    News,
    st.integers(JOIN, DROPPED),
    st.integers(0, 1),
    st.integers(1, 3),
    st.integers(0, 2),
    st.dictionaries(NODES, SMALL, max_size=3),
    st.dictionaries(st.integers(0, 300).map(GroupId), st.lists(SMALL, max_size=3), max_size=3),
    st.lists(st.tuples(SMALL, SMALL), max_size=3),
)


@given(NEWS)
def test_news_survive_the_way(news: News) -> None:
    assert vars_of(unpacked_news(news.packed())) == vars_of(news)


@given(st.binary(max_size=40))
def test_bytes_that_are_no_news_are_told_apart(data: bytes) -> None:
    try:
        news = unpacked_news(data)
    except (IndexError, ValueError):
        return
    assert vars_of(unpacked_news(news.packed())) == vars_of(news)


@pytest.mark.parametrize("data", [b"", b"\x07\0\0\0\0\0\0", b"\0\0\0\0\0\0\0\0", b"\xff" * 9])
def test_what_is_cut_short_or_too_long_is_refused(data: bytes) -> None:
    with pytest.raises((IndexError, ValueError)):
        unpacked_news(data)


def vars_of(news: News) -> list[object]:
    head = [news.what, news.joint, news.epoch, news.side]
    return [*head, news.counts, news.groups, news.joints]


def three_zones() -> ZoneMap:
    """0-1, 2-3 and 4-5 in a row."""
    graph = graphs.from_edges(6, [(n, n + 1) for n in range(5)])
    zones = [Zone("psync", {}, [NodeId(n), NodeId(n + 1)]) for n in (0, 2, 4)]
    zone_map = ZoneMap(graph, zones)
    zone_map.join_pairs(None, 1)
    return zone_map


def knowledge(home: int = 0) -> ZoneKnowledge:
    groups = Groups({"all": [NodeId(n) for n in range(6)], "last": [NodeId(4), NodeId(5)]})
    return ZoneKnowledge(three_zones(), home, groups)


@given(
    st.lists(st.tuples(NODES, NEWS), max_size=12).flatmap(
        lambda told: st.tuples(st.just(told), st.permutations(told))
    )
)
def test_in_whatever_order_news_come_joints_end_the_same(
    orders: tuple[list[tuple[NodeId, News]], list[tuple[NodeId, News]]],
) -> None:
    ends = []
    for told in orders:
        known = knowledge()
        for origin, news in told:
            known.hear(origin, News(news.what, news.joint, news.epoch, news.side))
        ends.append(
            [
                (j.epoch, j.level, sorted(j.ready), sorted(j.cuts), sorted(j.done))
                for j in known.joints
            ]
        )
    assert ends[0] == ends[1]


def test_ways_in_the_tree() -> None:
    zone_map = three_zones()
    assert [zone_map.way_up(zone) for zone in range(3)] == [[], [0], [1, 0]]
    assert zone_map.way(0, 2) == [1, 0] and zone_map.way(2, 1) == [1]
    assert [zone_map.far_side(joint) for joint in (0, 1)] == [1, 2]
    assert zone_map.joint_of((2, 1)) == 1 and zone_map.joint_of((0, 2)) is None


def test_who_is_awaited_when_a_zone_goes_with_another_behind_it() -> None:
    known = knowledge()
    known.hear(NodeId(2), News(PART, 0, 1))
    assert known.awaited(0) == [2, 3, 4, 5]
    known.hear(NodeId(3), News(DONE, 0, 1))
    known.hear(NodeId(9), News(DONE, 0, 0))  # of an earlier time: it does not count
    assert known.awaited(0) == [2, 4, 5]
    known.hear(NodeId(4), News(DROPPED, 1, 1))
    assert known.awaited(0) == [2]


def test_what_cannot_be_reached_is_refused_with_the_joint() -> None:
    last = GroupId(1)
    known, other = knowledge(0), knowledge(2)
    for one in (known, other):
        assert one.refusal(last) == ""
        one.hear(NodeId(4), News(PART, 1, 1))
    assert known.joints[1].level == PARTING
    assert known.refusal(last) == ""  # things are brought there until its nodes have left
    assert "has members in zone 0, and the joint of zones 1 and 2" in other.refusal(GroupId(0))
    for one in (known, other):
        for node in (4, 5):
            one.hear(NodeId(node), News(DONE, 1, 1))
        one.hear(NodeId(2), News(CLOSED, 1, 1))
    assert known.joints[1].level == SHUT and known.group_zones[last] == {}
    assert not known.is_local(last)  # what was published before may still be on its way
    known.hear(NodeId(2), News(JOIN, 1, 2))
    known.hear(NodeId(2), News(CUT, 1, 2, 1, {}, {last: [2]}))
    assert "is joining" in known.refusal(last)
    known.hear(NodeId(4), News(CUT, 1, 2, 2))
    assert known.joints[1].level == OPEN and known.refusal(last) == ""


def test_a_zone_that_did_not_say_it_is_done_keeps_its_groups() -> None:
    """It came behind the joint when this was closing already."""
    known = knowledge()
    known.hear(NodeId(2), News(PART, 0, 1))
    for node in (2, 3):
        known.hear(NodeId(node), News(DONE, 0, 1))
    known.hear(NodeId(2), News(CLOSED, 0, 1))
    assert known.group_zones == {GroupId(0): {0: None, 2: None}, GroupId(1): {2: None}}


def test_what_was_sent_before_a_joint_closed_does_not_belong_to_its_next_opening() -> None:
    crossing = ZoneCrossing(NodeId(1), 0, three_zones().joints[0], 0, is_open=True)
    partner = crossing.partners[0]
    assert crossing.belongs(partner) and crossing.flows()
    crossing.close()
    assert not crossing.belongs(partner)
    crossing.begin(2)
    assert not crossing.belongs(partner)  # it has not said yet that it began, too
    crossing.on_closing(partner, Closing(1, False))
    assert not crossing.is_emptied()  # that was about the time before
    crossing.on_opening(partner, 2)
    assert crossing.belongs(partner) and not crossing.flows()  # the cut is missing


def test_a_server_goes_on_from_its_snapshot() -> None:
    """With what it keeps, what came across and waits, what it is to carry, and who has what."""
    graph = graphs.from_edges(4, [(a, b) for a in range(4) for b in range(a + 1, 4)])
    zones = [Zone("psync", {}, [NodeId(n), NodeId(n + 1)]) for n in (0, 2)]
    zone_map = ZoneMap(graph, zones)
    zone_map.join_pairs(None, 2)
    crossing = ZoneCrossing(NodeId(0), 0, zone_map.joints[0], 0, is_open=True)
    units = [unit_of(NodeId(1), number) for number in (1, 2, 3)]
    for unit in units:
        crossing.leave(unit)
    crossing.outgoing.mark_sent(NodeId(2), Crossing(NodeId(0), 1, {}, units[0].packed()))
    crossing.outgoing.on_arrivals(NodeId(3), Arrivals({NodeId(1): 1}))
    crossing.on_carry(NodeId(1), Carry(1, NodeId(3), 2, {}, NodeId(1), 2))
    crossing.incoming.arrive(NodeId(2), Crossing(NodeId(2), 4, {NodeId(3): 9}, units[1].packed()))
    crossing.sealed = True
    assert list(crossing.outgoing.kept) == [2, 3]
    again = ZoneCrossing(NodeId(0), 0, zone_map.joints[0], 0, is_open=False)
    for record in crossing.snapshot():
        again.restore(record)
    assert state_of(again) == state_of(crossing)
    assert state_of(again)[-2:] == [{(2, 2): [4]}, {1: [2]}]


def unit_of(origin: NodeId, number: int) -> Unit:
    publication = Publication(message_id(origin, number), GroupId(0), b"")
    return Unit(origin, number, NOWHERE, False, PUBLICATION, publication)


def state_of(crossing: ZoneCrossing) -> list[object]:
    outgoing, incoming = crossing.outgoing, crossing.incoming
    return [
        (crossing.epoch, crossing.phase, crossing.sealed, outgoing.places),
        {place: (kept.unit.packed(), kept.sent) for place, kept in outgoing.kept.items()},
        (outgoing.has, outgoing.brought, incoming.arrived, crossing.epoch_of),
        {way: list(queue) for way, queue in incoming.waiting.items()},
        {lead: [carry.place for carry in queue] for lead, queue in outgoing.to_carry.items()},
    ]
