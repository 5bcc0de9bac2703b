"""Nodes that keep nothing on disk: still nothing is lost, doubled or out of order."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from loopback_nodes import Neighbourhood, disorder, take, until

from causalcast import Node
from causalcast.errors import ConfigError, NodeError
from causalcast.runtime.host.publishing import PUBLISH_PER_TURN
from causalcast.runtime.node import ReceivedMessage
from causalcast.runtime.operating.node_process import loop_factory
from causalcast.trace.gather import gather

IN_MEMORY = "durable = false"
LIMIT = 200_000


def in_memory(folder: Path, nodes: int, level: str = "none", more: str = "") -> Neighbourhood:
    return Neighbourhood(folder, nodes, storage=IN_MEMORY, level=level, more=more)


def run(town: Neighbourhood, story: Callable[..., Awaitable[None]], loop: str = "asyncio") -> None:
    async def told() -> None:
        async with town.running() as nodes:
            await story(*nodes)

    with asyncio.Runner(loop_factory=loop_factory(loop)) as runner:
        runner.run(told())


async def talk(*nodes: Node) -> None:
    """Everybody answers what it has just heard."""

    async def one(node: Node) -> None:
        group = node.group("all")
        for turn in range(100):
            await group.publish(b"%d" % turn)
            await take(group, 1)

    await asyncio.gather(*map(one, nodes))
    for node in nodes:
        await take(node.group("all"), 100 * (len(nodes) - 1))


def test_order_holds_in_the_trace(tmp_path: Path) -> None:
    run(in_memory(tmp_path, 3, level="full"), talk)
    assert disorder(gather([tmp_path], tmp_path / "run")) == []


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_callbacks_get_everything_in_order(tmp_path: Path, loop: str) -> None:
    """Three publish as fast as they can; everybody counts, per origin."""
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    count = 1500  # more than the window of a link

    async def story(*nodes: Node) -> None:
        found: dict[tuple[int, int], list[int]] = {}

        def watch(node: Node) -> None:
            def came(message: ReceivedMessage) -> None:
                found.setdefault((node.id, message.origin), []).append(int(message.payload))

            node.group("all").on_message(came)

        async def publish(node: Node) -> None:
            for number in range(count):
                await node.group("all").publish(b"%d" % number)

        for node in nodes:
            watch(node)
        await asyncio.gather(*map(publish, nodes))
        await until(lambda: sum(map(len, found.values())) >= 9 * count)
        assert len(found) == 9
        assert all(numbers == list(range(count)) for numbers in found.values())

    run(in_memory(tmp_path, 3), story, loop)


def test_a_callback_that_fails_stops_nothing(tmp_path: Path) -> None:
    """It may publish, and what it raises goes to the loop's handler."""
    problems: list[str] = []
    heard: list[bytes] = []

    async def story(one: Node, two: Node) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, facts: problems.append(str(facts["exception"])))
        echoes: set[asyncio.Task[object]] = set()

        def answer(message: ReceivedMessage) -> None:
            if message.payload == b"bad":
                raise ValueError("cannot be handled")
            if message.origin == one.id:
                echoes.add(asyncio.ensure_future(two.group("all").publish(b"answer")))

        two.group("all").on_message(answer)
        one.group("all").on_message(lambda message: heard.append(message.payload))
        await one.group("all").publish(b"bad")
        await one.group("all").publish(b"good")
        await until(lambda: b"answer" in heard)

    run(in_memory(tmp_path, 2), story)
    assert problems == ["cannot be handled"]
    assert heard == [b"bad", b"good", b"answer"]


def test_a_slow_consumer_slows_its_publishers(tmp_path: Path) -> None:
    """Node 2 takes nothing: memory stays bounded everywhere, the publisher waits, and when node 2
    takes again everything is there once and in order."""
    limits = f"[limits]\nsend_buffer_bytes = {LIMIT}\ninbox_bytes = {LIMIT}"
    town = in_memory(tmp_path, 2, more=limits)
    count, size = 6000, 4000  # 24 MB: far more than the sockets between them hold

    async def story(one: Node, two: Node) -> None:
        one.group("all").on_message(lambda message: None)
        published = 0

        async def publish_all() -> None:
            nonlocal published
            for number in range(count):
                await one.group("all").publish(b"%5d" % number + b"." * size)
                published += 1

        publishing = asyncio.create_task(publish_all())
        before = -1
        while before != published:  # until nothing moves any more
            before = published
            await asyncio.sleep(0.6)  # longer than messages wait to be repeated
        assert 0 < published < count
        assert not publishing.done()
        host, sender = two._running(), one._running()
        assert host.inbox.is_full
        one_read = 1 << 18
        assert host.inbox.memory() < LIMIT + 2 * one_read
        assert sender.parts.stack.multicast.waiting_bytes() < 2 * LIMIT + one_read
        link = sender.links.current_link(two.id)
        assert link is not None and link._transport is not None
        window = 1000 * (size + 100)
        await asyncio.sleep(1.5)  # repetitions wait while there is something to write
        assert link._transport.get_write_buffer_size() < LIMIT + one_read + window
        bodies = await take(two.group("all"), count)
        assert [int(body[:5]) for body in bodies] == list(range(count))
        await publishing

    run(town, story)


def test_who_reads_may_answer_even_if_its_inbox_is_full(tmp_path: Path) -> None:
    """It would wait for itself for ever."""
    town = in_memory(tmp_path, 1, more="[limits]\ninbox_bytes = 10000")

    async def story(one: Node) -> None:
        group = one.group("all")
        await group.publish(b"question")
        assert await take(group, 1) == [b"question"]
        async with asyncio.timeout(20):
            for _ in range(10):
                await group.publish(b"answer" * 1000)
        assert one._running().inbox.is_full
        waiting = asyncio.create_task(group.publish(b"of somebody else"))
        await asyncio.sleep(0.05)
        assert not waiting.done()  # others do wait
        await take(group, 10)
        await waiting

    run(town, story)


def test_what_origins_sign_is_handed_over_as_it_was_published(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 2, storage=IN_MEMORY, level="none", more="sign = true", tls=True)

    async def story(one: Node, two: Node) -> None:
        await one.group("all").publish(b"signed")
        assert await take(two.group("all"), 1) == [b"signed"]
        assert await take(one.group("all"), 1) == [b"signed"]

    run(town, story)


def test_what_kept_nothing_cannot_come_back(tmp_path: Path) -> None:
    """Its numbers would begin again, and others would take new messages for old ones."""
    town = in_memory(tmp_path, 1)

    async def story(one: Node) -> None:
        await one.group("all").publish(b"x")

    run(town, story)
    with pytest.raises(NodeError, match="new id with new storage"):
        run(town, story)
    with pytest.raises(ConfigError, match="vector_clock_broadcast, in memory"):
        run(Neighbourhood(tmp_path, 1), story)


def test_a_callback_acknowledges_what_it_returns_from(tmp_path: Path) -> None:
    """With a journal, what it failed at comes again after a restart, and nothing else."""
    town = Neighbourhood(tmp_path, 1)
    heard: list[bytes] = []

    def listen(message: ReceivedMessage) -> None:
        heard.append(message.payload)
        if message.payload == b"second":
            raise ValueError("later, perhaps")

    async def first_life(one: Node) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        one.group("all").on_message(listen)
        for body in (b"first", b"second", b"third"):
            await one.group("all").publish(body)
        await until(lambda: len(heard) == 3)

    async def second_life(one: Node) -> None:
        assert await take(one.group("all"), 1) == [b"second"]
        assert one.status()["waiting"] == 0

    run(town, first_life)
    assert heard == [b"first", b"second", b"third"]
    run(town, second_life)


def test_many_publishers_leave_the_loop_its_turns(tmp_path: Path) -> None:
    """However many tasks publish, together they publish no more in a turn than one alone."""

    async def story(first: Node, second: Node) -> None:
        group, most, last = first.group("all"), 0, 0
        first.group("all").on_message(lambda message: None)
        second.group("all").on_message(lambda message: None)

        async def publish() -> None:
            for _ in range(500):
                await group.publish(b"news")

        async def watch() -> None:
            nonlocal most, last
            while True:
                await asyncio.sleep(0)
                now = first.status()["published"].get("all", 0)
                most, last = max(most, now - last), now

        watcher = asyncio.create_task(watch())
        await asyncio.gather(*(publish() for _ in range(16)))
        watcher.cancel()
        assert PUBLISH_PER_TURN.value // 2 < most <= PUBLISH_PER_TURN.value + 1

    run(in_memory(tmp_path, 2), story)
