"""Members of a real cluster that no file lists: they come through one contact, and stay."""

import asyncio
from pathlib import Path

from loopback_nodes import free_ports, links, take, until

from causalcast import Node
from causalcast.judge import judge
from causalcast.runtime.host.earlier_life import EarlierLife
from causalcast.runtime.host.remembered_addresses import FILE
from causalcast.runtime.host.wire import Wire
from causalcast.runtime.machine import Machine
from causalcast.runtime.node_config import NodeConfig
from causalcast.runtime.security.authority import Authority
from causalcast.trace.gather import gather


class OpenCluster:
    """Node 1 founds it; each later one knows the address of node 1, and no other."""

    def __init__(self, folder: Path, tls: bool = False) -> None:
        self.folder = folder
        self.ports = dict(zip(range(1, 9), free_ports(8), strict=True))
        self.authority = Authority.found(folder / "authority", "test") if tls else None

    def node(self, node: int) -> Node:
        folder = self.folder / f"node-{node}"
        security = "tls = false"
        if self.authority is not None:
            if not (folder / "identity").exists():
                self.authority.make_identity(folder / "identity", node)
            security = f'identity = "node-{node}/identity"'
        contact = f'contact = "127.0.0.1:{self.ports[1]}"' if node != 1 else ""
        text = f"""
            [node]
            id = {node}
            listen = "127.0.0.1:{self.ports[node]}"
            [cluster]
            name = "test"
            {contact}
            [protocol]
            name = "viewed_broadcast"
            [overlay]
            kind = "open_mesh"
            [groups]
            all = "*"
            [storage]
            path = "node-{node}/data"
            [trace]
            path = "node-{node}/trace"
            level = "full"
            [security]
            {security}
            """
        return Node(NodeConfig.parse(text, self.folder))


def members(node: Node) -> int:
    found: int = node.status()["conditions"]["members"]
    return found


def is_let_in(node: Node) -> bool:
    return bool(node.status()["takes_part"]) and "all" in node.status()["groups"]


async def three_that_met(cluster: OpenCluster) -> dict[int, Node]:
    """Linked with one another, members, and one has published."""
    nodes = {number: cluster.node(number) for number in (1, 2, 3)}
    for node in nodes.values():
        await node.start()
    await until(lambda: all(is_let_in(node) for node in nodes.values()))
    await until(lambda: all(len(links(node)) == 2 for node in nodes.values()))
    await nodes[3].group("all").publish(b"from a node that no file lists")
    assert await take(nodes[2].group("all"), 1) == [b"from a node that no file lists"]
    return nodes


def test_nodes_come_through_a_contact_with_tls(tmp_path: Path) -> None:
    async def run() -> None:
        for node in (await three_that_met(OpenCluster(tmp_path, tls=True))).values():
            await node.stop()

    asyncio.run(run())


def test_nodes_go_on_without_the_contact_they_came_through(tmp_path: Path) -> None:
    async def run() -> None:
        cluster = OpenCluster(tmp_path)
        nodes = await three_that_met(cluster)
        for number in (2, 3):
            path = tmp_path / f"node-{number}" / "data" / FILE
            await until(lambda path=path: path.exists() and path.read_text().count(":") == 4)

        await nodes.pop(1).stop()  # the contact of everybody
        nodes[2].command("gone 1")
        await until(lambda: all(members(node) == 2 for node in nodes.values()))
        for node in nodes.values():
            await node.stop()
        nodes = {number: cluster.node(number) for number in (2, 3)}
        for node in nodes.values():
            await node.start()
        await until(lambda: all(links(node) for node in nodes.values()))
        await nodes[2].group("all").publish(b"we found one another again")
        wanted = [b"from a node that no file lists", b"we found one another again"]
        assert (await take(nodes[3].group("all"), 2)) == wanted
        nodes[1] = cluster.node(1)  # nobody dials it any more, and it is told all the same
        await nodes[1].start()
        await until(lambda: nodes[1].status()["conditions"]["expelled"] == 1)
        for node in nodes.values():
            await node.stop()
        found = judge(gather([tmp_path], tmp_path / "run"))
        assert not any(found.violations.values())

    asyncio.run(run())


def test_who_was_killed_in_its_first_step_still_asks_to_be_let_in(tmp_path: Path) -> None:
    """Its journal says that it lived, and nothing else: it must not found a cluster of its own."""

    async def run() -> None:
        cluster = OpenCluster(tmp_path)
        first = cluster.node(1)
        await first.start()
        config = cluster.node(2).config
        life = EarlierLife(config, config.blueprint, Wire(config).codec.digest, Machine())
        life.write_start()
        life.storage.close()
        second = cluster.node(2)
        await second.start()
        await until(lambda: is_let_in(second) and members(second) == members(first) == 2)
        for node in (first, second):
            await node.stop()

    asyncio.run(run())
