"""Clients at the door: order, positions, keys, and nodes that come and go."""

import asyncio
from pathlib import Path

import pytest
from door_nodes import Doors, crash, run
from loopback_nodes import PATIENCE, until

from causalcast import Node, RemoteGroup, connect
from causalcast.errors import ConfigError, Gap, NodeError, Unanswered
from causalcast.limits import set_to

STORAGE = pytest.mark.parametrize("storage", ["", "durable = false"], ids=["disk", "memory"])


async def take(group: RemoteGroup, count: int, ack: bool = True) -> list[bytes]:
    found = []
    for _ in range(count):
        message = await group.receive(PATIENCE)
        assert message is not None, found
        found.append(message.payload)
        if ack:
            await message.ack()
    return found


async def has_delivered(node: Node, count: int) -> None:
    await until(lambda: node.status()["delivered"].get("all", 0) >= count)


@STORAGE
def test_what_one_client_publishes_another_reads_at_another_node(
    tmp_path: Path, storage: str
) -> None:
    async def tell() -> None:
        doors = Doors(tmp_path, 2, storage=storage)
        async with (
            doors.running(),
            connect(doors.url(1)) as one,
            connect(doors.url(2)) as other,
            one.group("all") as here,
            other.group("all") as there,
        ):
            receipts = await here.publish_many([b"1", b"2", bytes(range(256))])
            assert [receipt.id & 0xFF for receipt in receipts] == [1, 2, 3]
            assert await take(there, 3) == [b"1", b"2", bytes(range(256))]
            assert await take(here, 3) == [b"1", b"2", bytes(range(256))]
            assert await one.groups() == {"publish": ["all"], "subscribe": ["all"]}
            assert await one.presence() == {"node": 1, "linked": [2], "suspected": []}
            assert other.position()["seen"] == {"all": {1: 3}}

    run(tell())


def test_any_language_can_speak_it(tmp_path: Path) -> None:
    async def tell() -> None:
        doors = Doors(tmp_path, 1)
        async with doors.running(), doors.plain(1, name="a") as client:
            answer = await client.ask(do="subscribe", id=1, groups=["a*"])
            assert answer["groups"] == ["all"] and answer["seen"] == {"all": {}}
            await client.say(do="publish", id=2, group="all", text="grüße")
            await client.say(do="publish", id=3, group="all", base64="AP8=")
            heard = [await client.hear() for _ in range(4)]
            said = {one["do"]: one for one in heard if one["do"] == "published"}
            assert said["published"] == {"do": "published", "id": 3, "message": "1.2"}
            messages = [one for one in heard if one["do"] == "message"]
            assert messages[0].pop("published_us") > 0
            messages[1].pop("published_us", 0)  # it came soon behind the first
            assert messages == [
                {"do": "message", "message": "1.1", "group": "all", "text": "grüße"},
                {"do": "message", "message": "1.2", "group": "all", "base64": "AP8="},
            ]
            assert (await client.ask(do="unsubscribe", id=4, groups=["all"]))["do"] == "done"

    run(tell())


# Keys


def test_a_retry_with_its_key_is_no_second_message(tmp_path: Path) -> None:
    async def tell() -> None:
        doors = Doors(tmp_path, 1)
        words = {"do": "publish", "group": "all", "text": "once", "key": "k"}
        async with doors.running() as (node,):
            async with doors.plain(1, name="a") as client:
                await client.say(**words, id=1)  # and no answer is read
            async with doors.plain(1, name="a") as client:
                assert (await client.ask(**words, id=1))["message"] == "1.1"
            async with doors.plain(1, name="a") as client, doors.plain(1, name="a") as second:
                twice = [client.ask(**words, id=2), second.ask(**words, id=2)]
                assert [one["message"] for one in await asyncio.gather(*twice)] == ["1.1", "1.1"]
                other = {**words, "text": "another"}
                assert (await client.ask(**other, id=3))["code"] == "key_used"
            async with doors.plain(1, name="b") as client:  # another client's keys are its own
                assert (await client.ask(**words, id=1))["message"] == "1.2"
            assert node.status()["published"] == {"all": 2}

    run(tell())


@pytest.mark.parametrize("compacted", [False, True])
def test_keys_outlive_a_crash_and_a_compaction(tmp_path: Path, compacted: bool) -> None:
    async def tell() -> None:
        doors = Doors(tmp_path, 1)
        words = {"do": "publish", "group": "all", "text": "once", "key": "k", "id": 1}
        node = doors.node(1)
        await node.start()
        async with doors.plain(1, name="a") as client:
            assert (await client.ask(**words))["message"] == "1.1"
        if compacted:
            keeper = node.host().parts.keeper
            assert keeper is not None
            keeper.compact_soon()
            await node.group("all").publish(b"another")
            await until(lambda: keeper.compactions > 0)
        await crash(node)
        async with doors.node(1) as again, doors.plain(1, name="a") as client:
            assert (await client.ask(**words))["message"] == "1.1"
            assert again.status()["published"] == {"all": 2 if compacted else 1}

    run(tell())


def test_the_window_of_keys_is_what_the_page_says(tmp_path: Path) -> None:
    async def tell() -> None:
        doors = Doors(tmp_path, 1)
        limits = {
            "runtime.storage.publication_keys.keys": 2,
            "runtime.storage.publication_keys.clients": 2,
        }
        with set_to(limits):
            async with doors.running() as (node,):
                async with doors.plain(1, name="a") as client:
                    for key in ("1", "2", "3", "3", "2", "1"):
                        await client.ask(do="publish", id=1, group="all", text="x", key=key)
                assert node.status()["published"] == {"all": 4}  # of 1 nothing was known any more
                for name in ("b", "c"):  # two more clients: the first one is forgotten
                    async with doors.plain(1, name=name) as client:
                        await client.ask(do="publish", id=1, group="all", text="x", key="1")
                async with doors.plain(1, name="a") as client:
                    await client.ask(do="publish", id=1, group="all", text="x", key="1")
                assert node.status()["published"] == {"all": 7}

    run(tell())


# Positions


@STORAGE
def test_what_was_not_acknowledged_comes_again_at_another_node(
    tmp_path: Path, storage: str
) -> None:
    async def tell() -> None:
        doors = Doors(tmp_path, 2, storage=storage)
        async with doors.running() as nodes:
            async with connect(doors.url(1), name="a") as first, first.group("all") as group:
                await group.publish_many([b"1", b"2", b"3", b"4"])
                messages = await group.receive_many(2, PATIENCE)
                messages += await group.receive_many(2, 1.0) if len(messages) < 2 else []
                await messages[1].ack()  # not the first
                assert first.position()["seen"] == {"all": {}}
                await messages[0].ack()
                assert first.position()["seen"] == {"all": {1: 2}}
                position = first.position()
            await nodes[0].group("all").publish(b"5")
            async with (
                connect(doors.url(2), name="a", position=position) as second,
                second.group("all") as group,
            ):
                assert await take(group, 3) == [b"3", b"4", b"5"]
                assert await group.receive(0.1) is None

    run(tell())


def test_a_node_waits_until_it_has_what_a_client_has_seen(tmp_path: Path) -> None:
    async def tell() -> None:
        doors = Doors(tmp_path, 2)
        async with doors.running() as (one, _):
            hello = {"name": "a", "past": {"all": {"1": 2}}}
            with set_to({"clients.session.not_yet_after": 0.2}):
                assert await doors.refusal(2, **hello) == "not_yet"
            coming = asyncio.create_task(anext_of(doors, hello))
            await one.group("all").publish(b"1")
            await asyncio.sleep(0.1)
            assert not coming.done()
            await one.group("all").publish(b"2")
            assert await coming == {"1": 2}  # it had delivered both when it said welcome

    run(tell())


async def anext_of(doors: Doors, hello: dict[str, object]) -> dict[str, int]:
    async with doors.plain(2, **hello) as client:
        answer = await client.ask(do="subscribe", id=1, groups=["all"])
        seen: dict[str, int] = answer["seen"]["all"]
        return seen


def test_the_past_of_a_group_that_a_node_does_not_serve_is_refused(tmp_path: Path) -> None:
    async def tell() -> None:
        doors = Doors(tmp_path, 2, groups='all = "*"\nother = [1]')
        async with doors.running():
            async with connect(doors.url(1), name="a") as client:
                await client.group("other").publish(b"x")
                position = client.position()
            async with doors.plain(1, name="a", past=position["past"]):
                pass
            assert await doors.refusal(2, past=position["past"]) == "elsewhere"

    run(tell())


def test_who_lacks_what_is_not_kept_is_told_and_begins_anew(tmp_path: Path) -> None:
    async def tell() -> None:
        doors = Doors(tmp_path, 1, door="kept_messages = 5")
        node = doors.node(1)
        await node.start()
        async with connect(doors.url(1), name="a") as client, client.group("all"):
            position = client.position()
        for number in range(20):
            await node.group("all").publish(b"%d" % number)
        for lives in range(2):
            async with connect(doors.url(1), position=position) as client:
                group = client.group("all", since="kept")
                with pytest.raises(Gap, match=r"1\.15"):
                    await group.__aenter__()
                async with group:
                    assert await take(group, 5) == [b"15", b"16", b"17", b"18", b"19"]
            if lives == 0:
                await crash(node)
                node = doors.node(1)
                await node.start()
        await node.stop()

    run(tell())


# Nodes that go


def test_a_client_goes_on_when_its_node_is_back(tmp_path: Path) -> None:
    async def tell() -> None:
        doors = Doors(tmp_path, 1)
        node = doors.node(1)
        await node.start()
        async with connect(doors.url(1), name="a") as client, client.group("all") as group:
            await group.publish_many([b"1", b"2"])
            assert await take(group, 1) == [b"1"]
            await crash(node)
            publishing = asyncio.create_task(group.publish(b"3"))
            await asyncio.sleep(0.1)
            assert not publishing.done()
            async with doors.node(1):
                assert (await publishing).id & 0xFF == 3
                assert await take(group, 2) == [b"2", b"3"]
                assert client.reconnections == 1
                assert await group.receive(0.1) is None

    run(tell())


def test_a_client_moves_to_another_node_and_goes_on(tmp_path: Path) -> None:
    async def tell() -> None:
        doors = Doors(tmp_path, 2)
        one, two = doors.node(1), doors.node(2)
        await one.start()
        await two.start()
        await until(lambda: two.status()["links"] == [1])
        urls = [doors.url(1), doors.url(2)]
        async with connect(urls, name="a") as client, client.group("all") as group:
            await group.publish_many([b"1", b"2", b"3"])
            assert await take(group, 2) == [b"1", b"2"]
            await has_delivered(two, 3)
            await one.stop()
            assert (await group.publish(b"4")).id >> 32 == 2
            assert client.id == 2
            assert await take(group, 2) == [b"3", b"4"]
            assert await group.receive(0.1) is None
        await two.stop()

    run(tell())


def test_a_publication_whose_node_is_gone_is_unanswered(tmp_path: Path) -> None:
    async def tell() -> None:
        doors = Doors(tmp_path, 2)
        one, two = doors.node(1), doors.node(2)
        await one.start()
        await two.start()
        await until(lambda: two.status()["links"] == [1])
        with set_to({"clients.connect.stay": 0.2}):
            async with connect([doors.url(1), doors.url(2)]) as client:
                group = client.group("all")
                journal = one.host().journal
                assert journal is not None
                journal.commit = lambda: None  # type: ignore[method-assign]
                publishing = asyncio.create_task(group.publish(b"perhaps"))
                await asyncio.sleep(0.1)
                await crash(one)
                with pytest.raises(Unanswered, match="node 2 cannot know"):
                    await publishing
                await group.publish(b"surely")
        await two.stop()

    run(tell())


# What a group and a configuration refuse


def test_a_second_reader_is_an_error(tmp_path: Path) -> None:
    async def tell() -> None:
        doors = Doors(tmp_path, 1)
        async with doors.running() as (node,), connect(doors.url(1)) as client:
            async with client.group("all") as group:
                first = asyncio.create_task(anext(group))
                await asyncio.sleep(0.01)
                with pytest.raises(NodeError, match="read already"):
                    await anext(group)
                first.cancel()
            with pytest.raises(NodeError, match="read already"):  # the door reads it
                await node.group("all").receive(0.1)

    run(tell())


@pytest.mark.parametrize(
    ("door", "protocol", "words"),
    [
        ("", "naive_flood", "does not promise causal order"),
        ('groups = ["no"]', "vector_clock_broadcast", r"groups of this cluster \(all\)"),
        ("tls = true", "vector_clock_broadcast", "this node has no identity"),
        ("kept_messages = 0", "vector_clock_broadcast", "a whole number from 1 on"),
    ],
)
def test_a_door_that_cannot_be_is_refused(
    tmp_path: Path, door: str, protocol: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        Doors(tmp_path, 1, door=door, protocol=protocol).config(1)


@pytest.mark.parametrize(
    ("tls", "door"), [(True, "tls = false"), (False, 'certificate = "c"\nkey = "k"')]
)
def test_without_tls_or_tokens_it_is_for_loopback_alone(
    tmp_path: Path, tls: bool, door: str
) -> None:
    doors = Doors(tmp_path, 1, tls=tls, door=door)
    assert doors.config(1).clients is not None
    doors.host = "0.0.0.0"
    with pytest.raises(ConfigError, match="only loopback"):
        doors.config(1)
