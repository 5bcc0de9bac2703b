"""Lists of what waits, one after the other, at every kind of node."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from door_nodes import Doors
from loopback_nodes import PATIENCE

from causalcast import AnyGroup, SyncNode, connect, connect_sync
from causalcast.testing import Applications, Cluster, VirtualNode


@dataclass
class Said:
    text: str


COUNT = 25
BODIES = [str(number).encode() for number in range(COUNT)]


async def in_batches(group: AnyGroup, most: int) -> list[int]:
    """How many came at once, until all are there; each list is acknowledged as one."""
    sizes, bodies = [], []
    async for batch in group.batches(most):
        sizes.append(len(batch))
        bodies += [message.payload for message in batch]
        await group.ack_many(batch)
        if len(bodies) == COUNT:
            break
    assert bodies == BODIES
    return sizes


def test_at_a_node_and_at_its_door(tmp_path: Path) -> None:
    doors = Doors(tmp_path, 1, groups='all = "*"\nmine = "*"', door='groups = ["all"]')

    async def tell() -> None:
        async with doors.running() as (node,), connect(doors.url(1)) as remote:
            mine = node.group("mine")
            await mine.publish_many(BODIES)
            assert await in_batches(mine, 10) == [10, 10, 5]
            assert node.status()["unacknowledged"] == 0
            async with remote.group("all") as group:
                await group.publish_many(BODIES)
                assert max(await in_batches(group, 10)) <= 10

    asyncio.run(asyncio.wait_for(tell(), PATIENCE))


def test_in_the_test_kit() -> None:
    applications = Applications(Cluster(nodes=1))
    sizes: list[int] = []

    async def application(node: VirtualNode) -> None:
        async with node.group("all") as group:
            await group.publish_many(BODIES)
            sizes.extend(await in_batches(group, 10))

    async def story() -> None:
        applications.start(0, application)
        await asyncio.sleep(1)

    applications.run(story())
    assert sizes == [10, 10, 5]


def test_in_threads(tmp_path: Path) -> None:
    """They end when nothing has come for a while."""
    doors = Doors(tmp_path, 1, groups='all = "*"\nmine = "*"', door='groups = ["all"]')
    with SyncNode(doors.config(1)) as node:
        mine = node.group("mine")
        mine.publish_many(BODIES)
        assert [len(batch) for batch in mine.batches(10, timeout=0.1)] == [10, 10, 5]
        typed = node.group("mine", type=Said)
        typed.publish_many([Said("a"), Said("b")])
        found = [one.value.text for batch in typed.batches(timeout=0.1) for one in batch]
        assert found == ["a", "b"]
        with connect_sync(doors.url(1)) as remote, remote.group("all") as group:
            group.publish_many(BODIES)
            bodies = [one.payload for batch in group.batches(10, timeout=1) for one in batch]
            assert bodies == BODIES
