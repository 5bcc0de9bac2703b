"""A node of a real cluster never comes back: what is told, what is lost, how the others go on."""

import asyncio
import json
from pathlib import Path

import pytest
from loopback_nodes import Neighbourhood, take, until

from causalcast import Node
from causalcast.cli.main import main
from causalcast.errors import NodeError
from causalcast.runtime.observing.events import Event
from causalcast.runtime.operating.control import ControlServer

LINE = 'kind = "edges"\nedges = [[1, 2], [2, 3], [3, 4]]'


def condition(node: Node, name: str) -> int:
    found: int = node.status()["conditions"][name]
    return found


async def listen(node: Node, into: list[Event]) -> None:
    async for event in node.events():
        into.append(event)


def test_too_many_down_is_an_event_and_a_metric(tmp_path: Path) -> None:
    async def run() -> None:
        nodes = Neighbourhood(tmp_path, 4, "locamu", LINE)
        first, second, third, fourth = (nodes.node(number) for number in nodes.ids)
        for node in (first, second, third, fourth):
            await node.start()
        heard: list[Event] = []
        listening = asyncio.create_task(listen(first, heard))
        await until(lambda: len(first.status()["links"]) == 2)
        assert condition(first, "within_fault_budget") == 1
        await second.stop()
        await third.stop()
        await until(lambda: condition(first, "within_fault_budget") == 0)
        assert 'causalcast_protocol_within_fault_budget{node="1"} 0' in first.metrics()
        again = nodes.node(3)
        await again.start()
        await until(lambda: condition(first, "within_fault_budget") == 1)
        await until(lambda: len(heard) == 2)
        assert [event.name for event in heard] == ["locamu.too_many_down", "locamu.within_budget"]
        assert heard[0].meaning.startswith("more nodes near here are suspected")
        for node in (first, again, fourth):
            await node.stop()
        with pytest.raises(NodeError):
            await listening

    asyncio.run(run())


def test_the_others_go_on_without_a_node_that_is_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def run() -> None:
        groups = 'all = "*"\nhers = [2, 3]'  # node 2 admits who joins
        nodes = Neighbourhood(tmp_path, 4, "locamu", LINE, groups)
        first, second, third, fourth = (nodes.node(number) for number in nodes.ids)
        for node in (first, second, third, fourth):
            await node.start()
        await until(lambda: 2 in first.status()["links"] and 3 in first.status()["links"])
        with pytest.raises(NodeError, match="linked to this node now; stop it first"):
            first.command("gone 2")
        with pytest.raises(NodeError, match="this cluster has no node 9"):
            first.command("gone 9")
        await second.stop()
        await until(lambda: condition(first, "suspected") == 1 == condition(third, "suspected"))
        await first.group("all").publish(b"past node 2")
        assert await take(fourth.group("all"), 1) == [b"past node 2"]
        shown = first.preview("gone 2")
        assert shown[0] == "node 2 will not deliver 1.1, which is kept for it here"
        assert condition(first, "kept") == 1  # for node 2

        server = ControlServer(first)
        await server.start()
        (tmp_path / "node-1").mkdir(exist_ok=True)
        (tmp_path / "node-1" / "control-1.sock").symlink_to(tmp_path / "control-1.sock")
        command = ["gone", "2", "--node", "1", "--dir", str(tmp_path)]
        assert await asyncio.to_thread(main, command) == 0
        assert "nothing has been done" in capsys.readouterr().out
        assert condition(third, "gone") == 0
        assert await asyncio.to_thread(main, [*command, "--yes", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["losses"] == shown
        status = ["status", "--prometheus", "--node", "1", "--dir", str(tmp_path)]
        assert await asyncio.to_thread(main, status) == 0
        assert 'causalcast_protocol_gone{node="1"} 1' in capsys.readouterr().out
        await server.close()

        rest = (first, third, fourth)
        await until(lambda: all(condition(node, "gone") == 1 for node in rest))
        await until(lambda: all(condition(node, "kept") == 0 for node in rest))
        with pytest.raises(NodeError, match="cannot join 'hers' now: node 2, which admits"):
            first.group("hers").join()
        await third.stop()
        await until(lambda: 3 not in first.status()["links"])
        with pytest.raises(NodeError, match="more than 1 of 3 nodes in a row would be gone"):
            first.command("gone 3")
        third = nodes.node(3)
        await third.start()  # knows from its disk that node 2 is gone
        assert condition(third, "gone") == 1

        late = nodes.node(2)  # comes back although it was given up: nobody listens to it
        await late.start()
        await until(lambda: condition(late, "declared_gone") == 1)
        await late.group("all").publish(b"from nowhere")
        await third.group("all").publish(b"the end")
        # Its own past node 2 was handled in an earlier life, or comes first.
        assert (await take(fourth.group("all"), 1)) == [b"the end"]
        for node in (first, third, fourth, late):
            await node.stop()

    asyncio.run(run())
