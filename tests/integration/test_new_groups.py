"""Groups that are added to a cluster with storage: what is kept stays what it was."""

import asyncio
import logging
from pathlib import Path

import msgspec
import pytest
from loopback_nodes import Neighbourhood, take, until

from causalcast import Node
from causalcast.errors import ConfigError, JournalError
from causalcast.judge.judge import judge
from causalcast.registry import find_protocol, protocol_names
from causalcast.runtime.operating.doctor import examine
from causalcast.runtime.storage.journal import JournalFile
from causalcast.trace.follow import LogFollower
from causalcast.trace.gather import gather
from causalcast.trace.run_folder import read_run

BEFORE = 'all = "*"\nleft = [1, 2]'
AFTER = BEFORE + '\nnews = "*"\nright = [2, 3]'
KEEPING = [name for name in protocol_names() if find_protocol(name).restart == "resume"]
TAKING = [name for name in KEEPING if "new_groups" in find_protocol(name).offers]


def cluster(
    folder: Path, protocol: str, groups: str, ports: dict[int, int] | None = None
) -> Neighbourhood:
    """Three nodes, with the ports of before if they are the same nodes."""
    overlay = find_protocol(protocol).needs.overlay
    kind = "full_mesh" if overlay == "mesh" else "line"
    town = Neighbourhood(folder, 3, protocol, f'kind = "{kind}"', groups)
    town.ports = ports or town.ports
    return town


async def exchange(nodes: list[Node], groups: dict[str, list[int]], word: str) -> None:
    """Every node publishes to every group; all members get it."""
    for name in groups:
        for node in nodes:
            await node.group(name).publish(f"{word} {node.id}".encode())
    for name, members in groups.items():
        for node in nodes:
            if node.id in members:
                got = await take(node.group(name), len(nodes))
                assert sorted(got) == [f"{word} {one.id}".encode() for one in nodes], name


def compact(nodes: list[Node]) -> None:
    for node in nodes:
        keeper = node.host().parts.keeper
        assert keeper is not None
        keeper.compact_soon()


@pytest.mark.parametrize("protocol", TAKING)
def test_groups_added_at_the_end_work_beside_what_was_kept(tmp_path: Path, protocol: str) -> None:
    old = {"all": [1, 2, 3], "left": [1, 2]}
    new = {**old, "news": [1, 2, 3], "right": [2, 3]}
    before = cluster(tmp_path, protocol, BEFORE)
    after = cluster(tmp_path, protocol, AFTER, before.ports)

    async def story() -> None:
        async with before.running() as nodes:
            await exchange(nodes, old, "before")
            compact(nodes)
            await exchange(nodes, old, "again")
            await nodes[0].group("left").publish(b"kept")
            await until(lambda: nodes[1].status()["delivered"]["left"] == 7)
        for word in ("first", "second"):
            async with after.running() as nodes:
                if word == "first":
                    assert await take(nodes[1].group("left"), 1) == [b"kept"]
                    assert await take(nodes[0].group("left"), 1) == [b"kept"]
                await exchange(nodes, new, word)

    asyncio.run(story())
    run = gather([tmp_path], tmp_path / "run")
    assert [row["name"] for row in run.groups.to_pylist()] == [*new]
    members = {(m["group"], m["node"]) for m in run.members.to_pylist()}
    assert members == {(g, n) for g, nodes in enumerate(new.values()) for n in nodes}
    assert {name: rows for name, rows in judge(run).violations.items() if rows} == {}


async def life(town: Neighbourhood) -> None:
    async with town.node(1):
        pass


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ('news = "*"\nall = "*"\nleft = [1, 2]', "'all', 'left' there, 'news', 'all', 'left' here"),
        ('left = [1, 2]\nall = "*"', "'all', 'left' there, 'left', 'all' here"),
        ('all = "*"', "'all', 'left' there, 'all' here"),
        ('all = "*"\nleft-over = [1, 2]', "'all', 'left' there, 'all', 'left-over' here"),
    ],
)
def test_what_would_number_groups_anew_is_refused(tmp_path: Path, groups: str, said: str) -> None:
    before = cluster(tmp_path, "cbcast", BEFORE)
    asyncio.run(life(before))
    with pytest.raises(ConfigError) as raised:
        asyncio.run(life(cluster(tmp_path, "cbcast", groups, before.ports)))
    assert f"groups {said}" in str(raised.value)
    assert "add new ones at the end, and let members leave" in str(raised.value)
    asyncio.run(life(before))  # nothing was changed


def test_an_added_group_cannot_be_taken_away_again(tmp_path: Path) -> None:
    before = cluster(tmp_path, "cbcast", BEFORE)
    asyncio.run(life(before))
    asyncio.run(life(cluster(tmp_path, "cbcast", AFTER, before.ports)))
    with pytest.raises(ConfigError, match="'all', 'left', 'news', 'right' there, 'all', 'left' h"):
        asyncio.run(life(before))


def test_protocols_that_do_not_offer_it_say_so(tmp_path: Path) -> None:
    assert [name for name in KEEPING if name not in TAKING] == ["causal_separators"]
    before = cluster(tmp_path, "causal_separators", BEFORE)
    asyncio.run(life(before))
    with pytest.raises(ConfigError, match="'news', 'right' not among the groups it began with"):
        asyncio.run(life(cluster(tmp_path, "causal_separators", AFTER, before.ports)))


def test_founders_of_an_added_group_are_admitted_to_it_whatever_a_snapshot_says(
    tmp_path: Path,
) -> None:
    """LoCaMu: who leaves such a group and comes back need not be admitted by anybody."""
    before = cluster(tmp_path, "locamu", BEFORE)
    after = cluster(tmp_path, "locamu", AFTER, before.ports)

    async def story() -> None:
        async with before.running() as nodes:
            compact(nodes)
            await exchange(nodes, {"all": [1, 2, 3]}, "before")
        async with after.node(2) as node:  # the coordinator is away
            news = node.group("news")
            assert news.is_member() and news.leave() and not news.is_member()
            assert news.join() and news.is_member()

    asyncio.run(story())


def test_who_left_a_group_is_not_taken_for_a_founder_again(tmp_path: Path) -> None:
    """A group that was added, left, and compacted away."""
    before = cluster(tmp_path, "vector_clock_broadcast", BEFORE)
    after = cluster(tmp_path, "vector_clock_broadcast", AFTER, before.ports)
    later = cluster(tmp_path, "vector_clock_broadcast", AFTER + "\nmore = [1]", before.ports)

    async def story() -> None:
        await life(before)
        async with after.node(1) as node:
            assert node.group("news").is_member() and not node.group("right").is_member()
            node.group("news").leave()
        async with after.node(1) as node:
            assert not node.group("news").is_member()
            keeper = node.host().parts.keeper
            assert keeper is not None
            keeper.compact_soon()
            await node.group("all").publish(b"so that it is")
            await until(lambda: keeper.compactions == 1)
        async with later.node(1) as node:
            assert not node.group("news").is_member() and node.group("more").is_member()

    asyncio.run(story())


HERE = (
    "refusing node 2: groups 'news', 'right' here and not there: add them at the end of [groups] "
    "there, as they are here, and start the node there again"
)
THERE = (
    "node 1 refuses us: groups 'news', 'right' there and not here: add them at the end of [groups] "
    "here, as they are there, and start the node here again"
)


def test_nodes_with_other_groups_say_what_to_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One node has been started again, the other not yet: nothing is lost, and both logs say it."""
    before = cluster(tmp_path, "vector_clock_broadcast", BEFORE)
    after = cluster(tmp_path, "vector_clock_broadcast", AFTER, before.ports)

    async def story() -> None:
        async with before.node(2) as two, after.node(1) as one:
            await one.group("news").publish(b"early")
            for node in (one, two):
                await until(lambda node=node: node.status()["trouble"].get("refused_greetings"))
            await until(lambda: HERE in caplog.text and THERE in caplog.text)
            await two.stop()
            async with after.node(2) as again:
                assert await take(again.group("news"), 1) == [b"early"]

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())


def test_long_lists_of_groups_are_compared_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Greetings tell them by a digest; whoever is refused is told in full."""
    many = "\n".join(f"group-{number} = [1, 2]" for number in range(60))
    before = cluster(tmp_path, "vector_clock_broadcast", many)
    after = cluster(tmp_path, "vector_clock_broadcast", many + "\nnews = [1]", before.ports)

    async def story() -> None:
        async with before.node(2), after.node(1):
            await until(lambda: "node 1 refuses us: groups 'news' there and not he" in caplog.text)

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())


def test_runs_are_followed_over_it(tmp_path: Path) -> None:
    before = cluster(tmp_path, "vector_clock_broadcast", BEFORE)
    after = cluster(tmp_path, "vector_clock_broadcast", AFTER, before.ports)
    follower = LogFollower([tmp_path], tmp_path / "run")

    async def story() -> None:
        async with before.node(1) as node:
            await node.group("all").publish(b"before")
        follower.step()
        async with after.node(1) as node:
            await node.group("news").publish(b"after")
            await take(node.group("news"), 1)
        async with before.node(2):  # it was not started again
            pass

    asyncio.run(story())
    follower.finish()
    gathered = gather([tmp_path], tmp_path / "gathered")
    followed = read_run(tmp_path / "run")
    for run in (gathered, followed):
        assert [row["name"] for row in run.groups.to_pylist()] == ["all", "left", "news", "right"]
        members = {(m["group"], m["node"]) for m in run.members.to_pylist()}
        assert members == {(0, 1), (1, 1), (2, 1), (0, 2), (1, 2)}


def test_doctor_knows_it(tmp_path: Path) -> None:
    """Before the first start with new groups, and where they stand in the wrong place."""
    toml = tmp_path / "node.toml"

    def journal(groups: str) -> tuple[str, str]:
        text = f"""
            [node]
            id = 1
            listen = "127.0.0.1:{town.ports[1]}"
            [cluster]
            name = "test"
            [protocol]
            name = "vector_clock_broadcast"
            [groups]
            {groups}
            [storage]
            path = "node-1/data"
            [security]
            tls = false
            """
        toml.write_text(text)
        found = next(finding for finding in examine(toml) if finding.about == "journal")
        return found.state, found.text

    town = Neighbourhood(tmp_path, 1, groups='all = "*"')
    asyncio.run(life(town))
    assert journal('all = "*"\nnews = "*"')[0] == "ok"
    state, text = journal('news = "*"\nall = "*"')
    assert state == "problem" and "'all' there, 'news', 'all' here" in text


def test_an_entry_of_another_version_is_no_damage(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 1)
    asyncio.run(life(town))
    journal = JournalFile(tmp_path / "node-1/data/journal")
    journal.append([msgspec.msgpack.encode([99, "of a later version"])])
    journal.close()
    with pytest.raises(JournalError) as raised:
        asyncio.run(life(town))
    said = str(raised.value)
    assert "data/journal: it has an entry that this version of causalcast does not know" in said
    assert "run the version that wrote it" in said and "damaged" not in said
