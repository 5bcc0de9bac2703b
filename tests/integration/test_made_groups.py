"""Groups that are made and removed while the cluster runs."""

import asyncio
import contextlib
import gc
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from loopback_nodes import PATIENCE, Neighbourhood, disorder, take, until
from test_crash_at_every_write import PowerCut

from causalcast import Node
from causalcast.core.made_groups import id_of_made
from causalcast.errors import CausalcastError, ConfigError, NodeError
from causalcast.judge import judge
from causalcast.registry import find_protocol, protocol_names
from causalcast.testing import Applications, Cluster, VirtualNode
from causalcast.trace.gather import gather

OFFERING = [name for name in protocol_names() if "made_groups" in find_protocol(name).offers]
EVERYWHERE = 'all = "*"\n"doc/*" = "*"'


def tell(town: Neighbourhood, *stories: Callable[[list[Node]], Awaitable[None]]) -> None:
    """Play each story in a life of its own of all nodes."""

    async def told() -> None:
        for story in stories:
            async with town.running() as nodes:
                await asyncio.wait_for(story(nodes), PATIENCE)

    asyncio.run(told())


async def know(nodes: list[Node], *names: str) -> None:
    await until(lambda: all(set(names) <= set(node.groups()) for node in nodes))


@pytest.mark.parametrize("protocol", OFFERING)
def test_everybody_hears_of_a_group_before_its_messages(tmp_path: Path, protocol: str) -> None:
    """Made at one node, usable at all, over a restart too; and the run keeps its promises."""
    town = Neighbourhood(tmp_path, 3, protocol, groups=EVERYWHERE)

    async def first(nodes: list[Node]) -> None:
        doc = await nodes[0].create_group("doc/42")
        await doc.publish(b"a")
        for node in nodes:
            await know([node], "doc/42")
            assert await take(node.group("doc/42"), 1) == [b"a"]
        other = await nodes[1].create_group("other")
        await other.publish(b"mine")
        assert await take(other, 1) == [b"mine"]
        await know(nodes, "other")
        assert "other" not in nodes[2].status()["groups"]
        async with nodes[2].group("other") as late:
            await late.publish(b"hello")
            assert await take(late, 1) == [b"hello"]
            assert await take(other, 1) == [b"hello"]

    async def second(nodes: list[Node]) -> None:
        for node in nodes:
            assert node.groups() == ["all", "doc/42", "other"]
        await nodes[2].group("doc/42").publish(b"b")
        for node in nodes:
            assert await take(node.group("doc/42"), 1) == [b"b"]
        assert nodes[1].status()["delivered"]["doc/42"] == 2

    tell(town, first, second)
    run = gather([tmp_path], tmp_path / "run")
    assert not any(judge(run).violations.values())
    assert disorder(run) == []


def test_the_same_name_at_two_nodes_at_once_is_one_group(tmp_path: Path) -> None:
    async def story(nodes: list[Node]) -> None:
        groups = await asyncio.gather(*(node.create_group("doc/1") for node in nodes))
        for number, group in enumerate(groups):
            await group.publish(b"%d" % number)
        for group in groups:
            assert sorted(await take(group, 3)) == [b"0", b"1", b"2"]
        assert await nodes[0].create_group("doc/1")

    tell(Neighbourhood(tmp_path, 3, groups=EVERYWHERE), story)


def test_a_group_that_is_removed_is_gone_everywhere(tmp_path: Path) -> None:
    """With what nobody has handled; and one that is made again under its name is a new one."""
    town = Neighbourhood(tmp_path, 2, groups=EVERYWHERE, more="[limits]\ncompact_bytes = 2000")
    changes: list[tuple[str, bool]] = []

    async def first(nodes: list[Node]) -> None:
        one, two = nodes
        two.on_groups(lambda name, there: changes.append((name, there)))
        doc = await one.create_group("doc/1")
        await doc.publish(b"old")
        await until(lambda: two.status()["delivered"].get("doc/1") == 1)
        search = await two.group("doc/1").subscribe("search")
        seen = two.group("doc/1")
        await take(seen, 1, ack=False)
        waiting = asyncio.create_task(anext(seen))
        await asyncio.sleep(0.01)
        await one.remove_group("doc/1")
        with pytest.raises(NodeError, match="removed"):
            await waiting
        with pytest.raises(NodeError, match="was ended"):
            await anext(search)
        for node in nodes:
            assert node.groups() == ["all"]
            assert node.status()["unacknowledged"] == 0
            with pytest.raises(NodeError, match="no group 'doc/1'"):
                node.group("doc/1")
        with pytest.raises(NodeError, match="removed"):
            await doc.publish(b"too late")
        with pytest.raises(NodeError, match="no group"):
            await one.remove_group("doc/1")
        for node in nodes:
            assert node.status()["groups"] == ["all"]

    async def second(nodes: list[Node]) -> None:
        one, two = nodes
        assert two.groups() == ["all"]
        again = await two.create_group("doc/1")
        await again.publish(b"new")
        await know(nodes, "doc/1")
        assert await take(one.group("doc/1"), 1) == [b"new"]
        for number in range(40):
            await again.publish(b"%d" % number + b"." * 100)
        await until(lambda: two.host().parts.keeper.compactions > 0)  # type: ignore[union-attr]

    async def third(nodes: list[Node]) -> None:
        one, two = nodes
        assert one.groups() == two.groups() == ["all", "doc/1"]
        assert len(await take(one.group("doc/1"), 40)) == 40
        assert len(await take(two.group("doc/1"), 41)) == 41
        await one.remove_group("doc/1")
        await until(lambda: two.groups() == ["all"])

    tell(town, first, second, third)
    assert changes == [("doc/1", True), ("doc/1", False)]
    assert disorder(gather([tmp_path], tmp_path / "run")) == []


def test_who_was_away_hears_of_it_all_later(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 2, groups=EVERYWHERE)

    async def story() -> None:
        async with town.node(1) as one:
            for number in range(5):
                doc = await one.create_group(f"doc/{number}")
                await doc.publish(b"%d" % number)
            await one.remove_group("doc/3")
            async with town.node(2) as two:
                await until(lambda: len(two.groups()) == 5 and "doc/4" in two.groups())
                assert two.groups() == ["all", "doc/0", "doc/1", "doc/2", "doc/4"]
                assert await take(two.group("doc/4"), 1) == [b"4"]

    asyncio.run(asyncio.wait_for(story(), PATIENCE))
    assert disorder(gather([tmp_path], tmp_path / "run")) == []


def test_rights_have_prefixes(tmp_path: Path) -> None:
    """The longest one that fits counts, here and for what others bring."""
    rights = """
    [rights."doc/*"]
    create = [1]
    publish = [1, 2]
    [rights."doc/secret/*"]
    create = [1]
    subscribe = [1]
    """
    town = Neighbourhood(tmp_path, 3, groups=EVERYWHERE, more=rights)

    async def story(nodes: list[Node]) -> None:
        one, two, three = nodes
        with pytest.raises(NodeError, match="no right to make 'doc/1'"):
            await two.create_group("doc/1")
        await one.create_group("doc/1")
        await one.create_group("doc/secret/1")
        await know(nodes, "doc/1", "doc/secret/1")
        with pytest.raises(NodeError, match="no right to remove"):
            await two.remove_group("doc/1")
        with pytest.raises(NodeError, match="no right to publish"):
            await three.group("doc/1").publish(b"x")
        with pytest.raises(NodeError, match="no right to be a member"):
            two.group("doc/secret/1").join()
        assert "doc/secret/1" not in two.status()["groups"]
        assert "doc/secret/1" in one.status()["groups"]
        await two.group("doc/secret/1").publish(b"psst")
        assert await take(one.group("doc/secret/1"), 1) == [b"psst"]
        # Whoever does not look at its own rights is not believed by others.
        three.config.patterns._rights.clear()
        await three.group("doc/1").publish(b"forged")
        await (await three.create_group("doc/2")).publish(b"forged")
        await three.group("all").publish(b"behind it")
        assert await take(one.group("all"), 1) == [b"behind it"]
        assert one.groups() == ["all", "doc/1", "doc/secret/1"]
        assert await one.group("doc/1").receive(timeout=0) is None
        assert one.status()["notes"]["groups.without_right"] == 2

    tell(town, story)


def test_nodes_that_say_different_things_of_prefixes_do_not_link(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 2, groups=EVERYWHERE)
    others = Neighbourhood(tmp_path, 2, groups='all = "*"\n"doc/*" = [1]')
    assert town.config(1).facts() != others.config(1).facts()
    with pytest.raises(ConfigError, match="doc"):
        Neighbourhood(tmp_path, 2, groups='all = "*"\n"doc/*" = [7]').config(1)


@pytest.mark.parametrize("name", ["", "x" * 201, "doc/*", "a\nb", 7])
def test_names_are_checked(tmp_path: Path, name: str) -> None:
    async def story(nodes: list[Node]) -> None:
        with pytest.raises(NodeError, match="no name of a group"):
            await nodes[0].create_group(name)
        with pytest.raises(NodeError, match="only those that were made"):
            await nodes[0].remove_group("all")
        assert await nodes[0].create_group("all")

    tell(Neighbourhood(tmp_path, 1), story)


@pytest.mark.parametrize("protocol", ["cbcast", "causal_barriers", "locamu"])
def test_a_protocol_that_cannot_says_so(tmp_path: Path, protocol: str) -> None:
    async def story(nodes: list[Node]) -> None:
        with pytest.raises(NodeError, match=f"{protocol} cannot make groups"):
            await nodes[0].create_group("doc/1")

    overlay = 'kind = "ring"' if protocol == "locamu" else 'kind = "full_mesh"'
    tell(Neighbourhood(tmp_path, 1, protocol, overlay), story)


def test_in_memory_too(tmp_path: Path) -> None:
    async def story(nodes: list[Node]) -> None:
        one, two = nodes
        doc = await one.create_group("doc/1")
        await doc.publish(b"a")
        await know(nodes, "doc/1")
        assert await take(two.group("doc/1"), 1, ack=False) == [b"a"]
        await two.remove_group("doc/1")
        await until(lambda: one.groups() == ["all"])

    town = Neighbourhood(tmp_path, 2, groups=EVERYWHERE, storage="durable = false", level="none")
    tell(town, story)


def test_a_name_of_the_file_that_was_made_before_is_refused(tmp_path: Path) -> None:
    async def story(nodes: list[Node]) -> None:
        await nodes[0].create_group("doc")

    tell(Neighbourhood(tmp_path, 1), story)

    async def later(nodes: list[Node]) -> None:
        raise AssertionError("it must not start")

    with pytest.raises(ConfigError, match="made while the cluster ran"):
        tell(Neighbourhood(tmp_path, 1, groups='all = "*"\ndoc = "*"'), later)


def test_no_moment_is_bad_for_a_crash(tmp_path: Path) -> None:
    """Power fails after the n-th action of a node that makes, uses and removes groups."""
    for actions in range(1, 200):
        cut = _cut_after(actions, tmp_path / f"after-{actions}")
        if len(cut.kinds) < actions:
            break
    assert actions > 12


def _cut_after(actions: int, folder: Path) -> PowerCut:
    town = Neighbourhood(folder, 1, groups=EVERYWHERE, more="[limits]\ncompact_bytes = 400")
    made: list[str] = []  # and durable
    removed: list[str] = []
    published: dict[str, list[bytes]] = {}
    under_way: list[str] = []  # it may have been removed

    async def first(cut: PowerCut) -> None:
        node = cut.node = town.node(1)
        try:
            await node.start()
            for number in range(3):
                name = f"doc/{number}"
                group = await node.create_group(name)
                made.append(name)
                await group.publish(b"in " + name.encode())
                published[name] = [b"in " + name.encode()]
            under_way.append("doc/1")
            await node.remove_group("doc/1")
            removed.append("doc/1")
            await node.stop()
        except CausalcastError:
            assert cut.is_over

    async def second() -> None:
        async with town.node(1) as node:
            there = node.groups()
            for name in made:
                if name in removed:
                    assert name not in there
                elif name not in under_way:
                    assert name in there
                if name in there and name in published:
                    got = await node.group(name).receive_many(timeout=0)
                    assert [one.payload for one in got] == published[name]

    with pytest.MonkeyPatch.context() as patch:
        cut = PowerCut(actions, folder, patch, False)

        async def told() -> None:
            await first(cut)
            cut.tear()
            await second()

        asyncio.run(asyncio.wait_for(told(), PATIENCE))
    assert disorder(gather([folder], folder / "run")) == [], f"after {actions}"
    return cut


@pytest.mark.parametrize("protocol", OFFERING)
def test_the_test_kit_makes_groups_too(protocol: str) -> None:
    """The same under virtual time, with losses and a crash, and the judge looks at it."""
    may_lose = find_protocol(protocol).needs.links == "any"
    cluster = Cluster(
        nodes=3,
        protocol=protocol,
        groups={"all": [0, 1, 2], "doc/*": [0, 1, 2]},
        loss=0.2 if may_lose else 0.0,
        fifo=not may_lose,
        seed=3,
    )
    applications = Applications(cluster)
    heard: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
    changes: list[tuple[str, bool]] = []

    async def application(node: VirtualNode) -> None:
        node.on_groups(lambda name, there: changes.append((name, there)))
        while "doc/1" not in node.groups():
            await asyncio.sleep(0.01)
        with contextlib.suppress(NodeError):  # it is removed in the end
            async for message in node.group("doc/1"):
                heard[node.id].append(message.payload)
                await message.ack()

    async def story() -> None:
        for node in range(3):
            applications.start(node, application)
        one, two, three = (applications.nodes[node] for node in range(3))
        groups = await asyncio.gather(one.create_group("doc/1"), two.create_group("doc/1"))
        applications.crash(2)
        for group in groups:
            await group.publish(b"a")
        await asyncio.sleep(5)
        three = applications.recover(2, application)
        await asyncio.sleep(60)
        assert three.groups() == ["all", "doc/1"]
        other = await three.create_group("other")
        await other.publish(b"mine")
        await asyncio.sleep(10)
        assert not one.is_member(one.group("other").number)
        await one.remove_group("doc/1")
        await asyncio.sleep(60)
        assert [node.groups() for node in (one, two, three)] == [["all", "other"]] * 3
        with pytest.raises(NodeError, match="removed"):
            await groups[0].publish(b"too late")
        with pytest.raises(NodeError, match="no group"):
            two.group("doc/1")
        assert await one.create_group("doc/1")

    applications.run(story())
    assert heard == {0: [b"a", b"a"], 1: [b"a", b"a"], 2: [b"a", b"a"]}
    assert ("doc/1", True) in changes
    assert ("doc/1", False) in changes
    cluster.settle()
    cluster.check()


def test_the_test_kit_says_where_it_cannot() -> None:
    with pytest.raises(NodeError, match="cbcast cannot make groups"):
        Cluster(nodes=2, protocol="cbcast").create_group(0, "doc/1")


def test_an_idle_group_costs_little(tmp_path: Path) -> None:
    """Some hundred bytes at each node, and nothing where deliveries are taken."""
    count = 2000

    async def story(nodes: list[Node]) -> None:
        (node,) = nodes
        await asyncio.gather(*(node.create_group(f"first/{number}") for number in range(200)))
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for first in range(0, count, 100):
            names = [f"doc/{number}" for number in range(first, first + 100)]
            await asyncio.gather(*map(node.create_group, names))
        gc.collect()
        each = (tracemalloc.get_traced_memory()[0] - before) / count
        tracemalloc.stop()
        assert each < 800, each
        assert len(node.groups()) == count + 201
        assert len(node.host().inbox.waiting_by_group()) < 10

    tell(Neighbourhood(tmp_path, 1, groups=EVERYWHERE, level="none"), story)


def test_ids_do_not_meet_by_accident() -> None:
    ids = {id_of_made(f"doc/{number}", epoch, 0) for number in range(2000) for epoch in (1, 2)}
    assert len(ids) > 3990
