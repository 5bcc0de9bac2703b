"""State for newcomers in the test kit: what they were given and what follows is all, once."""

import asyncio
import contextlib
import json
from dataclasses import dataclass

import pytest

from causalcast.core.ids import NodeId
from causalcast.errors import NodeError
from causalcast.runtime.host.newcomers import Newcomers
from causalcast.swarm.mutant import Mutant, Patch
from causalcast.testing import Applications, Cluster
from causalcast.testing.applications import VirtualNode


class Document:
    """All that was said, in the order in which it was handled; it outlives its process."""

    def __init__(self, may_crash: bool = False) -> None:
        self.lines: list[str] = []
        self.began: list[int] = []  # with so many lines, each time a state was taken
        self.saved = 0
        self.may_crash = may_crash

    def save(self) -> bytes:
        self.saved += 1
        return json.dumps(self.lines).encode()

    def restore(self, state: bytes) -> None:
        self.lines = json.loads(state)
        self.began.append(len(self.lines))

    def handle(self, text: str) -> None:
        self.lines.append(text)

    async def live(self, node: VirtualNode, group: str = "doc", pause: float = 0.0) -> None:
        """What comes again after a crash is known by its text."""
        async with node.group(group, snapshot=self.save, restore=self.restore) as doc:
            async for message in doc:
                if pause:
                    await asyncio.sleep(pause)
                text = message.payload.decode()
                if not self.may_crash or text not in self.lines:
                    self.handle(text)
                await message.ack(durable=True)


async def say(applications: Applications, node: int, text: str) -> None:
    with contextlib.suppress(NodeError, AssertionError):
        await applications.nodes[node].group("doc").publish(text.encode())


def in_order_of_origins(lines: list[str]) -> bool:
    last: dict[str, int] = {}
    for line in lines:
        origin, _, number = line.partition(":")
        if int(number) != last.get(origin, 0) + 1:
            return False
        last[origin] = int(number)
    return True


@pytest.mark.parametrize("seed", range(6))
def test_what_a_newcomer_has_is_all_of_it_once_and_in_order(seed: int) -> None:
    cluster = Cluster(nodes=4, groups={"doc": [0, 1]}, latency_ms=(1, 80), loss=0.1, seed=seed)
    applications = Applications(cluster, seed=seed)
    documents = [Document() for _ in range(4)]

    async def story() -> None:
        said = 0
        for node in (0, 1):
            applications.start(
                node, lambda virtual, node=node: documents[node].live(virtual, pause=0.003)
            )
        for turn in range(60):
            for node in applications.nodes:
                await say(applications, node, f"{node}:{turn + 1 - (0 if node < 2 else 20)}")
                said += 1
            if turn == 19:  # two newcomers at once
                for node in (2, 3):
                    applications.start(
                        node, lambda virtual, node=node: documents[node].live(virtual)
                    )
            await asyncio.sleep(0.02)
        await asyncio.sleep(60)
        for document in documents:
            assert sorted(document.lines) == sorted(documents[0].lines)
            assert len(set(document.lines)) == len(document.lines) == said
            assert in_order_of_origins(document.lines)
        assert all(len(document.began) == 1 for document in documents[2:])
        assert not any(document.began for document in documents[:2])

    applications.run(story())
    cluster.settle()
    cluster.check()


@pytest.mark.parametrize("seed", range(6))
def test_whoever_crashes_in_between_asks_anew(seed: int) -> None:
    """Giver and newcomer are killed again and again; states are longer than a piece."""
    cluster = Cluster(nodes=3, groups={"doc": [0, 1]}, latency_ms=(5, 60), seed=seed)
    applications = Applications(cluster, seed=seed)
    documents = [Document(may_crash=True) for _ in range(3)]
    filling = "x" * 40_000

    async def story() -> None:
        for node in (0, 1):
            applications.start(node, documents[node].live)
        for turn in range(30):
            await say(applications, 0, f"{filling}0:{turn + 1}")
        await asyncio.sleep(2)
        applications.start(2, documents[2].live)
        for turn in range(12):
            victim = (2, 0, 1)[turn % 3]
            await asyncio.sleep(0.11 + 0.07 * turn)
            applications.crash(victim)
            await asyncio.sleep(0.4)
            applications.recover(victim, documents[victim].live)
            await say(applications, 1, f"1:{turn + 1}")
        await asyncio.sleep(120)
        expected = documents[0].lines
        assert len(expected) == len(set(expected)) >= 30
        for document in documents:
            assert sorted(document.lines) == sorted(expected)
            assert len(set(document.lines)) == len(document.lines)
        assert documents[2].began

    applications.run(story())


def test_a_group_that_is_made_gives_its_state_to_whoever_joins() -> None:
    applications = Applications(Cluster(nodes=3, latency_ms=(1, 20), seed=3))
    documents = [Document() for _ in range(3)]

    async def story() -> None:
        for node in range(3):
            applications.start(node, _nothing)
        await applications.call(0, applications.nodes[0].create_group("doc"))
        applications.in_life(applications.nodes[0].life, documents[0].live(applications.nodes[0]))
        await say(applications, 0, "0:1")
        await asyncio.sleep(1)
        for node in (1, 2):
            await say(applications, node, f"{node}:1")  # of somebody who is no member yet
            virtual = applications.nodes[node]
            applications.in_life(virtual.life, documents[node].live(virtual))
            await asyncio.sleep(1)
        for document in documents:
            assert sorted(document.lines) == ["0:1", "1:1", "2:1"]

    applications.run(story())


async def _nothing(node: VirtualNode) -> None:
    await asyncio.sleep(0)


async def _refused(applications: Applications, node: int, **functions: object) -> str:
    virtual = applications.nodes[node]
    with pytest.raises(NodeError) as error:
        async with virtual.group("doc", **functions):  # type: ignore[arg-type]
            pass
    return str(error.value)


def test_what_cannot_be_is_said() -> None:
    """Nobody has a state; a snapshot fails; it is no bytes."""
    applications = Applications(Cluster(nodes=3, groups={"doc": [0]}, seed=1))
    document = Document()

    async def story() -> None:
        for node in range(3):
            applications.start(node, _nothing)
        giver = applications.nodes[0].group("doc", snapshot=lambda: "text")  # type: ignore[arg-type, return-value]
        async with giver:
            said = await _refused(applications, 1, restore=document.restore)
            assert "its snapshot is bytes, not str" in said and "node 2: it is no member" in said

        def fails() -> bytes:
            raise ValueError("no disk")

        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        async with applications.nodes[0].group("doc", snapshot=fails):
            said = await _refused(applications, 1, restore=document.restore)
            assert "ValueError('no disk')" in said
        await applications.nodes[0].group("doc").__aexit__()
        applications.cluster.leave(0, "doc")
        said = await _refused(applications, 1, restore=document.restore)
        assert "nobody gives the state of 'doc'" in said and "begin_empty" in said
        with pytest.raises(NodeError, match="no member"):
            await applications.nodes[1].group("doc").begin_empty()
        first = applications.nodes[1].group("doc", snapshot=document.save)
        async with first:
            await first.begin_empty()
            second = applications.nodes[2].group("doc", restore=document.restore)
            async with second:
                assert document.began == [0]

    applications.run(story())


def test_a_restore_that_fails_is_tried_again() -> None:
    applications = Applications(Cluster(nodes=2, groups={"doc": [0]}, seed=1))
    documents = [Document(), Document()]

    async def story() -> None:
        applications.start(0, documents[0].live)
        await say(applications, 0, "0:1")
        await asyncio.sleep(1)
        applications.start(1, _nothing)

        async def fails(state: bytes) -> None:
            raise OSError("no room")

        with pytest.raises(OSError, match="no room"):
            async with applications.nodes[1].group("doc", restore=fails):
                pass
        applications.in_life(applications.nodes[1].life, documents[1].live(applications.nodes[1]))
        await asyncio.sleep(5)
        assert documents[1].lines == ["0:1"] and documents[1].began == [1]

    applications.run(story())


def test_who_joined_without_the_state_gives_none() -> None:
    """It would give what it has, which is not all."""
    applications = Applications(Cluster(nodes=3, groups={"doc": [0]}))
    document = Document()

    async def story() -> None:
        for node in range(3):
            applications.start(node, _nothing)
        async with applications.nodes[1].group("doc", snapshot=document.save):
            asking = asyncio.ensure_future(_refused(applications, 2, restore=document.restore))
            await asyncio.sleep(1)
            assert not asking.done()  # node 0 may say how to save it
            applications.cluster.leave(0, "doc")
            assert "node 1: it has not got the state itself" in await asking
        assert document.saved == 0

    applications.run(story())


def test_protocols_that_cannot_say_so() -> None:
    for protocol in ("locamu", "cbcast", "prc_broadcast", "naive_flood"):
        overlay = "line" if protocol == "locamu" else "full_mesh"
        cluster = Cluster(nodes=3, protocol=protocol, overlay=overlay, fifo=True)
        applications = Applications(cluster)

        async def story(applications: Applications = applications) -> None:
            applications.start(0, _nothing)
            with pytest.raises(NodeError, match="choose a protocol that offers states"):
                applications.nodes[0].group("all", snapshot=lambda: b"")

        applications.run(story())


@pytest.mark.parametrize(
    "protocol",
    [
        "psync",
        "first_generation",
        "compaction_multicast",
        "compaction_pairwise",
        "viewed_broadcast",
    ],
)
def test_other_protocols_can(protocol: str) -> None:
    cluster = Cluster(
        nodes=3, protocol=protocol, groups={"doc": [0]}, latency_ms=(1, 30), fifo=True
    )
    applications = Applications(cluster)
    documents = [Document() for _ in range(3)]

    async def story() -> None:
        applications.start(0, documents[0].live)
        for number in range(1, 21):
            await say(applications, 0, f"0:{number}")
            if number == 10:
                for node in (1, 2):
                    applications.start(node, documents[node].live)
            await asyncio.sleep(0.01)
        await asyncio.sleep(30)
        for document in documents:
            assert document.lines == [f"0:{number}" for number in range(1, 21)]

    applications.run(story())


def test_who_is_asked_answers() -> None:
    applications = Applications(Cluster(nodes=3, overlay="line", groups={"doc": [0, 1, 2]}))

    async def application(node: VirtualNode) -> None:
        async def answer(asked: object) -> bytes:
            await asyncio.sleep(0.1)
            if asked.payload == b"fail":  # type: ignore[attr-defined]
                raise ValueError("why not")
            return b"%d heard %s" % (node.id, asked.payload)  # type: ignore[attr-defined]

        node.group("doc").on_ask(answer)  # type: ignore[arg-type]

    async def story() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        for node in range(3):
            applications.start(node, application)
        await asyncio.sleep(1)
        group = applications.nodes[0].group("doc")
        assert await group.ask(1, b"this") == b"1 heard this"
        with pytest.raises(NodeError, match=r"node 1: its handler failed: ValueError\('why not'\)"):
            await group.ask(1, b"fail")
        with pytest.raises(NodeError, match="only neighbours"):
            await group.ask(2, b"this")
        with pytest.raises(NodeError, match=r"not answered within 0\.01 s; it may have handled"):
            await group.ask(1, b"this", timeout=0.01)
        asking = asyncio.ensure_future(group.ask(1, b"this"))
        await asyncio.sleep(0.02)
        applications.crash(1)
        with pytest.raises(NodeError, match="link to node 1 was lost before it answered"):
            await asking
        assert applications.nodes[0].presence() == {0: "here", 1: "away", 2: "unknown"}
        applications.recover(1, application)
        await asyncio.sleep(2)
        assert applications.nodes[0].presence()[NodeId(1)] == "linked"

    applications.run(story())


def told_late() -> list[list[str]]:
    """What a third member said is in the state, and reaches the newcomer much later."""
    cluster = Cluster(nodes=3, groups={"doc": [0, 1]}, options={"spread": "direct"})
    applications = Applications(cluster)
    documents = [Document() for _ in range(3)]

    async def story() -> None:
        for node in (0, 1):
            applications.start(node, documents[node].live)
        await asyncio.sleep(1)
        cluster.delay(1, 2, extra_ms=3000)
        await say(applications, 1, "1:1")
        await asyncio.sleep(0.1)
        applications.start(2, documents[2].live)
        await asyncio.sleep(20)

    applications.run(story())
    return [document.lines for document in documents]


def test_a_newcomer_waits_for_what_its_state_contains() -> None:
    assert told_late() == [["1:1"]] * 3


def test_without_waiting_it_would_be_doubled() -> None:
    async def is_here(*_: object) -> None:
        pass

    with Mutant(
        "restored_early", "", ["any"], (Patch(Newcomers, "_cut_is_here", is_here),)
    ).planted():
        assert told_late()[2] == ["1:1", "1:1"]


@dataclass
class Line:
    text: str


def test_groups_of_values_have_states_too() -> None:
    applications = Applications(Cluster(nodes=2, groups={"doc": [0]}))
    taken: list[bytes] = []

    async def application(node: VirtualNode) -> None:
        group = node.group("doc", type=Line, snapshot=lambda: b"all", restore=taken.append)
        async with group as doc:
            await doc.publish(Line(f"from {node.id}"))
            async for message in doc:
                await message.ack()

    async def story() -> None:
        for node in range(2):
            applications.start(node, application)
            await asyncio.sleep(2)
        assert taken == [b"all"]

    applications.run(story())


def test_two_groups_at_once() -> None:
    """What is told of one wish is not taken for the other."""
    groups = {"one": [0], "other": [1]}
    applications = Applications(Cluster(nodes=3, groups=groups, latency_ms=(1, 50), seed=2))
    documents = {(node, name): Document() for node in range(3) for name in groups}

    async def application(node: VirtualNode) -> None:
        lives = [documents[node.id, name].live(node, name) for name in groups]
        await asyncio.gather(*lives)

    async def story() -> None:
        for node in range(3):
            applications.start(node, application)
        for number in range(5):
            for name in groups:
                await applications.nodes[2].group(name).publish(b"2:%d" % (number + 1))
        await asyncio.sleep(20)
        for name in groups:
            lines = [sorted(documents[node, name].lines) for node in range(3)]
            assert lines[0] == lines[1] == lines[2] and len(lines[0]) == 5

    applications.run(story())


def test_who_was_read_by_name_alone_for_a_while_lacks_the_state() -> None:
    """What came meanwhile was not handed to its plain reader."""
    applications = Applications(Cluster(nodes=2, groups={"doc": [0, 1]}))
    documents = [Document(), Document()]

    async def story() -> None:
        applications.start(0, documents[0].live)
        applications.start(1, _nothing)
        group = applications.nodes[1].group("doc")
        await group.subscribe("other")
        await group.set_plain_reader(False)
        await say(applications, 0, "0:1")
        await asyncio.sleep(1)
        await group.set_plain_reader(True)
        applications.in_life(applications.nodes[1].life, documents[1].live(applications.nodes[1]))
        await say(applications, 0, "0:2")
        await asyncio.sleep(5)
        assert documents[1].lines == ["0:1", "0:2"] and len(documents[1].began) == 1

    applications.run(story())
