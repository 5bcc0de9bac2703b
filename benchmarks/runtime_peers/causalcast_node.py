"""A causalcast node: vector clocks, nothing kept on disk, everybody linked with everybody."""

import asyncio
import ssl
from pathlib import Path

from member import Member, run_member

from causalcast import Node
from causalcast.runtime.node_config import NodeConfig

CONFIG = """
[node]
id = {me}
listen = "127.0.0.1:{port}"
[cluster]
peers = {{ {peers} }}
[protocol]
name = "vector_clock_broadcast"
spread = "direct"
[overlay]
kind = "full_mesh"
[groups]
bench = {receivers}
[storage]
path = "node-{me}"
durable = false
"""


class CausalcastNode(Member):
    """One node in memory."""

    async def open(self) -> None:
        work = self.work
        if work.tls:
            speak_tls(Path(work.tls))
        peers = ", ".join(f'{node} = "127.0.0.1:{work.ports[str(node)]}"' for node in work.members)
        text = CONFIG.format(
            me=work.me, port=work.ports[str(work.me)], peers=peers, receivers=work.receivers
        )
        self._node = Node(NodeConfig.parse(text, Path(work.folder)))
        await self._node.start()
        self._group = self._node.group("bench")
        if work.me in work.receivers:
            if work.iterate:
                self._reader = asyncio.ensure_future(self._iterate())
            else:
                take = self.tally.take
                self._group.on_message(lambda message: take(message.payload))
        while len(self._node.status()["links"]) < len(work.members) - 1:
            await asyncio.sleep(0.01)

    async def _iterate(self) -> None:
        async for message in self._group:
            if self.tally.take(message.payload):
                return

    async def publish(self, body: bytes) -> None:
        await self._group.publish(body)

    async def flush(self) -> None:
        """Publishing itself gives others their turn, as applications expect."""

    async def close(self) -> None:
        await self._node.stop()


def speak_tls(folder: Path) -> None:
    """Let the node's own connections use TLS 1.3 with a throw-away certificate."""
    loop = asyncio.get_running_loop()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    client = ssl.create_default_context(cafile=str(folder / "certificate.pem"))
    plain_server, plain_connection = loop.create_server, loop.create_connection
    loop.create_server = lambda *a, **k: plain_server(*a, ssl=server, **k)
    loop.create_connection = lambda *a, **k: plain_connection(*a, ssl=client, **k)


if __name__ == "__main__":
    run_member(CausalcastNode)
