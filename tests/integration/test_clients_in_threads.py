"""Clients of programs without asyncio: many threads, one connection, nothing lost by giving up."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from door_nodes import Doors
from loopback_nodes import PATIENCE

from causalcast import SyncRemoteNode, connect_sync
from causalcast.clients.connect_sync import _Taking
from causalcast.clients.remote_group import Line
from causalcast.errors import ConfigError, NodeError


class NodeInAThread:
    """A node with a door, while this is entered."""

    def __init__(self, folder: Path) -> None:
        self.doors = Doors(folder, 1, groups='all = "*"\nother = "*"')
        self._ready, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()))

    async def _live(self) -> None:
        async with self.doors.running():
            self._ready.set()
            await asyncio.to_thread(self._over.wait)

    def __enter__(self) -> str:
        self._thread.start()
        assert self._ready.wait(PATIENCE)
        return self.doors.url(1)

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def test_threads_share_a_connection_and_go_on_in_another_life(tmp_path: Path) -> None:
    with NodeInAThread(tmp_path) as url:
        with connect_sync(url, name="a") as node, node.group("all") as group:
            with ThreadPoolExecutor(8) as pool:
                receipts = list(pool.map(lambda n: group.publish(b"%d" % n), range(40)))
            assert len({receipt.id for receipt in receipts}) == 40
            got = [message for message, _ in zip(group.messages(PATIENCE), range(30), strict=False)]
            group.ack_many(got)
            position = node.position()
            assert node.groups()["publish"] == ["all", "other"]
            assert node.presence()["node"] == 1
        with connect_sync(url, position=position) as node, node.group("all") as group:
            rest = group.receive_many(100, PATIENCE)
            while len(rest) < 10:
                rest += group.receive_many(100, PATIENCE)
            numbers = sorted(message.number for message in [*got, *rest])
            assert numbers == list(range(1, 41))
            rest[0].ack()
            assert group.receive(0) is None


def test_groups_are_read_together(tmp_path: Path) -> None:
    with (
        NodeInAThread(tmp_path) as url,
        connect_sync(url) as node,
        node.together("all", "other") as both,
    ):
        for number in range(6):
            node.group(("all", "other")[number % 2]).publish(b"%d" % number)
        heard = [both.receive(PATIENCE) for _ in range(6)]
        assert [one and one.payload for one in heard] == [b"%d" % n for n in range(6)]
        with pytest.raises(NodeError, match="publish to one group"):
            both.publish(b"where?")


def test_what_came_when_nobody_waited_any_more_comes_next(tmp_path: Path) -> None:
    async def tell() -> None:
        line = Line("'all'")
        messages = ["first", "second"]
        for message in messages:
            line.add(message)  # type: ignore[arg-type]
        taking = _Taking(line)
        assert taking.give_up() == []
        await taking.take(1, None)
        assert await line.receive_many(2, 0) == messages  # in their order

    asyncio.run(tell())


def test_what_cannot_be_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="wss://host:7500"):
        connect_sync("http://localhost")
    node: SyncRemoteNode = connect_sync("ws://127.0.0.1:9")
    with pytest.raises(NodeError, match="not connected"):
        node.groups()
