"""A node stops in good order, whatever its application does meanwhile."""

import asyncio
import contextlib
import os
from pathlib import Path

import pytest
from loopback_nodes import PATIENCE, Neighbourhood, links, until

from causalcast import Node
from causalcast.core.ids import ANY_LINK, NodeId
from causalcast.errors import NodeError
from causalcast.trace.node_log import read_log


async def publish_for_ever(node: Node, acknowledged: list[bytes], name: str) -> None:
    """As an application does that nobody told of the end."""
    count = 0
    while True:
        count += 1
        body = f"{name}.{count}".encode()
        await node.group("all").publish(body)
        acknowledged.append(body)


@pytest.mark.parametrize("protocol", ["vector_clock_broadcast", "cbcast"])
def test_stop_returns_while_the_application_goes_on_publishing(
    tmp_path: Path, protocol: str
) -> None:
    town = Neighbourhood(tmp_path, 2, protocol)

    async def story() -> None:
        acknowledged: list[bytes] = []
        async with town.node(2) as two:
            one = town.node(1)
            await one.start()
            await until(lambda: links(one) == [2])
            async with asyncio.TaskGroup() as tasks:
                busy = [
                    tasks.create_task(_until_refused(one, acknowledged, name)) for name in "abc"
                ]
                await until(lambda: len(acknowledged) > 50)
                async with asyncio.timeout(PATIENCE):
                    await one.stop()
            assert all(task.done() for task in busy)
            published = len(acknowledged)
            async with town.node(1):  # nothing that was acknowledged is lost
                await until(lambda: two.status()["delivered"].get("all", 0) >= published)

    asyncio.run(story())


async def _until_refused(node: Node, acknowledged: list[bytes], name: str) -> None:
    with pytest.raises(NodeError, match=r"about to stop|was stopped"):
        await publish_for_ever(node, acknowledged, name)


def test_publishers_that_wait_for_room_hear_that_the_node_stops(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 2)

    async def story() -> None:
        one = town.node(1)
        await one.start()
        host = one._running()
        host.parts.pressure._held_bytes = -1  # there is never room
        waiting = asyncio.ensure_future(one.group("all").publish(b"x"))
        await until(lambda: host.parts.pressure._waiting == 1)
        async with asyncio.timeout(PATIENCE):
            await one.stop()
            with pytest.raises(NodeError, match="stop"):
                await waiting

    asyncio.run(story())


def test_a_send_while_links_close_is_no_bug(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 2)

    async def story() -> None:
        async with town.node(1) as one:
            tcp = one._running().links
            await tcp.close()
            assert tcp.send(NodeId(2), b"too late", ANY_LINK) is False
            assert one.status()["trouble"] == {"send_while_closing": 1}

    asyncio.run(story())


def test_what_is_stopped_twice_closes_its_files_once(tmp_path: Path) -> None:
    """A number that was closed may be another file by then, of anybody in the process."""
    town = Neighbourhood(tmp_path, 2)

    async def story() -> None:
        one = town.node(1)
        await one.start()
        host = one._running()
        close = host.links.close

        async def close_and_fail() -> None:
            await close()
            host.fail(RuntimeError("a bug"), "a step while links close")
            taken.extend(os.open(os.devnull, os.O_RDONLY) for _ in range(20))

        taken: list[int] = []
        host.links.close = close_and_fail  # type: ignore[method-assign]
        await asyncio.gather(host.stop(), host.stop())
        for fd in taken:
            os.close(fd)  # still open, or this raises
        with contextlib.suppress(NodeError):
            await one.stop()

    asyncio.run(story())


@pytest.mark.parametrize("protocol", ["vector_clock_broadcast", "locamu"])
def test_nothing_happens_behind_the_last_row(tmp_path: Path, protocol: str) -> None:
    """A trace that ends with another row than the farewell is that of a node that crashed."""
    town = Neighbourhood(tmp_path, 2, protocol)

    async def story() -> None:
        async with town.node(2) as two:
            one = town.node(1)
            await one.start()
            await until(lambda: links(one) == [2])
            host = one._running()
            close = host.links.close

            async def close_slowly() -> None:
                """As over a network that loses packets."""
                for number in range(20):
                    await two.group("all").publish(b"%d" % number)
                    await asyncio.sleep(0.01)
                await close()

            host.links.close = close_slowly  # type: ignore[method-assign]
            await one.stop()

    asyncio.run(story())
    (log,) = tmp_path.rglob("node-1.nodelog")
    assert read_log(log).ended_well()
