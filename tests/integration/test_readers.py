"""How an application takes messages: what counts as handled, what comes again, who may read."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from loopback_nodes import PATIENCE, Neighbourhood, take, until

from causalcast import Node, SyncNode
from causalcast.core import number_of
from causalcast.errors import NodeError
from causalcast.runtime.node import ReceivedMessage
from causalcast.runtime.sync_node import _Taking

STORAGE = pytest.mark.parametrize("storage", ["", "durable = false"], ids=["disk", "memory"])


def tell(town: Neighbourhood, story: Callable[[Node], Awaitable[None]]) -> None:
    """Play `story` at the only node of a town."""

    async def told() -> None:
        async with town.running() as (node,):
            await asyncio.wait_for(story(node), PATIENCE)

    asyncio.run(told())


def lonely(folder: Path, storage: str = "") -> Neighbourhood:
    return Neighbourhood(folder, 1, storage=storage, level="none")


# Callbacks


@STORAGE
def test_an_asynchronous_callback_runs_one_message_after_the_other(
    tmp_path: Path, storage: str
) -> None:
    """Each is acknowledged when its handling has returned, and the next begins after that."""
    steps: list[str] = []

    async def story(node: Node) -> None:
        async def handle(message: ReceivedMessage) -> None:
            steps.append("begin " + message.payload.decode())
            await asyncio.sleep(0.002)
            if not storage:
                assert message.id in node._running().inbox.unacknowledged
            steps.append("end " + message.payload.decode())

        node.group("all").on_message(handle)
        for number in range(5):
            await node.group("all").publish(b"%d" % number)
        await until(lambda: len(steps) == 10)
        await until(lambda: node.status()["unacknowledged"] == 0)

    tell(lonely(tmp_path, storage), story)
    assert steps == [f"{what} {number}" for number in range(5) for what in ("begin", "end")]


def test_a_plain_callback_that_returns_a_coroutine_has_it_awaited(tmp_path: Path) -> None:
    heard: list[bytes] = []

    async def handle(message: ReceivedMessage) -> None:
        await asyncio.sleep(0)
        heard.append(message.payload)

    async def story(node: Node) -> None:
        node.group("all").on_message(lambda message: handle(message))
        await node.group("all").publish(b"one")
        await until(lambda: heard == [b"one"])

    tell(lonely(tmp_path), story)


def test_what_an_asynchronous_callback_fails_at_comes_again_after_a_restart(
    tmp_path: Path,
) -> None:
    town = lonely(tmp_path)
    problems: list[str] = []
    heard: list[bytes] = []

    async def fails(node: Node) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, facts: problems.append(str(facts["exception"])))

        async def handle(message: ReceivedMessage) -> None:
            await asyncio.sleep(0)
            if message.payload == b"bad":
                raise ValueError("cannot be handled")
            heard.append(message.payload)

        node.group("all").on_message(handle)
        await node.group("all").publish(b"bad")
        await node.group("all").publish(b"good")
        await until(lambda: heard == [b"good"])

    async def again(node: Node) -> None:
        assert await take(node.group("all"), 1) == [b"bad"]
        assert node.status()["waiting"] == 0

    tell(town, fails)
    assert problems == ["cannot be handled"]
    tell(town, again)


def test_a_handling_under_way_ends_with_the_node_and_its_message_comes_again(
    tmp_path: Path,
) -> None:
    town = lonely(tmp_path)
    ended: list[str] = []

    async def story(node: Node) -> None:
        began = asyncio.Event()

        async def handle(message: ReceivedMessage) -> None:
            began.set()
            try:
                await asyncio.sleep(3600)
            finally:
                ended.append(message.payload.decode())

        node.group("all").on_message(handle)
        await node.group("all").publish(b"long")
        await began.wait()

    async def again(node: Node) -> None:
        assert await take(node.group("all"), 1) == [b"long"]

    tell(town, story)
    assert ended == ["long"]
    tell(town, again)


@STORAGE
def test_a_callback_that_gives_back_gets_it_again(tmp_path: Path, storage: str) -> None:
    heard: list[bytes] = []

    async def story(node: Node) -> None:
        def handle(message: ReceivedMessage) -> None:
            heard.append(message.payload)
            if len(heard) == 1:
                message.give_back()

        node.group("all").on_message(handle)
        await node.group("all").publish(b"one")
        await until(lambda: len(heard) == 2)
        await until(lambda: node.status()["unacknowledged"] == 0)

    tell(lonely(tmp_path, storage), story)
    assert heard == [b"one", b"one"]


# Acknowledging and giving back


@STORAGE
def test_giving_back_twice_hands_over_once(tmp_path: Path, storage: str) -> None:
    async def story(node: Node) -> None:
        group = node.group("all")
        await group.publish(b"one")
        message = await anext(group)
        message.give_back()
        message.give_back()
        assert node.status()["waiting"] == 1
        assert await take(group, 1) == [b"one"]
        assert node.status()["waiting"] == 0

    tell(lonely(tmp_path, storage), story)


@STORAGE
def test_the_first_word_about_a_message_counts(tmp_path: Path, storage: str) -> None:
    """What was acknowledged cannot be given back, and what was given back is somebody else's."""

    async def story(node: Node) -> None:
        group = node.group("all")
        await group.publish(b"one")
        message = await anext(group)
        message.give_back()
        with pytest.raises(NodeError, match="was given back"):
            await message.ack()
        message = await anext(group)
        await message.ack()
        await message.ack()
        with pytest.raises(NodeError, match="was acknowledged"):
            message.give_back()
        assert node.status()["waiting"] == node.status()["unacknowledged"] == 0

    tell(lonely(tmp_path, storage), story)


def test_what_is_given_back_wakes_a_reader_that_waits(tmp_path: Path) -> None:
    """The reader goes on to the next message while a task of its own fails at the first."""

    async def story(node: Node) -> None:
        group = node.group("all")
        await group.publish(b"one")
        first = await anext(group)
        reading = asyncio.create_task(take(group, 1))
        await asyncio.sleep(0.01)  # it waits now
        first.give_back()
        assert await reading == [b"one"]

    tell(lonely(tmp_path), story)


def test_a_durable_acknowledgement_after_the_end_is_an_error(tmp_path: Path) -> None:
    """The mark will never be on disk, so nobody may wait for it; the message comes again."""
    town = lonely(tmp_path)

    async def story() -> None:
        async with town.running() as (node,):
            await node.group("all").publish(b"one")
            message = await anext(node.group("all"))
        for durable in (True, False):
            with pytest.raises(NodeError, match="stopped"):
                await asyncio.wait_for(message.ack(durable=durable), PATIENCE)
        async with town.running() as (node,):
            assert await take(node.group("all"), 1) == [b"one"]

    asyncio.run(story())


def test_a_second_acknowledgement_that_is_durable_waits_for_the_mark(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        await node.group("all").publish(b"one")
        message = await anext(node.group("all"))
        await message.ack()
        await message.ack(durable=True)
        assert not node._running().parts.acknowledgements._marked_later

    tell(lonely(tmp_path), story)


# One reader


@STORAGE
def test_a_second_reader_is_told(tmp_path: Path, storage: str) -> None:
    """It would get nothing, or take from the first; the first goes on."""

    async def story(node: Node) -> None:
        group = node.group("all")
        first = asyncio.create_task(take(group, 2))
        await asyncio.sleep(0)
        for second in (anext(node.group("all")), anext(aiter(group))):
            with pytest.raises(NodeError, match="is read already"):
                await second
        with pytest.raises(NodeError, match="is read already"):
            group.on_message(lambda message: None)
        await group.publish(b"one")
        await group.publish(b"two")
        assert await first == [b"one", b"two"]

    tell(lonely(tmp_path, storage), story)


def test_a_callback_is_a_reader(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        group = node.group("all")
        group.on_message(lambda message: None)
        with pytest.raises(NodeError, match="is read already"):
            await anext(group)
        with pytest.raises(NodeError, match="is read already"):
            group.on_message(lambda message: None)

    tell(lonely(tmp_path), story)


def test_readers_one_after_the_other_are_fine(tmp_path: Path) -> None:
    """A loop that was left, a reader that was cancelled: the next one gets what follows."""

    async def story(node: Node) -> None:
        group = node.group("all")
        for number in range(3):
            await group.publish(b"%d" % number)
        async for message in group:
            await message.ack()
            break
        async for message in group:
            assert message.payload == b"1"
            await message.ack()
            break
        assert await take(group, 1) == [b"2"]
        waiting = asyncio.create_task(take(group, 1))
        await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.wait([waiting])
        await group.publish(b"3")
        assert await take(group, 1) == [b"3"]

    tell(lonely(tmp_path), story)


# Without asyncio


def test_a_timeout_of_zero_finds_what_waits(tmp_path: Path) -> None:
    town = lonely(tmp_path)
    with SyncNode(town.config(1)) as node:
        group = node.group("all")
        assert group.receive(timeout=0) is None
        for number in range(50):
            group.publish(b"%d" % number)
        found = [message.payload for message in group.messages(timeout=0)]
    assert found == [b"%d" % number for number in range(50)]


def test_a_second_thread_that_reads_is_told(tmp_path: Path) -> None:
    town = lonely(tmp_path)
    with SyncNode(town.config(1)) as node, ThreadPoolExecutor(1) as threads:
        group = node.group("all")
        first = threads.submit(group.receive, PATIENCE)
        again = threading.Event()
        while not first.done() and not again.is_set():
            try:
                assert group.receive(timeout=0) is None
            except NodeError as error:
                assert "is read already" in str(error)
                again.set()
        assert again.is_set()
        group.publish(b"one")
        message = first.result(PATIENCE)
        assert message is not None and message.payload == b"one"


# Many at once


@STORAGE
def test_many_are_published_received_and_acknowledged_at_once(tmp_path: Path, storage: str) -> None:
    bodies = [b"%d" % number for number in range(300)]

    async def story(node: Node) -> None:
        group = node.group("all")
        receipts = await group.publish_many(bodies)
        assert [number_of(receipt.id) for receipt in receipts] == list(range(1, 301))
        await until(lambda: node.status()["waiting"] == 300)
        first = await group.receive_many(most=200)
        rest = await group.receive_many(timeout=1)
        assert [message.payload for message in first] == bodies[:200]
        assert [message.payload for message in rest] == bodies[200:]
        assert await group.receive_many(timeout=0) == []
        await group.ack_many(first + rest, durable=True)
        assert node.status()["unacknowledged"] == 0
        await group.ack_many([])

    tell(lonely(tmp_path, storage), story)


def test_what_was_acknowledged_durably_does_not_come_again_and_the_rest_does(
    tmp_path: Path,
) -> None:
    town = lonely(tmp_path)

    async def first(node: Node) -> None:
        group = node.group("all")
        await group.publish_many([b"a", b"b", b"c"])
        taken = []
        while len(taken) < 3:
            taken += await group.receive_many()
        await group.ack_many(taken[:2], durable=True)

    async def second(node: Node) -> None:
        assert [each.payload for each in await node.group("all").receive_many()] == [b"c"]

    tell(town, first)
    tell(town, second)


def test_nothing_is_published_if_one_of_many_can_never_be(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        group = node.group("all")
        with pytest.raises(NodeError, match="a body is bytes, not str"):
            await group.publish_many([b"one", "two"])  # type: ignore[list-item]
        assert node.status()["published"].get("all", 0) == 0
        with pytest.raises(NodeError, match="body 1 of 3: "):
            await group.publish_many([b"one", b"." * (1 << 30), b"three"])
        await until(lambda: node.status()["published"].get("all", 0) == 1)
        with pytest.raises(NodeError, match="at least 1"):
            await group.receive_many(most=0)

    tell(lonely(tmp_path), story)


def test_who_is_cancelled_has_taken_nothing(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        group = node.group("all")
        waiting = asyncio.create_task(group.receive_many())
        await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.wait([waiting])
        await group.publish_many([b"a", b"b"])
        taken: list[bytes] = []
        while len(taken) < 2:
            taken += [message.payload for message in await group.receive_many()]
        assert taken == [b"a", b"b"]

    tell(lonely(tmp_path), story)


def test_who_receives_all_the_time_lets_others_have_their_turn(tmp_path: Path) -> None:
    """Also where something waits every time."""

    async def story(node: Node) -> None:
        group = node.group("all")
        await group.publish_many([b"."] * 500)
        await until(lambda: node.status()["waiting"] == 500)
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        for _ in range(500):
            assert await group.receive(timeout=0) is not None
        counting.cancel()
        assert turns >= 5

    tell(lonely(tmp_path), story)


def test_many_at_once_in_threads(tmp_path: Path) -> None:
    with SyncNode(lonely(tmp_path).config(1)) as node:
        group = node.group("all")
        receipts = group.publish_many([b"a", b"b", b"c"])
        assert [number_of(receipt.id) for receipt in receipts] == [1, 2, 3]
        taken = []
        while len(taken) < 3:
            taken += group.receive_many(timeout=PATIENCE)
        assert [message.payload for message in taken] == [b"a", b"b", b"c"]
        group.ack_many(taken, durable=True)
        assert node.status()["unacknowledged"] == 0
        assert group.receive_many(timeout=0) == []


def test_a_reader_that_publishes_goes_on_when_its_inbox_has_become_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for a neighbour; meanwhile so much came that nothing is read from links. Nobody
    else can make room."""

    async def story(node: Node) -> None:
        group, host = node.group("all"), node.host()
        await group.publish_many([b"question", b"another"])
        multicast = type(host.parts.stack.multicast)
        monkeypatch.setattr(multicast, "crowded_by", lambda self, now: "somebody is behind")

        async def answer() -> None:
            async for message in group:
                await group.publish(b"answer")
                await message.ack()
                return

        reader = asyncio.create_task(answer())
        other = asyncio.create_task(group.publish(b"news"))
        await asyncio.sleep(0.05)
        assert not reader.done() and not other.done()
        host.inbox.is_full = True
        host.parts.pressure.end_turn()
        await asyncio.wait_for(reader, PATIENCE)
        assert not other.done()  # it can wait for the reader
        host.inbox.is_full = False
        monkeypatch.undo()
        host.parts.pressure.end_turn()
        await asyncio.wait_for(other, PATIENCE)

    tell(lonely(tmp_path), story)


def test_it_is_said_which_of_many_could_not_be_published_however_late(tmp_path: Path) -> None:
    """Far more than fit into a turn of the loop: those behind wait for their turn."""

    async def story(node: Node) -> None:
        group = node.group("all")
        with pytest.raises(NodeError, match="body 500 of 501: "):
            await group.publish_many([b"."] * 500 + [b"." * (1 << 30)])
        await until(lambda: node.status()["published"].get("all", 0) == 500)

    tell(lonely(tmp_path, "durable = false"), story)


def test_what_nobody_waits_for_any_more_comes_again_in_its_order(tmp_path: Path) -> None:
    """A thread was interrupted when its messages had been taken already."""

    async def story(node: Node) -> None:
        group = node.group("all")
        await group.publish_many([b"a", b"b", b"c"])
        await until(lambda: node.status()["waiting"] == 3)
        taking = _Taking()
        taking.give_up()
        await taking.take(group, 10, PATIENCE)
        assert [message.payload for message in await group.receive_many()] == [b"a", b"b", b"c"]

    tell(lonely(tmp_path), story)
