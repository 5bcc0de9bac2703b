"""Members of a real cluster that die for good, are replaced, or are removed while they are well."""

import asyncio
import json
from pathlib import Path

import pytest
from loopback_nodes import Neighbourhood, take, until

from causalcast import Node
from causalcast.cli.main import main
from causalcast.errors import NodeError
from causalcast.judge import judge
from causalcast.runtime.operating.control import ControlServer
from causalcast.trace.gather import gather

GROUPS = "all = [1, 2, 3]"
MESH = 'kind = "full_mesh"'


def condition(node: Node, name: str) -> int:
    found: int = node.status()["conditions"][name]
    return found


class Cluster(Neighbourhood):
    """Nodes 1 to 3 found it; the files of all name node 4, which may come later."""

    def __init__(self, folder: Path, tls: bool = False) -> None:
        super().__init__(folder, 4, "viewed_broadcast", MESH, GROUPS, tls=tls)

    def node(self, node: int) -> Node:
        return Node(self.config(node, options="founders = 3"))


async def started(nodes: Neighbourhood, ids: list[int]) -> list[Node]:
    found = [nodes.node(number) for number in ids]
    for node in found:
        await node.start()
    return found


def test_a_dead_member_is_removed_and_another_comes_for_it(tmp_path: Path) -> None:
    async def run() -> None:
        nodes = Cluster(tmp_path)
        first, second, third = await started(nodes, [1, 2, 3])
        await until(lambda: all(len(node.status()["links"]) == 2 for node in (first, second)))
        await third.group("all").publish(b"last words")
        assert await take(first.group("all"), 1) == [b"last words"]
        await third.stop()
        receipt = await first.group("all").publish(b"who is there?")
        with pytest.raises(NodeError, match="is not stable after"):
            await receipt.stable(timeout=0.3)  # node 3 is a member, and does not have it
        shown = first.preview("gone 3")
        assert shown[0] == (
            "view 2 will be agreed on without node 3, by 2 of the 3 members of view 1"
        )
        first.command("gone 3")
        await until(lambda: condition(first, "view") == condition(second, "view") == 2)
        await receipt.stable(timeout=10)
        with pytest.raises(NodeError, match="node 3 is no member of view 2"):
            first.command("gone 3")

        fourth = nodes.node(4)
        await fourth.start()
        await until(lambda: condition(fourth, "view") == 3 == condition(second, "view"))
        joined = fourth.group("all")
        joined.join()
        await joined.publish(b"here I am")
        assert (await take(second.group("all"), 3))[-1] == b"here I am"
        await until(lambda: first.status()["kept_bytes"] == 0)

        late = nodes.node(3)  # its disk is as it was: it is told that it is out
        await late.start()
        await until(lambda: condition(late, "expelled") == 1)
        with pytest.raises(NodeError, match="agreed on view 3 without this node"):
            await late.group("all").publish(b"from nowhere")
        for node in (first, second, fourth, late):
            await node.stop()
        found = judge(gather([tmp_path], tmp_path / "run"))
        assert not any(found.violations.values())

    asyncio.run(run())


def test_a_member_that_is_well_is_removed_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def run() -> None:
        nodes = Cluster(tmp_path)
        first, second, third = await started(nodes, [1, 2, 3])
        await until(lambda: len(first.status()["links"]) == 2)
        server = ControlServer(first)
        await server.start()
        (tmp_path / "node-1").mkdir(exist_ok=True)
        (tmp_path / "node-1" / "control-1.sock").symlink_to(tmp_path / "control-1.sock")
        command = ["gone", "3", "--node", "1", "--dir", str(tmp_path)]
        assert await asyncio.to_thread(main, command) == 0
        shown = capsys.readouterr().out
        assert "node 3 is linked to this node now: it will be told that it is out" in shown
        assert "nothing has been done" in shown
        assert await asyncio.to_thread(main, [*command, "--yes", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["done"]
        await server.close()
        await until(lambda: condition(third, "expelled") == 1)
        with pytest.raises(NodeError, match="it cannot come back under this id"):
            await third.group("all").publish(b"from nowhere")
        await first.group("all").publish(b"we are two")
        assert await take(second.group("all"), 1) == [b"we are two"]
        await third.stop()
        again = nodes.node(3)  # a restart changes nothing
        await again.start()
        assert condition(again, "expelled") == 1
        for node in (first, second, again):
            await node.stop()

    asyncio.run(run())


def test_a_member_is_replaced_with_tls(tmp_path: Path) -> None:
    async def run() -> None:
        nodes = Cluster(tmp_path, tls=True)
        first, second, third = await started(nodes, [1, 2, 3])
        await until(lambda: len(first.status()["links"]) == 2)
        await third.stop()
        await first.group("all").publish(b"before")
        fourth = nodes.node(4)
        await fourth.start()
        await until(lambda: condition(fourth, "view") >= 2)
        first.command("replace 3 4")
        await until(lambda: condition(second, "members") == 3 and condition(second, "view") == 3)
        group = fourth.group("all")
        group.join()
        await first.group("all").publish(b"after")
        assert await take(group, 1) == [b"after"]
        for node in (first, second, fourth):
            await node.stop()

    asyncio.run(run())
