"""Where a new member has to be admitted, a real node is one from then on, and not before.

Nodes 1 to 4 stand in a line. 1 and 2 founded g, so 1 admits its new members. Node 4 is too far away
to know whether 1 is up.
"""

import asyncio
import json
from pathlib import Path

import pytest
from loopback_nodes import PATIENCE, Neighbourhood, take, until

from causalcast import Node
from causalcast.cli.main import main
from causalcast.errors import NodeError
from causalcast.runtime.operating.control import ControlServer
from causalcast.runtime.storage import durable_entry
from causalcast.runtime.storage.durable_entry import Step, in_full
from causalcast.runtime.storage.journal_frames import read_frames
from causalcast.trace.gather import gather


class Town(Neighbourhood):
    """Four nodes in a line."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, 4, "locamu", 'kind = "line"', "g = [1, 2]\nh = [3, 4]")

    async def without_the_first(self) -> list[Node]:
        """The other three, linked."""
        nodes = [self.node(number) for number in (2, 3, 4)]
        for node in nodes:
            await node.start()
        await until(lambda: all(len(node.status()["links"]) == 2 for node in nodes))
        return nodes

    def joins_in_journal(self, node: int) -> list[int]:
        """The groups that entries of the journal say were joined."""
        content = (self.folder / f"node-{node}/data/journal").read_bytes()
        entries = [durable_entry.decode(entry.data) for entry in read_frames(content).entries]
        return [g for entry in entries if isinstance(entry, Step) for g in in_full(entry.joined)]

    def rows(self, node: int, *kinds: str) -> list[tuple[str, int]]:
        """Kind and group of rows in the trace of a node."""
        run = gather([self.folder], self.folder / "run")
        rows = [row for row in run.events.to_pylist() if row["node"] == node]
        return [(row["kind"], row["group"]) for row in rows if row["kind"] in kinds]


def test_it_is_in_when_it_was_admitted(tmp_path: Path) -> None:
    town = Town(tmp_path)

    async def story() -> None:
        nodes = [town.node(number) for number in town.ids]
        for node in nodes:
            await node.start()
        one, two, _, four = nodes
        g = four.group("g")
        async with asyncio.timeout(PATIENCE), g:
            assert g.is_member() and four.status()["groups"] == ["h", "g"]
            assert four.status()["asked_for"] == []
            await g.publish(b"here")
            for node in (one, two, four):
                assert await take(node.group("g"), 1) == [b"here"]
        assert not g.is_member()
        assert g.join() and g.is_member() and not g.join()  # it was admitted before
        for node in nodes:
            await node.stop()

    asyncio.run(story())
    assert town.joins_in_journal(4) == [0, 0]
    assert town.rows(4, "join", "deliver") == [("join", 0), ("deliver", 0), ("join", 0)]


def test_a_join_stays_open_while_nobody_can_admit_and_holds_nothing_up(tmp_path: Path) -> None:
    town = Town(tmp_path)

    async def story() -> None:
        two, three, four = await town.without_the_first()
        g = four.group("g")
        assert g.join() and not g.is_member() and not g.join()
        assert (four.status()["groups"], four.status()["asked_for"]) == (["h"], ["g"])
        await four.group("h").publish(b"to another group")
        await g.publish(b"to the group that it joins")
        assert await take(three.group("h"), 1) == [b"to another group"]
        assert await take(two.group("g"), 1) == [b"to the group that it joins"]
        await four.stop()
        assert town.joins_in_journal(4) == []
        four = town.node(4)
        await four.start()
        assert four.status()["asked_for"] == ["g"]  # over the restart
        one = town.node(1)
        await one.start()
        async with asyncio.timeout(PATIENCE), four.group("g"):
            await one.group("g").publish(b"welcome")
            assert await take(four.group("g"), 1) == [b"welcome"]
        assert four.status()["groups"] == ["h", "g"]  # the context had not asked for it
        for node in (one, two, three, four):
            await node.stop()

    asyncio.run(story())
    assert town.joins_in_journal(4) == [0]
    assert town.rows(4, "publish", "join") == [("publish", 1), ("publish", 0), ("join", 0)]


def test_who_waits_no_longer_does_not_join(tmp_path: Path) -> None:
    town = Town(tmp_path)

    async def story() -> None:
        two, three, four = await town.without_the_first()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05), four.group("g"):
                raise AssertionError("nobody can have admitted it")
        assert four.status()["asked_for"] == []

        waiting = asyncio.create_task(four.group("g").__aenter__())
        await until(lambda: four.status()["asked_for"] == ["g"])
        assert four.group("g").leave() and not four.group("g").leave()
        with pytest.raises(NodeError, match="the join of 'g' came to nothing: it was withdrawn"):
            await waiting

        waiting = asyncio.create_task(four.group("g").__aenter__())
        await until(lambda: four.status()["asked_for"] == ["g"])
        await until(lambda: two.status()["conditions"]["suspected"] == 1)
        two.command("gone 1")  # node 4 is within three hops of it, and hears of it
        with pytest.raises(NodeError, match=r"came to nothing: node 1, which admits .* gone"):
            await waiting
        assert four.status()["asked_for"] == []

        for node in (two, three, four):
            await node.stop()

    asyncio.run(story())
    assert town.joins_in_journal(4) == []
    assert town.rows(4, "join", "leave") == [("leave", None)]


def test_the_command_says_whether_it_is_in_or_has_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    town = Town(tmp_path)

    async def story() -> None:
        nodes = await town.without_the_first()
        four = nodes[-1]
        server = ControlServer(four)
        await server.start()
        (tmp_path / "node-4" / "control-4.sock").symlink_to(tmp_path / "control-4.sock")

        async def said(*words: str) -> str:
            command = ["group", *words, "g", "--node", "4", "--dir", str(tmp_path)]
            assert await asyncio.to_thread(main, command) == 0
            return capsys.readouterr().out

        assert (await said("join")).startswith("node 4 has asked to join 'g', and waits")
        assert (await said("join")).startswith("node 4 has asked to join 'g' before, and waits")
        assert json.loads(await said("join", "--json")) == {"changed": False, "member": False}
        nodes.append(town.node(1))
        await nodes[-1].start()
        await until(four.group("g").is_member)
        assert await said("join") == "node 4 is in 'g' already\n"
        assert await said("leave") == "node 4 is not in 'g'\n"
        assert await said("join") == "node 4 is in 'g'\n"
        await server.close()
        for node in nodes:
            await node.stop()

    asyncio.run(story())


def test_a_step_may_bring_several_admissions(tmp_path: Path) -> None:
    """Of one read of a link: what was joined then is one entry, and known after a restart."""
    groups = "g = [1]\nh = [1]\nall = [1, 2]"
    town = Neighbourhood(tmp_path, 2, "locamu", 'kind = "line"', groups)

    async def story() -> None:
        two = town.node(2)
        await two.start()
        host = two._running()
        host.parts.steps.start()
        host.out.joined(host.blueprint.groups.id_of("g"))
        host.out.joined(host.blueprint.groups.id_of("h"))
        host.parts.steps.settle()
        await two.stop()
        two = town.node(2)
        await two.start()
        assert two.status()["groups"] == ["all", "g", "h"]
        await two.stop()

    asyncio.run(story())
