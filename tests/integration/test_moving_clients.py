"""Clients that move between nodes that crash, judged as processes of a run of their own."""

import asyncio
import random
from collections.abc import Coroutine
from pathlib import Path

import pytest
from door_nodes import Doors, crash
from loopback_nodes import PATIENCE

from causalcast import Node, RemoteGroups, RemoteNode, connect, verify
from causalcast.clients.kept_log import KeptLog
from causalcast.clients.protocol import Position
from causalcast.limits import set_to
from causalcast.pipeline.verdicts.verdict import Verdict
from causalcast.recording import Recorder
from causalcast.recording.recorder import HEADER
from causalcast.trace.foreign_log import import_log

GROUPS = ("acl", "posts")
CLIENTS = 6
ORDER = "no_creation,no_duplication,fifo_order,causal_order"


class Person:
    """One client: publishes, answers now and then, and writes down what it sees."""

    def __init__(self, number: int, folder: Path, chance: random.Random) -> None:
        self.log = Recorder(f"client-{number}", folder / "logs" / f"client-{number}.jsonl")
        self.sure: set[str] = set()  # published, and it was told so
        self.handled: set[str] = set()
        self._chance = chance
        for group in GROUPS:
            self.log.subscribed(group)

    async def live(self, node: RemoteNode, publications: int) -> None:
        """Read all the time, and publish."""
        async with node.together(*GROUPS) as both:
            reading = asyncio.create_task(self._read(both))
            try:
                for _ in range(publications):
                    await self._publish(node)
                    await asyncio.sleep(self._chance.random() * 0.02)
                await asyncio.Event().wait()
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    async def _publish(self, node: RemoteNode) -> None:
        group = self._chance.choice(GROUPS)
        sent = self.log.publish(group)
        await node.group(group).publish(sent.id.encode())
        self.sure.add(sent.id)

    async def _read(self, both: RemoteGroups) -> None:
        async for message in both:
            name = message.payload.decode()
            self.log.delivered({HEADER: name}, message.group)
            self.handled.add(name)
            await message.ack()


async def trouble(doors: Doors, nodes: dict[int, Node], chance: random.Random, times: int) -> None:
    """Nodes crash and come back, one at a time."""
    for _ in range(times):
        await asyncio.sleep(0.15)
        number = chance.choice([2, *doors.ids])
        await crash(nodes[number])
        await asyncio.sleep(chance.random() * 0.3)
        nodes[number] = doors.node(number)
        await nodes[number].start()


async def live_through(folder: Path, seed: int, crashes: int, publications: int) -> None:
    chance = random.Random(seed)
    # On a line the ends lag behind one another while the middle is down, and clients move there.
    overlay = 'kind = "line"'
    doors = Doors(folder, 3, groups='acl = "*"\nposts = "*"', overlay=overlay, level="deliveries")
    nodes = {number: doors.node(number) for number in doors.ids}
    for node in nodes.values():
        await node.start()
    people = [Person(number, folder, random.Random(seed + number)) for number in range(CLIENTS)]
    urls = [doors.url(number) for number in doors.ids]
    clients = [
        connect(urls[number % 3 :] + urls[: number % 3], name=f"c{number}")
        for number in range(CLIENTS)
    ]
    for client in clients:
        await client.__aenter__()
    lives = [
        asyncio.create_task(person.live(client, publications))
        for person, client in zip(people, clients, strict=True)
    ]

    async def cuts() -> None:
        while True:
            await asyncio.sleep(0.1)
            chance.choice(clients).cut()

    cutting = asyncio.create_task(cuts())
    try:
        await trouble(doors, nodes, chance, crashes)
        cutting.cancel()
        async with asyncio.timeout(2 * PATIENCE):
            while True:
                assert not any(life.done() for life in lives), lives
                sure = set().union(*(person.sure for person in people))
                made = len(sure) == CLIENTS * publications
                if made and all(sure == person.handled for person in people):
                    break
                await asyncio.sleep(0.05)
        moved = sum(client.reconnections for client in clients)
        assert moved > crashes, "clients had to move"
    finally:
        cutting.cancel()
        for life in lives:
            life.cancel()
        await asyncio.gather(*lives, cutting, return_exceptions=True)
        for client in clients:
            await client.close()
        for node in nodes.values():
            await node.stop()
        for person in people:
            person.log.close()


def run(story: Coroutine[None, None, None]) -> None:
    async def in_time() -> None:
        async with asyncio.timeout(6 * PATIENCE):
            await story

    asyncio.run(in_time())


def judged(folder: Path, seed: int) -> Verdict:
    """What the judge says of the order at the clients."""
    with set_to({"clients.connect.longest_pause": 0.2, "clients.session.not_yet_after": 1.0}):
        run(live_through(folder, seed, crashes=6, publications=60))
    return verify(import_log(folder / "logs"), promise=ORDER)


SLOW = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 7)]


@pytest.mark.parametrize("seed", [1, *SLOW])
def test_clients_that_move_see_every_cause_first(tmp_path: Path, seed: int) -> None:
    verdict = judged(tmp_path, seed)
    assert verdict.is_fine, verdict.to_json()


@pytest.mark.slow
def test_a_node_that_does_not_wait_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def at_once(self: KeptLog, past: Position) -> None:
        """Whatever the client has seen."""

    monkeypatch.setattr(KeptLog, "wait_for", at_once)
    verdicts = [judged(tmp_path / str(seed), seed) for seed in range(3)]
    assert not all(verdict.is_fine for verdict in verdicts)
