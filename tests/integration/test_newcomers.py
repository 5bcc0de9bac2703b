"""State for newcomers, and questions to neighbours: real nodes, TLS, threads."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from loopback_nodes import PATIENCE, Neighbourhood, links, until

from causalcast import Node, SyncNode
from causalcast.core.ids import NodeId
from causalcast.errors import NodeError
from causalcast.runtime.host.asking import Asked

GROUPS = 'all = "*"\ndoc = [1]\n"doc/*" = [1]'
OFTEN = "[limits]\ncompact_bytes = 1"


class Document:
    """All that was handled; each line names its message."""

    def __init__(self, filling: str = "") -> None:
        self.lines: list[str] = []
        self.taken: list[int] = []
        self.filling = filling

    def save(self) -> bytes:
        return json.dumps([self.lines, self.filling]).encode()

    async def restore(self, state: bytes) -> None:
        self.lines, self.filling = json.loads(state)
        self.taken.append(len(self.lines))

    @contextlib.asynccontextmanager
    async def lives(self, node: Node, group: str = "doc") -> AsyncIterator[None]:
        ready = asyncio.Event()

        async def live() -> None:
            handle = node.group(group, snapshot=self.save, restore=self.restore)
            async with handle as doc:
                ready.set()
                async for message in doc:
                    self.lines.append(f"{message.origin}.{message.number}")
                    await asyncio.sleep(0.001)
                    await message.ack(durable=True)

        task = asyncio.create_task(live())
        try:
            waiting = asyncio.create_task(ready.wait())
            await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if task.done():
                task.result()
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, NodeError):
                await task


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("more", ["", OFTEN])
def test_state_and_stream_are_all_of_it_once(tmp_path: Path, tls: bool, more: str) -> None:
    """Two newcomers while everybody publishes; one of them has another life, and does not ask
    again. The state is longer than a piece, and than a frame."""
    town = Neighbourhood(tmp_path, 3, groups=GROUPS, more=more, tls=tls)

    async def story() -> None:
        documents = [Document("x" * 1_500_000), Document(), Document()]
        said: list[str] = []

        async def say(nodes: list[Node], count: int) -> None:
            for turn in range(count):
                node = nodes[turn % len(nodes)]
                receipt = await node.group("doc").publish(b"x")
                said.append(f"{receipt.id >> 32}.{receipt.id & 0xFFFFFFFF}")

        async with town.running() as nodes, contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(documents[0].lives(nodes[0]))
            await say(nodes, 60)
            saying = asyncio.create_task(say(nodes, 150))
            for node, document in zip(nodes[1:], documents[1:], strict=True):
                await stack.enter_async_context(document.lives(node))
            await saying
            await until(lambda: all(len(d.lines) >= len(said) for d in documents))
            for document in documents:
                assert sorted(document.lines) == sorted(said)
            assert [len(document.taken) for document in documents] == [0, 1, 1]
            assert documents[1].taken[0] > 0 and len(documents[1].filling) == 1_500_000
        # Another life of all of them: who has taken it has it.
        async with town.running() as nodes, contextlib.AsyncExitStack() as stack:
            for node, document in zip(nodes, documents, strict=True):
                assert "doc" not in node.status()["lacking"]
                # They left with their handles, as they had joined: a group is joined anew.
                await stack.enter_async_context(document.lives(node))
            await say(nodes, 9)
            await until(lambda: all(len(d.lines) >= len(said) for d in documents))
            for document in documents:
                assert sorted(document.lines) == sorted(said)

    asyncio.run(story())


@pytest.mark.parametrize("more", ["", OFTEN])
def test_a_member_that_has_it_has_it_in_later_lives(tmp_path: Path, more: str) -> None:
    """It joined for good; the second life hands over what comes, and gives its state itself."""
    town = Neighbourhood(tmp_path, 3, groups=GROUPS, more=more)
    documents = [Document(), Document(), Document()]

    async def first(nodes: list[Node]) -> None:
        nodes[1].group("doc").join()
        assert nodes[1].status()["lacking"] == ["doc"]
        async with documents[0].lives(nodes[0]):
            for _ in range(5):
                await nodes[0].group("doc").publish(b"x")
            async with documents[1].lives(nodes[1]):
                assert documents[1].taken and nodes[1].status()["lacking"] == []

    async def second(nodes: list[Node]) -> None:
        await nodes[2].group("doc").publish(b"x")
        await nodes[0].stop()
        async with documents[1].lives(nodes[1]):
            assert len(documents[1].taken) == 1
            async with documents[2].lives(nodes[2]):  # node 1 is away: node 2 gives it
                await until(lambda: len(documents[2].lines) == 6)
                assert len(documents[2].taken) == 1
                assert sorted(documents[1].lines) == sorted(documents[2].lines)

    async def told() -> None:
        for story in (first, second):
            async with town.running() as nodes:
                await asyncio.wait_for(story(nodes), PATIENCE)

    asyncio.run(told())


def test_entering_waits_for_somebody_who_gives_and_can_be_given_up(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 2, groups=GROUPS)
    document = Document()

    async def story() -> None:
        async with town.running() as nodes:
            with pytest.raises(TimeoutError):  # node 1 has not said how to save it
                async with asyncio.timeout(0.5):
                    async with nodes[1].group("doc", restore=document.restore):
                        pass
            assert "doc" not in nodes[1].status()["groups"]
            task = asyncio.create_task(_enter(nodes[1], document))
            await until(lambda: "snapshot" in nodes[1].status()["waits_for_state"].get("doc", ""))
            async with nodes[0].group("doc", snapshot=lambda: b'[["1.1"], ""]'):
                await task
            assert document.lines == ["1.1"]
            waiting = asyncio.create_task(_enter(nodes[1], document))
            await until(lambda: bool(nodes[1].status()["waits_for_state"]))
            await nodes[1].stop()
            with pytest.raises(NodeError):
                await waiting

    asyncio.run(story())


async def _enter(node: Node, document: Document) -> None:
    async with node.group("doc", restore=document.restore):
        pass


def test_threads_take_and_give_states(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 2, groups=GROUPS)
    taken: list[bytes] = []
    with SyncNode(town.config(1)) as one, SyncNode(town.config(2)) as two:
        with one.group("doc", snapshot=lambda: b"so far") as doc:
            doc.publish(b"a")
            message = doc.receive(PATIENCE)
            assert message is not None
            message.ack()
            doc.on_ask(lambda asked: asked.payload * 2)
            with two.group("doc", restore=taken.append) as late:
                assert taken == [b"so far"]
                doc.publish(b"b")
                message = late.receive(PATIENCE)
                assert message is not None and message.payload == b"b"
                assert late.ask(1, b"ab") == b"abab"
                with pytest.raises(NodeError, match="answers nothing in 'doc'"):
                    doc.ask(2, b"ab")
        assert one.presence() == {1: "here", 2: "linked"}


def test_questions_and_answers_over_links(tmp_path: Path) -> None:
    """A line of three: neighbours answer, many at once, others are refused with a reason."""
    town = Neighbourhood(tmp_path, 3, overlay='kind = "line"')

    async def answer(asked: Asked) -> bytes:
        await asyncio.sleep(0.01)
        return b"%d asks %s" % (asked.origin, asked.payload)

    async def story() -> None:
        async with town.running() as nodes:
            groups = [node.group("all") for node in nodes]
            groups[1].on_ask(answer)
            answers = await asyncio.gather(*(groups[0].ask(2, b"%d" % n) for n in range(50)))
            assert answers == [b"1 asks %d" % n for n in range(50)]
            with pytest.raises(NodeError, match="node 3 was not asked: there is no link"):
                await groups[0].ask(3, b"this")
            with pytest.raises(NodeError, match="a node does not ask itself"):
                await groups[0].ask(1, b"this")
            many = [groups[0].ask(2, b"x" * 10) for _ in range(80)]
            found = await asyncio.gather(*many, return_exceptions=True)
            assert sum(isinstance(one, bytes) for one in found) == 64
            assert all("ask more slowly" in str(one) for one in found if isinstance(one, NodeError))
            groups[1].on_ask(None)
            with pytest.raises(NodeError, match="answers nothing"):
                await groups[0].ask(2, b"this")
            with pytest.raises(NodeError, match="a question is bytes"):
                await groups[0].ask(2, "this")  # type: ignore[arg-type]
            assert nodes[0].presence() == {1: "here", 2: "linked", 3: "unknown"}
            groups[1].on_ask(answer)
            asking = asyncio.create_task(groups[0].ask(2, b"this"))
            await asyncio.sleep(0)
            await nodes[1].stop()
            with pytest.raises(NodeError, match="lost before it answered"):
                await asking
            await until(lambda: links(nodes[0]) == [])
            assert nodes[0].presence()[2] == "away"

    asyncio.run(story())


def test_who_keeps_nothing_gives_nothing(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 1, groups=GROUPS, storage="durable = false")

    async def story() -> None:
        async with town.running() as nodes:
            with pytest.raises(NodeError, match="durable = false"):
                nodes[0].group("doc", snapshot=lambda: b"")

    asyncio.run(story())


def test_a_node_that_is_new_in_the_cluster_takes_the_state(tmp_path: Path) -> None:
    """Members agree that it is one; it joins the group, and has all of it, as they have."""
    groups = "all = [1, 2, 3]"
    town = Neighbourhood(tmp_path, 4, "viewed_broadcast", groups=groups)

    def node(number: int) -> Node:
        return Node(town.config(number, options="founders = 3"))

    async def story() -> None:
        nodes = [node(number) for number in (1, 2, 3)]
        documents = [Document() for _ in range(4)]
        said: list[str] = []

        async def say(speakers: list[Node], count: int) -> None:
            for turn in range(count):
                receipt = await speakers[turn % len(speakers)].group("all").publish(b"x")
                said.append(f"{receipt.id >> 32}.{receipt.id & 0xFFFFFFFF}")

        for one in nodes:
            await one.start()
        await until(lambda: all(len(links(one)) == 2 for one in nodes))
        async with contextlib.AsyncExitStack() as stack:
            for one, document in zip(nodes, documents, strict=False):
                await stack.enter_async_context(document.lives(one, "all"))
            await say(nodes, 30)
            saying = asyncio.create_task(say(nodes, 60))
            fourth = node(4)
            await fourth.start()
            nodes[0].command("gone 3")
            await stack.enter_async_context(documents[3].lives(fourth, "all"))
            nodes.pop()
            with contextlib.suppress(NodeError):  # node 3 was told that it is out
                await saying
            await say([*nodes, fourth], 30)
            there = [documents[0], documents[1], documents[3]]
            await until(lambda: len({len(document.lines) for document in there}) == 1)
            await until(lambda: all(set(said) <= set(document.lines) for document in there))
            for document in there:
                assert len(set(document.lines)) == len(document.lines)
            assert len(documents[3].taken) == 1 and documents[3].taken[0] >= 30
            assert fourth.presence()[NodeId(3)] == "outside"
            await fourth.stop()
        for one in [*nodes]:
            await one.stop()

    asyncio.run(asyncio.wait_for(story(), 3 * PATIENCE))


def test_who_may_not_publish_may_not_ask(tmp_path: Path) -> None:
    rights = "[rights.doc]\npublish = [1, 2]\nsubscribe = [1, 2]"
    town = Neighbourhood(tmp_path, 3, groups='all = "*"\ndoc = [1, 2]', more=rights)

    async def story() -> None:
        async with town.running() as nodes:
            nodes[0].group("doc").on_ask(lambda asked: b"%d" % asked.origin)
            assert await nodes[1].group("doc").ask(1, b"?") == b"2"
            with pytest.raises(NodeError, match="node 1: no right to ask in 'doc'"):
                await nodes[2].group("doc").ask(1, b"?")
            with pytest.raises(NodeError, match="node 3: it is no member of the group"):
                await nodes[0].group("doc").ask(3, b"?")

    asyncio.run(story())
