"""A causalcast node: vector clocks, nothing kept on disk, everybody linked with everybody."""

import asyncio
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
hand_over = {hand_over}
[overlay]
kind = "full_mesh"
[groups]
bench = {receivers}
[storage]
path = "node-{me}"
durable = false
[security]
{security}
"""


class CausalcastNode(Member):
    """One node in memory."""

    async def open(self) -> None:
        work = self.work
        peers = ", ".join(f'{node} = "127.0.0.1:{work.ports[str(node)]}"' for node in work.members)
        security = f'identity = "{work.tls}/node-{work.me}"' if work.tls else "tls = false"
        text = CONFIG.format(
            me=work.me,
            port=work.ports[str(work.me)],
            peers=peers,
            receivers=work.receivers,
            security=security,
            hand_over="true" if work.hand_over else "false",
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


if __name__ == "__main__":
    run_member(CausalcastNode)
