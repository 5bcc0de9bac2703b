"""Nodes with doors for clients, and clients that say what they like."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from loopback_nodes import PATIENCE, Neighbourhood, free_ports
from websockets.asyncio.client import ClientConnection, connect

from causalcast import Node
from causalcast.errors import NodeError
from causalcast.limits import limits_of
from causalcast.runtime.node_config import NodeConfig

limits_of("clients")  # tests set some of them before there is a door


class Doors(Neighbourhood):
    """Nodes 1, 2, 3, …, each with a door."""

    def __init__(self, folder: Path, nodes: int, door: str = "", **others: Any) -> None:
        super().__init__(folder, nodes, **others)
        taken = {*self.ports.values()}  # by nodes that do not run yet
        ports = [port for port in free_ports(2 * nodes) if port not in taken]
        self.doors = dict(zip(self.ids, ports, strict=False))
        self.host = "127.0.0.1"
        self._door = door

    def config(self, node: int, **changes: str) -> NodeConfig:
        before = self._texts
        listen = f'[clients]\nlisten = "{self.host}:{self.doors[node]}"\n{self._door}'
        self._texts = (*before[:3], f"{before[3]}\n{listen}", *before[4:])
        try:
            return super().config(node, **changes)
        finally:
            self._texts = before

    def url(self, node: int) -> str:
        """Where the door of a node is."""
        return f"{'ws' if self.authority is None else 'wss'}://127.0.0.1:{self.doors[node]}"

    @asynccontextmanager
    async def plain(self, node: int, **hello: Any) -> AsyncIterator["PlainClient"]:
        """A client without any library of ours, welcomed."""
        async with self.dial(node) as client:
            welcome = await client.ask(do="hello", version=1, **hello)
            assert welcome["do"] == "welcome", welcome
            yield client

    @asynccontextmanager
    async def dial(self, node: int, **options: Any) -> AsyncIterator["PlainClient"]:
        """A client that has said nothing yet."""
        context = None
        if self.url(node).startswith("wss://"):
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        usual = {"proxy": None, "compression": None, "ssl": context, "max_size": None}
        async with connect(self.url(node), **usual | options) as socket:
            yield PlainClient(socket)

    async def refusal(self, node: int, **hello: Any) -> str:
        """Why a client that says this is let go: the code."""
        async with self.dial(node) as client:
            refused = await client.ask(do="hello", version=1, **hello)
            assert (refused["do"], refused.get("id")) == ("refusal", 0), refused
            await client.socket.wait_closed()
            assert client.socket.close_reason == refused["code"]
            code: str = refused["code"]
            return code


class PlainClient:
    """Says and hears JSON."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def say(self, **words: Any) -> None:
        """One text frame."""
        await self.socket.send(json.dumps(words))

    async def hear(self) -> dict[str, Any]:
        """The next text frame."""
        async with asyncio.timeout(PATIENCE):
            heard: dict[str, Any] = json.loads(await self.socket.recv())
        return heard

    async def ask(self, **words: Any) -> dict[str, Any]:
        """Say something, and hear the answer; deliveries between them are passed over."""
        await self.say(**words)
        while (heard := await self.hear())["do"] == "message":
            pass
        return heard


async def crash(node: Node) -> None:
    """Let a node end as if it had been killed, and its door with it."""
    node.host().fail(NodeError("killed by the test"), "a test")
    await node.stop()


def let_go(node: Node) -> dict[str, int]:
    """What was refused at the door of a node, and who was let go, by the reason."""
    found: dict[str, int] = node.status()["clients"]["let_go"]
    return found


def run(story: Coroutine[None, None, None]) -> None:
    """Tell a story, in a time that is enough on a busy machine."""

    async def in_time() -> None:
        async with asyncio.timeout(3 * PATIENCE):
            await story

    asyncio.run(in_time())
