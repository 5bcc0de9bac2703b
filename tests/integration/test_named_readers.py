"""Readers with names: each gets everything, has its own acknowledgements, and outlives crashes."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from loopback_nodes import PATIENCE, Neighbourhood, until
from test_crash_at_every_write import PowerCut
from test_subscribers import Program, desk_of

from causalcast import AnyNode, Group, Node, Reader, SyncNode
from causalcast.errors import CausalcastError, NodeError
from causalcast.runtime.storage.reader_table import MOST_READERS, ReaderTable
from causalcast.testing import Applications, Cluster

STORAGE = pytest.mark.parametrize("storage", ["", "durable = false"], ids=["disk", "memory"])
FEW = "[limits]\nreader_bytes = 3000"


def tell(town: Neighbourhood, *stories: Callable[[Node], Awaitable[None]]) -> None:
    """Play each story in a life of its own of the only node."""

    async def told() -> None:
        for story in stories:
            async with town.running() as (node,):
                await asyncio.wait_for(story(node), PATIENCE)

    asyncio.run(told())


def lonely(folder: Path, storage: str = "", more: str = "") -> Neighbourhood:
    return Neighbourhood(folder, 1, storage=storage, more=more, level="none")


async def publish(node: Node, *texts: str) -> None:
    for text in texts:
        await node.group("all").publish(text.encode())


async def next_ones(reader: Reader, count: int, ack: int = 0) -> list[str]:
    """The next payloads; the first `ack` of them are acknowledged, and that is durable."""
    messages = []
    async with asyncio.timeout(PATIENCE):
        while len(messages) < count:
            messages.append(await anext(reader))
    await reader.ack_many(messages[:ack], durable=True)
    return [message.payload.decode() for message in messages]


async def all_that_waits(reader: Reader) -> list[str]:
    return [m.payload.decode() for m in await reader.receive_many(timeout=0)]


@STORAGE
def test_each_gets_everything(tmp_path: Path, storage: str) -> None:
    async def story(node: Node) -> None:
        search = await node.group("all").subscribe("search")
        mail = await node.group("all").subscribe("mail")
        plain = node.group("all")
        await publish(node, "a", "b", "c")
        assert await next_ones(search, 3, ack=3) == ["a", "b", "c"]
        assert await next_ones(mail, 2, ack=2) == ["a", "b"]
        assert (await anext(plain)).payload == b"a"
        assert await next_ones(mail, 1, ack=1) == ["c"]
        assert [m.payload for m in await plain.receive_many()] == [b"b", b"c"]

    tell(lonely(tmp_path, storage), story)


def compacting(folder: Path, is_compacted: bool) -> Neighbourhood:
    return lonely(folder, more="[limits]\ncompact_bytes = 1" if is_compacted else "")


@pytest.mark.parametrize("is_compacted", [False, True])
def test_each_goes_on_where_it_was(tmp_path: Path, is_compacted: bool) -> None:
    async def first(node: Node) -> None:
        search = await node.group("all").subscribe("search")
        await publish(node, "a", "b", "c")
        mail = await node.group("all").subscribe("mail")
        late = await node.group("all").subscribe("late", since="kept")
        await publish(node, "d")
        assert await next_ones(search, 4, ack=3) == ["a", "b", "c", "d"]
        assert await next_ones(mail, 1) == ["d"]
        assert await next_ones(late, 4, ack=1) == ["a", "b", "c", "d"]
        plain = await node.group("all").receive_many()
        await node.group("all").ack_many(plain[:2], durable=True)
        if is_compacted:
            await until(lambda: node.host().parts.keeper.compactions > 0)  # type: ignore[union-attr]
        else:
            assert node.host().parts.keeper.compactions == 0  # type: ignore[union-attr]

    async def second(node: Node) -> None:
        group = node.group("all")
        assert await all_that_waits(await group.subscribe("search")) == ["d"]
        assert await all_that_waits(await group.subscribe("mail")) == ["d"]
        assert await all_that_waits(await group.subscribe("late")) == ["b", "c", "d"]
        assert [m.payload for m in await group.receive_many()] == [b"c", b"d"]
        for name in ("mail", "late"):
            await group.unsubscribe(name)

    async def third(node: Node) -> None:
        assert node.status()["readers"] == {
            "all": {
                "search": {
                    "unacknowledged": 1,
                    "waiting": 1,
                    "bytes": 201 + _stamp(node),
                    "here": False,
                    "lost": False,
                }
            }
        }
        assert 'reader="search"' in node.metrics()

    async def second_again(node: Node) -> None:
        with pytest.raises(NodeError, match="no reader 'mail'"):
            await node.group("all").unsubscribe("mail")

    tell(compacting(tmp_path, is_compacted), first, second, second_again, third)


def _stamp(node: Node) -> int:
    """Bytes that say when the last message was published."""
    (waiting,) = node.host().inbox.named.values()
    assert len(waiting.unacknowledged) == 1
    return next(iter(waiting.unacknowledged.values())).size - 1


def test_no_moment_is_bad_for_a_crash(tmp_path: Path) -> None:
    """Power fails after the n-th action of a node that has two readers, for every n."""
    for actions in range(1, 200):
        cut = _cut_after(actions, tmp_path / f"after-{actions}")
        if len(cut.kinds) < actions:
            break
    assert actions > 12


def _cut_after(actions: int, folder: Path) -> PowerCut:
    """Nothing that is durable is lost for a reader, and nothing comes again that it acknowledged
    durably; each gets things in one order, without gaps."""
    town = Neighbourhood(folder, 1, level="none", more="[limits]\ncompact_bytes = 300")
    published: list[str] = []
    begun: dict[str, int] = {}  # by reader: so many were published when it was durable
    done = dict.fromkeys(("search", "mail"), 0)  # acknowledged, and that is durable
    under_way = dict.fromkeys(done, 0)  # acknowledged, and nobody knows
    names = [*done]

    async def first(cut: PowerCut) -> None:
        node = cut.node = town.node(1)
        try:
            await node.start()
            readers = {}
            for turn in range(3):
                if turn < 2:
                    name = names[turn]
                    readers[name] = await node.group("all").subscribe(name)
                    begun[name] = len(published)
                await publish(node, str(turn))
                published.append(str(turn))
                under_way["search"] = 1
                await next_ones(readers["search"], 1, ack=1)
                done["search"] += 1
                under_way["search"] = 0
            await node.stop()
        except CausalcastError:
            assert cut.is_over

    async def second() -> None:
        async with town.node(1) as node:
            for name in begun:
                reader = await node.group("all").subscribe(name)
                got = await all_that_waits(reader)
                due = published[begun[name] + done[name] :]
                expected = [due, due[under_way[name] :]]
                assert got in expected or got[:-1] in expected, (name, got, expected)

    with pytest.MonkeyPatch.context() as patch:
        cut = PowerCut(actions, folder, patch, False)

        async def told() -> None:
            await first(cut)
            if len(cut.kinds) >= actions:
                with contextlib.suppress(CausalcastError):
                    await cut.node.wait_stopped()  # type: ignore[union-attr]
            cut.tear()
            await second()

        asyncio.run(asyncio.wait_for(told(), PATIENCE))
    return cut


@STORAGE
def test_an_abandoned_reader_is_told_of_and_ended(tmp_path: Path, storage: str) -> None:
    """Its messages are kept up to a limit, and it costs nobody else anything."""
    told: list[str] = []

    async def story(node: Node) -> None:
        group = node.group("all")
        search = await group.subscribe("search")
        other = await group.subscribe("other")
        for number in range(30):
            await publish(node, f"{number}" + "." * 100)
            await group.ack_many(await group.receive_many())
            assert len(await next_ones(other, 1, ack=1)) == 1
        assert node.status()["readers"]["all"]["search"]["lost"]
        assert not node.host().inbox.unacknowledged
        told.extend(event.name for event in node.events_since(0))
        with pytest.raises(NodeError, match="reader_bytes"):
            await anext(search)
        with pytest.raises(NodeError, match="was ended"):
            await group.subscribe("search")

    async def later(node: Node) -> None:
        group = node.group("all")
        with pytest.raises(NodeError, match="reader_bytes"):
            await group.subscribe("search")
        await group.unsubscribe("search")
        search = await group.subscribe("search")
        await publish(node, "new")
        assert (await next_ones(search, 1))[0] == "new"

    tell(lonely(tmp_path, storage, FEW), story, *([] if storage else [later]))
    assert [name for name in told if name.startswith("reader")] == ["reader_behind", "reader_lost"]


def test_what_is_taken_and_not_acknowledged_counts(tmp_path: Path) -> None:
    """Who reads and never acknowledges is ended, too, and its late word is refused."""

    async def story(node: Node) -> None:
        search = await node.group("all").subscribe("search")
        await publish(node, "first", "second")
        first, second = await search.receive_many()
        for number in range(30):
            await publish(node, f"{number}" + "." * 100)
        with pytest.raises(NodeError, match="reader_bytes"):
            await first.ack()
        with pytest.raises(NodeError, match="reader_bytes"):
            second.give_back()

    tell(lonely(tmp_path, more=FEW), story)


@STORAGE
def test_who_gives_back_gets_it_again_and_nobody_else(tmp_path: Path, storage: str) -> None:
    async def story(node: Node) -> None:
        search = await node.group("all").subscribe("search")
        mail = await node.group("all").subscribe("mail")
        await publish(node, "a", "b")
        (await anext(search)).give_back()
        assert await next_ones(search, 2, ack=2) == ["a", "b"]
        assert await next_ones(mail, 2, ack=2) == ["a", "b"]
        assert await all_that_waits(search) == await all_that_waits(mail) == []

    tell(lonely(tmp_path, storage), story)


def test_callbacks_have_names_too(tmp_path: Path) -> None:
    heard: dict[str, list[bytes]] = {"search": [], "mail": []}

    async def story(node: Node) -> None:
        for name, payloads in heard.items():
            reader = await node.group("all").subscribe(name)
            reader.on_message(lambda message, payloads=payloads: payloads.append(message.payload))
        await publish(node, "a", "b")
        await until(lambda: all(payloads == [b"a", b"b"] for payloads in heard.values()))
        readers = node.status()["readers"]["all"]
        await until(
            lambda: all(not node.host().inbox.named[key].bytes for key in node.host().inbox.named)
        )
        assert [*readers] == ["search", "mail"]

    tell(lonely(tmp_path), story)


def test_a_second_loop_under_one_name_is_told(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        search = await node.group("all").subscribe("search")
        reading = asyncio.create_task(anext(search))
        await asyncio.sleep(0.01)
        with pytest.raises(NodeError, match="is read already"):
            await anext(await node.group("all").subscribe("search"))
        await publish(node, "a")
        assert (await reading).payload == b"a"

    tell(lonely(tmp_path), story)


def test_a_group_can_be_read_by_name_alone(tmp_path: Path) -> None:
    """Then nothing is kept for a reader without a name, and who reads without one is told."""

    async def story(node: Node) -> None:
        group = node.group("all")
        with pytest.raises(NodeError, match="nobody would read"):
            await group.set_plain_reader(False)
        search = await group.subscribe("search")
        await publish(node, "a")
        await group.set_plain_reader(False)
        with pytest.raises(NodeError, match="nobody would read"):
            await group.unsubscribe("search")
        await publish(node, "b")
        assert node.status()["unacknowledged"] == 0
        assert await next_ones(search, 2, ack=2) == ["a", "b"]
        assert not node.host().inbox.unacknowledged

    async def later(node: Node) -> None:
        group = node.group("all")
        with pytest.raises(NodeError, match="no plain reader"):
            await anext(group)
        with pytest.raises(NodeError, match="no plain reader"):
            node.on_message(print, "all")
        await group.set_plain_reader(True)
        await publish(node, "c")
        assert (await anext(group)).payload == b"c"
        assert await all_that_waits(await group.subscribe("search")) == ["c"]

    tell(lonely(tmp_path), story, later)


def test_names_and_their_number_are_bounded(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        group = node.group("all")
        for name in ("", "x" * 1000):
            with pytest.raises(NodeError, match="no name of a reader"):
                await group.subscribe(name)
        for number in range(MOST_READERS.value):
            await group.subscribe(f"reader {number}")
        with pytest.raises(NodeError, match="may not have more"):
            await group.subscribe("one more")
        with pytest.raises(NodeError, match="since="):
            await group.subscribe("search", since="then")  # type: ignore[arg-type]
        await group.unsubscribe("reader 3")
        await group.subscribe("one more")

    tell(lonely(tmp_path), story)


def test_a_bit_is_not_soon_given_again() -> None:
    """Deliveries that are under way when a reader ends still name its bit."""
    table = ReaderTable()
    given = []
    for _ in range(40):
        bit = table.next_bit(0)  # type: ignore[arg-type]
        table.note(0, bit, "one", 1)  # type: ignore[arg-type]
        table.note(0, bit, "one", 0)  # type: ignore[arg-type]
        given.append(bit)
    assert len(set(given)) == len(given)
    assert max(given) < 1 << 63


def test_bodies_are_given_to_all_from_memory_or_disk(tmp_path: Path) -> None:
    """The memory for bodies is shared, and every reader gets them whole all the same."""
    bodies = [f"{number}" + "." * 500 for number in range(40)]

    async def story(node: Node) -> None:
        search = await node.group("all").subscribe("search")
        mail = await node.group("all").subscribe("mail")
        await publish(node, *bodies)
        assert node.host().inbox.memory() <= 4000
        readers: list[Reader | Group] = [search, mail, node.group("all")]
        taken = [await reader.receive_many() for reader in readers]
        for messages in taken:
            assert [message.payload.decode() for message in messages] == bodies
        for reader, messages in zip(readers, taken, strict=True):
            await reader.ack_many(messages)
        assert node.host().inbox.memory() == 0
        assert not node.host().inbox.unacknowledged

    tell(lonely(tmp_path, more="[limits]\ninbox_bytes = 4000"), story)


def test_threads_have_readers_with_names(tmp_path: Path) -> None:
    town = lonely(tmp_path)
    with SyncNode(town.config(1)) as node:
        group = node.group("all")
        search = group.subscribe("search")
        group.publish_many([b"a", b"b", b"c"])
        first, second = search.receive_many(2)
        search.ack_many([first], durable=True)
        assert [message.payload for message in group.messages(timeout=0)] == [b"a", b"b", b"c"]
        second.give_back()
    with SyncNode(town.config(1)) as node:
        search = node.group("all").subscribe("search")
        assert [message.payload for message in search.messages(timeout=0)] == [b"b", b"c"]
        node.group("all").set_plain_reader(False)
        node.group("all").set_plain_reader(True)
        node.group("all").unsubscribe("search")


def test_programs_read_under_a_name(tmp_path: Path) -> None:
    """At the control socket: what one name has handled, another one gets all the same."""

    async def open_as(program: Program, name: str) -> None:
        program.say(do="subscribe", group="all", reader=name)
        assert (await program.hear())["ok"]

    async def told() -> None:
        async with desk_of(lonely(tmp_path)) as desk:
            search, mail = await desk.open(), await desk.open()
            await open_as(search, "search")
            await open_as(mail, "mail")
            await desk.publish(1, 2)
            assert await search.handle(2) == ["1", "2"]
            assert await mail.handle(1) == ["1"]
            assert (await mail.hear())["text"] == "2"
            await mail.hang_up()
            again = await desk.open()
            await open_as(again, "mail")
            assert await again.handle(1) == ["2"]
            operator = await desk.open()
            operator.say(do="unsubscribe", group="all", reader="mail")
            assert (await operator.hear())["ok"]
            assert not (await again.hear())["ok"]
            operator.say(do="unsubscribe", group="all", reader="mail")
            assert "no reader" in (await operator.hear())["error"]
            nameless = await desk.open()
            nameless.say(do="subscribe", group="all", reader=7)
            assert "no name of a reader" in (await nameless.hear())["error"]

    asyncio.run(asyncio.wait_for(told(), PATIENCE))


def test_the_test_kit_has_them_too() -> None:
    """The same application under virtual time, with a crash."""
    heard: dict[str, list[bytes]] = {"search": [], "mail": []}

    async def application(node: AnyNode) -> None:
        for name, payloads in heard.items():
            reader = await node.group("all").subscribe(name)
            reader.on_message(lambda message, payloads=payloads: payloads.append(message.payload))
        await asyncio.Event().wait()

    async def story() -> None:
        one = applications.start(0, application)
        await asyncio.sleep(1)
        await one.group("all").publish(b"a")
        await asyncio.sleep(1)
        applications.crash(0)
        applications.recover(0, application)
        one = applications.nodes[0]
        await asyncio.sleep(1)
        await one.group("all").publish(b"b")
        await asyncio.sleep(1)
        assert heard == {"search": [b"a", b"b"], "mail": [b"a", b"b"]}
        group = one.group("all")
        kept = await group.subscribe("late", since="kept")
        assert [m.payload for m in await kept.receive_many()] == [b"a", b"b"]
        await group.set_plain_reader(False)
        with pytest.raises(NodeError, match="no plain reader"):
            await anext(group)
        await group.unsubscribe("late")
        with pytest.raises(NodeError, match="was ended"):
            await kept.receive()
        for name in ("search", "mail"):
            if name == "mail":
                with pytest.raises(NodeError, match="nobody would read"):
                    await group.unsubscribe(name)
            else:
                await group.unsubscribe(name)

    applications = Applications(Cluster(nodes=1))
    applications.run(story())
