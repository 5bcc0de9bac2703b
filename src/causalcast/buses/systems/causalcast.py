"""Our own protocols: each process holds a node that is linked with the others."""

import asyncio
from pathlib import Path
from typing import Any

from causalcast.buses.ports import free_ports
from causalcast.buses.system import Client, Handler, Servers, System
from causalcast.recording.recorder import HEADER
from causalcast.version import VERSION, build_kind

TOPICS = ("access", "posts")
TWO_GROUPS = "vector_clock_broadcast, a group per topic"
ONE_GROUP = "all"
CONFIG = """
[node]
id = {me}
listen = "127.0.0.1:{port}"
[cluster]
peers = {{ {peers} }}
[protocol]
name = "{protocol}"
[overlay]
kind = "{overlay}"
[groups]
{groups}
[storage]
path = "node-{me}"
durable = false
[security]
tls = false
"""


def lacking() -> str | None:
    """Nothing: it is here."""
    return None


def version() -> str:
    """Ours."""
    return f"causalcast {VERSION}, {build_kind()}"


class CausalcastServers(Servers):
    """Only ports: the processes are the nodes. The first and the last may be far apart."""

    def start(self) -> list[dict[str, Any]]:
        ports = free_ports(self.processes)
        seen = [list(ports) for _ in ports]
        if self.slow_route:  # whoever dials the other
            seen[0][-1] = self.through_slow_link(ports[-1])
            seen[-1][0] = self.through_slow_link(ports[0])
        return [
            {"ports": seen[me], "listen": ports[me], "folder": str(self.folder)}
            for me in range(self.processes)
        ]


class CausalcastClient(Client):
    """A node in memory. There are no headers here: id and topic stand before the payload."""

    topics = TOPICS

    async def open(self, handle: Handler) -> None:
        from causalcast import Node
        from causalcast.runtime.node_config import NodeConfig

        self._one_step = asyncio.Lock()
        self._node = Node(NodeConfig.parse(self._config(), Path(self.task.reach["folder"])))
        await self._node.start()
        self._groups = {topic: self._node.group(self._group_of(topic)) for topic in TOPICS}
        for topic in TOPICS:
            self.recorder.subscribed(topic)
        for name in dict.fromkeys(map(self._group_of, TOPICS)):
            self._node.group(name).on_message(self._receiver(handle))
        neighbours = 1 if self.task.setup == "locamu" and self.task.me else self.task.processes - 1
        while len(self._node.status()["links"]) < neighbours:
            await asyncio.sleep(0.01)

    def _group_of(self, topic: str) -> str:
        return topic if self.task.setup == TWO_GROUPS else ONE_GROUP

    def _config(self) -> str:
        reach = self.task.reach
        members = list(range(self.task.processes))
        names = dict.fromkeys(map(self._group_of, TOPICS))
        return CONFIG.format(
            me=self.task.me,
            port=reach["listen"],
            peers=", ".join(f'{n} = "127.0.0.1:{port}"' for n, port in enumerate(reach["ports"])),
            protocol=self.task.setup.partition(",")[0],
            overlay="star" if self.task.setup == "locamu" else "full_mesh",
            groups="\n".join(f"{name} = {members}" for name in names),
        )

    def _receiver(self, handle: Handler) -> Any:
        async def receive(message: Any) -> None:
            text, topic, _ = bytes(message.payload).split(b"\n", 2)
            with self.recorder.handling({HEADER: text}, topic.decode()):
                await handle(topic.decode())

        return receive

    async def publish(self, topic: str, payload: bytes) -> None:
        async with self._one_step:  # it may have to wait, and is to wait in the order of the log
            sent = self.recorder.publish(topic)
            body = b"\n".join((sent.id.encode(), topic.encode(), payload))
            await self._groups[topic].publish(body)

    async def close(self) -> None:
        await self._node.stop()


SYSTEM = System(
    name="causalcast",
    setups={
        "naive_flood": "one group of everybody; every message is handed on, no order is kept",
        TWO_GROUPS: "a callback per group: each hands over what is in its own group",
        "locamu": "one group on a star of links, causal order from the past of a few hops",
        "cbcast": "one group on a mesh, a vector clock per view",
        "vector_clock_broadcast": "one group on a mesh, a vector clock per message",
    },
    servers=CausalcastServers,
    client=CausalcastClient,
    lacking=lacking,
    version=version,
    settings="one node in each process, in memory, without TLS",
    order="causal within a node's deliveries, but for naive_flood",
)
