"""One application, written for `AnyNode`, at a real node, a virtual one and one elsewhere."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from door_nodes import Doors
from loopback_nodes import PATIENCE, Neighbourhood

from causalcast import AnyMessage, AnyNode, connect
from causalcast.errors import NodeError
from causalcast.runtime.metadata import MARK
from causalcast.testing import Applications, Cluster

Application = Callable[[AnyNode], Awaitable[Any]]


def at_a_real_node(folder: Path, application: Application) -> Any:
    async def tell() -> Any:
        neighbourhood = Neighbourhood(folder, 1)
        async with asyncio.timeout(PATIENCE), neighbourhood.node(1) as node:
            return await application(node)

    return asyncio.run(tell())


def at_a_virtual_node(folder: Path, application: Application) -> Any:
    applications = Applications(Cluster(nodes=1))
    results: list[Any] = []

    async def here(node: AnyNode) -> None:
        results.append(await application(node))

    async def story() -> None:
        applications.start(0, here)
        await asyncio.sleep(60)

    applications.run(story())
    return results[0]


def at_a_client(folder: Path, application: Application) -> Any:
    async def tell() -> Any:
        doors = Doors(folder, 1)
        async with asyncio.timeout(PATIENCE), doors.running(), connect(doors.url(1)) as node:
            return await application(node)

    return asyncio.run(tell())


EVERYWHERE = pytest.mark.parametrize("run", [at_a_real_node, at_a_virtual_node, at_a_client])
Run = Callable[[Path, Application], Any]


@EVERYWHERE
def test_publish_and_read(tmp_path: Path, run: Run) -> None:
    async def application(node: AnyNode) -> list[bytes]:
        async with node.group("all") as group:
            assert group.name == "all"
            first = await group.publish(b"1")
            await group.publish_many([b"2", b"3", b"4", b"5"])
            message = await anext(group)
            assert (message.id, message.group, message.number) == (first.id, "all", 1)
            message.give_back()
            assert message.is_given_back
            with pytest.raises(NodeError, match="given back"):
                await message.ack()
            found = []
            async for message in group:
                found.append(message.payload)
                await message.ack()
                if message.payload == b"2":
                    break
            with pytest.raises(NodeError, match="was acknowledged"):
                message.give_back()
            rest = await group.receive_many(10, 5)
            await group.ack_many(rest)
            assert await group.receive(0) is None
            assert await group.receive_many(10, 0.01) == []
            return found + [message.payload for message in rest]

    assert run(tmp_path, application) == [b"1", b"2", b"3", b"4", b"5"]


@EVERYWHERE
def test_groups_are_made_and_removed(tmp_path: Path, run: Run) -> None:
    async def application(node: AnyNode) -> bytes:
        async with await node.create_group("doc/42") as doc:
            await doc.publish(b"hello")
            message = await anext(doc)
            await message.ack()
        await node.remove_group("doc/42")
        with pytest.raises(NodeError):
            await node.group("doc/42").publish(b"too late")
        with pytest.raises(NodeError):
            await node.create_group("doc/*")
        return message.payload

    assert run(tmp_path, application) == b"hello"


@EVERYWHERE
def test_what_is_said_of_a_message_travels_with_it(tmp_path: Path, run: Run) -> None:
    async def application(node: AnyNode) -> list[AnyMessage]:
        async with node.group("all") as group:
            await group.publish(b"x", {"kind": "größer", "control": "\x01"}, "text/plain")
            await group.publish(b"ends like metadata" + MARK)
            with pytest.raises(NodeError, match="at most 4096 travel with a message"):
                await group.publish(b"x", {"much": "\x01" * 4096})
            found = [await anext(group), await anext(group)]
            found[0].give_back()
            again = await anext(group)
            assert again.headers == found[0].headers and again.published_at is not None
            return found

    said, plain = run(tmp_path, application)
    assert said.headers == {"kind": "größer", "control": "\x01"}
    assert (said.payload, said.content_type) == (b"x", "text/plain")
    assert (plain.payload, plain.headers) == (b"ends like metadata" + MARK, {})
    assert plain.content_type == ""


@EVERYWHERE
def test_a_callback_is_the_one_reader(tmp_path: Path, run: Run) -> None:
    """It is awaited; what it gives back comes again; what it fails at is told, and not lost."""

    async def application(node: AnyNode) -> list[str]:
        told: list[str] = []
        over = asyncio.Event()
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: told.append(f"failed: {context['exception']}")
        )

        async def callback(message: AnyMessage) -> None:
            await asyncio.sleep(0)
            text = message.payload.decode()
            if text == "fails":
                raise ValueError(text)
            if text == "again" and text not in told:
                message.give_back()
            told.append(text)
            if text == "last":
                over.set()

        async with node.group("all") as group:
            group.on_message(callback)
            await group.publish_many([b"first", b"again", b"fails", b"last"])
            with pytest.raises(NodeError, match="read already"):
                await node.group("all").receive(1)
            await over.wait()
        return told

    expected = ["first", "again", "again", "failed: fails", "last"]
    assert run(tmp_path, application) == expected


def test_a_client_that_reads_what_it_did_not_enter_is_told(tmp_path: Path) -> None:
    async def application(node: AnyNode) -> None:
        group = node.group("all")
        await group.publish(b"that is allowed")
        with pytest.raises(NodeError, match="enter the group to read it"):
            await group.receive(1)
        async with group:
            pass
        with pytest.raises(NodeError, match="enter the group to read it"):
            await anext(group)

    at_a_client(tmp_path, application)


def test_a_callback_of_a_client_ends_with_its_group(tmp_path: Path) -> None:
    async def application(node: AnyNode) -> list[bytes]:
        heard: list[bytes] = []
        async with node.group("all") as group:
            group.on_message(lambda message: heard.append(message.payload))
            await group.publish(b"heard")
            while not heard:
                await asyncio.sleep(0.01)
        await group.publish(b"not heard")
        async with node.group("all") as group:
            message = await group.receive(5)  # it is not taken by the callback
            assert message is not None
            return [*heard, message.payload]

    assert at_a_client(tmp_path, application) == [b"heard", b"not heard"]
