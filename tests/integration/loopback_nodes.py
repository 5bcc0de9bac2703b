"""Real nodes on loopback for tests, in this process, and a small checker of what they delivered."""

import asyncio
import contextlib
import random
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from causalcast import Node
from causalcast.runtime.node import Group
from causalcast.runtime.node_config import NodeConfig
from causalcast.runtime.security.authority import Authority
from causalcast.trace.run_folder import Run

PATIENCE = 20.0  # seconds; everything here takes milliseconds unless something is wrong


# Below those that local clusters take, and those that the kernel gives to outgoing connections:
# tests run side by side, and nobody takes the port of a node that is down for a moment.
PORTS = range(10_000, 20_000)
_chance = random.Random()  # of its own: a test that sows `random` must not draw what others drew


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses now."""
    found: list[int] = []
    with contextlib.ExitStack() as opened:
        for port in _chance.sample(PORTS, len(PORTS)):
            if len(found) == count:
                break
            with contextlib.suppress(OSError):
                opened.enter_context(socket.socket()).bind(("127.0.0.1", port))
                found.append(port)
    return found


class Neighbourhood:
    """The TOML files of nodes 1, 2, 3, … in one folder, and the nodes made from them."""

    def __init__(
        self,
        folder: Path,
        nodes: int,
        protocol: str = "vector_clock_broadcast",
        overlay: str = 'kind = "full_mesh"',
        groups: str = 'all = "*"',
        more: str = "",
        transport: str = "tcp",
        storage: str = "",
        level: str = "full",
        tls: bool = False,  # most stories are not about it, and plaintext is quicker
    ) -> None:
        self.folder = folder
        self.authority = Authority.found(folder / "authority", "test") if tls else None
        self.ids = list(range(1, nodes + 1))
        self.ports = dict(zip(self.ids, free_ports(nodes), strict=True))
        self.transport = transport
        self._texts = (protocol, overlay, groups, more, storage, level)
        for node in self.ids:
            if self.authority is not None:
                self.authority.make_identity(self.identity(node), node)

    def identity(self, node: int) -> Path:
        """The folder of a node's identity, with TLS."""
        return self.folder / f"node-{node}" / "identity"

    def _security(self, node: int) -> str:
        if self.authority is None:
            return "tls = false"
        authority = 'authority = "authority"' if node == self.ids[0] else ""
        return f'identity = "node-{node}/identity"\n{authority}'

    def config(self, node: int, **changes: str) -> NodeConfig:
        """The configuration of a node; some of it can be changed for one node."""
        protocol, overlay, groups, more, storage, level = self._texts
        peers = ", ".join(f'{peer} = "127.0.0.1:{port}"' for peer, port in self.ports.items())
        return NodeConfig.parse(
            f"""
            [node]
            id = {node}
            listen = "127.0.0.1:{self.ports[node]}"
            transport = "{self.transport}"
            [cluster]
            name = "{changes.get("cluster", "test")}"
            peers = {{ {peers} }}
            [protocol]
            name = "{protocol}"
            {changes.get("options", "")}
            [overlay]
            {overlay}
            [groups]
            {groups}
            [storage]
            path = "node-{node}/data"
            {changes.get("storage", storage)}
            [trace]
            path = "node-{node}/trace"
            level = "{level}"
            [security]
            {self._security(node)}
            {more}
            """,
            self.folder,
        )

    def node(self, node: int) -> Node:
        """A new node, not started."""
        return Node(self.config(node))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[list[Node]]:
        """All nodes, linked as the overlay says."""
        nodes = [self.node(number) for number in self.ids]
        for node in nodes:
            await node.start()
        try:
            graph = nodes[0].config.blueprint.topology.neighbours
            await until(lambda: all(len(links(node)) >= len(graph[node.id]) for node in nodes))
            yield nodes
        finally:
            for node in nodes:
                await node.stop()


def links(node: Node) -> list[int]:
    """Who is linked to a node now."""
    found: list[int] = node.status()["links"]
    return found


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.005)


async def take(group: Group, count: int, ack: bool = True) -> list[bytes]:
    """The next payloads of a group."""
    payloads: list[bytes] = []
    async with asyncio.timeout(PATIENCE):
        while len(payloads) < count:
            message = await anext(group)
            payloads.append(message.payload)
            if ack:
                await message.ack()
    return payloads


def disorder(run: Run) -> list[str]:
    """What is wrong with the deliveries of a run: doubled, missing, or before their causes.

    Plain and slow: the causes of a publication are all that its origin had published or delivered
    before, and their causes. A node must have delivered those of its own groups before it.
    """
    members: dict[int, set[int]] = {}
    for member in run.members.to_pylist():
        members.setdefault(member["group"], set()).add(member["node"])
    rows = run.events.to_pylist()
    group_of = {row["message"]: row["group"] for row in rows if row["kind"] == "publish"}
    direct: dict[int, set[int]] = {}
    so_far: dict[int, set[int]] = {}
    delivered: dict[int, list[int]] = {}
    for row in rows:
        seen = so_far.setdefault(row["node"], set())
        if row["kind"] == "publish":
            direct[row["message"]] = set(seen)
        if row["kind"] == "deliver":
            delivered.setdefault(row["node"], []).append(row["message"])
        if row["kind"] in ("publish", "deliver"):
            seen.add(row["message"])
    causes = _closure(direct)
    wrong = []
    for node, messages in delivered.items():
        due = {m for m, group in group_of.items() if node in members.get(group, ())}
        if len(set(messages)) != len(messages):
            wrong.append(f"node {node} delivered something twice")
        if set(messages) != due:
            wrong.append(f"node {node} misses {due - set(messages)}, has {set(messages) - due}")
        before: set[int] = set()
        for message in messages:
            late = (causes[message] & due) - before
            if late:
                wrong.append(f"node {node} delivered {message} before its causes {late}")
            before.add(message)
    return wrong


def _closure(direct: dict[int, set[int]]) -> dict[int, set[int]]:
    causes = {message: set(before) for message, before in direct.items()}
    changed = True
    while changed:
        changed = False
        for before in causes.values():
            wider = before.union(*(causes[cause] for cause in before))
            if len(wider) > len(before):
                before |= wider
                changed = True
    return causes
