"""A network that can be cut: every node advertises a proxy, and the proxies know who dials whom."""

import asyncio
import contextlib
from collections.abc import Collection

from causalcast.runtime.links.greeting import read_greeting
from causalcast.wire.framing import LENGTH_BYTES, frame


class CutProxies:
    """One proxy before each node. A cut breaks the connections between two sides and refuses
    new ones until it is healed."""

    def __init__(self) -> None:
        self.refused = 0
        self._sides: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
        self._servers: list[asyncio.Server] = []
        self._pipes: dict[asyncio.StreamWriter, tuple[int, int]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def before(self, node: int, port: int) -> int:
        """Open a proxy for `node`, which listens at `port`; returns the proxy's own port."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await self._pass_on(node, port, reader, writer)
            writer.close()
            self._tasks.discard(task)

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self._servers.append(server)
        own: int = server.sockets[0].getsockname()[1]
        return own

    def cut(self, left: Collection[int], right: Collection[int]) -> int:
        """Let nothing pass between the two sides; how many connections broke."""
        self._sides = (frozenset(left), frozenset(right))
        broken = [pipe for pipe, ends in self._pipes.items() if self._is_cut(*ends)]
        for pipe in broken:
            pipe.transport.abort()
        return len(broken)

    def heal(self) -> None:
        """Let everything pass again."""
        self._sides = (frozenset(), frozenset())

    async def close(self) -> None:
        """End all connections."""
        for server in self._servers:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _is_cut(self, one: int, other: int) -> bool:
        left, right = self._sides
        return (one in left and other in right) or (one in right and other in left)

    async def _pass_on(
        self, node: int, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        length = int.from_bytes(await reader.readexactly(LENGTH_BYTES))
        greeting = await reader.readexactly(length)
        dialler = read_greeting(greeting).node
        if self._is_cut(dialler, node):
            self.refused += 1
            return
        from_node, to_node = await asyncio.open_connection("127.0.0.1", port)
        to_node.write(frame(greeting))
        self._pipes[writer] = (dialler, node)
        try:
            back = asyncio.create_task(_copy(from_node, writer))
            await _copy(reader, to_node)
            await back
        finally:
            del self._pipes[writer]
            to_node.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
