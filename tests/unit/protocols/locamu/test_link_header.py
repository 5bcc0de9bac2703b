"""Headers come out of a link exactly as they went in, whatever was said before."""

import random

import pytest

from causalcast.core import NodeId, graphs
from causalcast.core.groups import Groups
from causalcast.core.topology import Surroundings, Topology
from causalcast.parts.tree.neighbourhood import NOBODY, Neighbourhood
from causalcast.protocols.locamu.link_header import (
    Header,
    HeaderReader,
    HeaderWriter,
    LinkPlan,
    MissedHeader,
    UnreadableHeader,
)


def plan_seen_by(me: NodeId, tree: Topology, source: NodeId, target: NodeId, f: int) -> LinkPlan:
    ball = Surroundings(me, tree, Groups({})).ball(2 * f + 1)
    return LinkPlan(Neighbourhood(me, ball), source, target, f + 1, 2 * f + 1, 2 * f + 1)


def some_link(rng: random.Random, f: int) -> tuple[LinkPlan, LinkPlan]:
    """A link of at most f+1 hops in a random tree, as both ends see it."""
    tree = graphs.from_edges(25, graphs.random_tree(25, rng))
    source = NodeId(rng.randrange(25))
    near = [node for node in tree.distances(source, f + 1) if node != source]
    target = rng.choice(near)
    return (
        plan_seen_by(source, tree, source, target, f),
        plan_seen_by(target, tree, source, target, f),
    )


def some_header(plan: LinkPlan, rng: random.Random, grown: int) -> Header:
    """Anything that can stand in a header, likely or not; numbers grow with time."""
    far = rng.choice(plan.issuers)
    way = plan.around.way(far, plan.target)[:-1]
    issuers = [plan.source] + [node for node in way if rng.random() < 0.7]
    numbers = {
        issuer: {
            node: rng.randint(1, 3 + grown)
            for node in plan.numbered_by(issuer)
            if rng.random() < 0.6
        }
        for issuer in issuers
        if issuer in way or issuer == plan.source
    }
    furthest = max(numbers, key=lambda node: plan.around.distance(node, plan.target))
    on_way = plan.around.way(furthest, plan.target)
    numbers = {issuer: row for issuer, row in numbers.items() if issuer in on_way}
    needs = {pair: rng.randint(1, 1 + grown) for pair in plan.pairs if rng.random() < 0.5}
    origin = rng.choice([NOBODY, furthest, rng.choice(plan.issuers)])
    return Header(origin, rng.choice([0, 0, 3]), numbers, needs)


def same(one: Header, other: Header) -> bool:
    return (one.origin, one.epoch, one.numbers, one.needs) == (
        other.origin,
        other.epoch,
        other.numbers,
        other.needs,
    )


@pytest.mark.parametrize("f", [1, 2, 3])
@pytest.mark.parametrize("seed", range(40))
def test_both_ends_agree_on_every_header(f: int, seed: int) -> None:
    rng = random.Random(f"{f}/{seed}")
    mine, yours = some_link(rng, f)
    assert mine.pairs == yours.pairs and mine.issuers == yours.issuers
    writer, reader = HeaderWriter(mine), HeaderReader(yours)
    said: list[Header] = []
    for turn in range(60):
        # Now and then an old one is said again, with the dependencies it had then.
        repeats = bool(said) and rng.random() < 0.3
        header = rng.choice(said) if repeats else some_header(mine, rng, turn * 10)
        said.append(header)
        if rng.random() < 0.1:
            writer.start_over()
        data = writer.write_alone(header) if rng.random() < 0.1 else writer.write(header)
        assert same(reader.read(data), header)


@pytest.mark.parametrize("seed", range(60))
def test_over_a_link_that_loses_doubles_and_reorders_what_is_read_is_right(seed: int) -> None:
    rng = random.Random(seed)
    mine, yours = some_link(rng, 1)
    writer, reader = HeaderWriter(mine), HeaderReader(yours)
    under_way: list[tuple[bytes, Header]] = []
    read = missed = 0
    for turn in range(200):
        header = some_header(mine, rng, turn)
        under_way.append((writer.write(header), header))
        rng.shuffle(under_way)
        while under_way and rng.random() < 0.6:
            data, sent = under_way[-1]
            if rng.random() < 0.8:
                under_way.pop()
            if rng.random() < 0.2:
                continue
            try:
                assert same(reader.read(data), sent)
                read += 1
            except MissedHeader:
                missed += 1
                writer.start_over()
    assert read > 10 and missed > 10


def test_nonsense_is_refused_and_a_whole_header_repairs_the_link() -> None:
    rng = random.Random(1)
    mine, yours = some_link(rng, 1)
    writer, reader = HeaderWriter(mine), HeaderReader(yours)
    reader.read(writer.write(some_header(mine, rng, 5)))
    for data in (b"", b"\x05\xff\xff", b"\x05" + b"\xff" * 200, b"\x05\x00\x04\x02\x00"):
        with pytest.raises((UnreadableHeader, MissedHeader)):
            reader.read(data)
    header = some_header(mine, rng, 9)
    with pytest.raises(MissedHeader):
        reader.read(writer.write(header))
    writer.start_over()
    assert same(reader.read(writer.write(header)), header)


@pytest.mark.parametrize("seed", range(20))
def test_a_publishers_copies_say_all_that_it_would_send_and_names_come_with_any(seed: int) -> None:
    rng = random.Random(f"whole {seed}")
    tree = graphs.from_edges(25, graphs.random_tree(25, rng))
    source = NodeId(rng.randrange(25))
    target = rng.choice([node for node in tree.distances(source, 2) if node != source])
    near_source = Neighbourhood(source, Surroundings(source, tree, Groups({})).ball(3))
    near_target = Neighbourhood(target, Surroundings(target, tree, Groups({})).ball(3))
    writer = HeaderWriter(LinkPlan(near_source, source, target, 2, 3, 3, whole=True))
    reader = HeaderReader(LinkPlan(near_target, source, target, 2, 3, 3, whole=True))
    for grown in range(1, 8):
        pairs = near_source.pairs_within(3, 2)
        needs = {pair: rng.randint(1, 3 * grown) for pair in pairs if rng.random() < 0.7}
        targets = [node for node in near_source.within(2) if node == target or rng.random() < 0.8]
        vector = {node: needs.get((source, node), 0) + 1 for node in targets}
        header = Header(source, 0, {source: vector}, needs)
        others = [node for node in near_source.within(2) if rng.random() < 0.5]
        keys = [(7 << 32 | grown,), (2, 5), (2, 5, grown)]
        header.names = [(key, {node: rng.randint(1, 9) for node in others}) for key in keys]
        if rng.random() < 0.2:
            writer.start_over()
        read = reader.read(writer.write(header))
        assert read.standby is not None
        assert (read.standby.numbers, read.standby.needs) == (vector, needs)
        assert read.names == header.names
        near = writer.plan.numbered_by(source)
        assert read.numbers == {source: {n: s for n, s in vector.items() if n in near}}
        assert read.needs == {p: n for p, n in needs.items() if p in writer.plan.pair_place}
