"""One callback for several groups: an effect never comes before its cause, in whatever group."""

import asyncio
from pathlib import Path

import pytest
from loopback_nodes import Neighbourhood, links, until

from causalcast import Node
from causalcast.errors import NodeError
from causalcast.runtime.received_message import ReceivedMessage

GROUPS = "causes = [1, 2]\neffects = [1, 2]"
COUNT = 10


async def publish_pairs(node: Node) -> None:
    for number in range(COUNT):
        for name in ("causes", "effects"):
            await node.group(name).publish(b"%s %d" % (name.encode(), number))


def in_order() -> list[bytes]:
    return [b"%s %d" % (name, n) for n in range(COUNT) for name in (b"causes", b"effects")]


@pytest.mark.parametrize("protocol", ["vector_clock_broadcast", "cbcast"])
def test_what_is_read_together_is_finished_in_order(tmp_path: Path, protocol: str) -> None:
    town = Neighbourhood(tmp_path, 2, protocol, groups=GROUPS)

    async def story() -> None:
        finished: list[bytes] = []

        async def handle(message: ReceivedMessage) -> None:
            if message.group == "causes":
                await asyncio.sleep(0.01)  # an effect could overtake it now
            finished.append(message.payload)

        async with town.running() as (one, two):
            await until(lambda: links(one) == [2])
            two.on_message(handle)
            one.on_message(lambda message: None, "causes", "effects")
            await publish_pairs(one)
            await until(lambda: len(finished) == 2 * COUNT)
            assert finished == in_order()
            assert two.status()["waiting"] == 0

    asyncio.run(story())


def test_what_waited_for_a_reader_is_put_in_order(tmp_path: Path) -> None:
    """Also after a restart, when it lies in the journal."""
    town = Neighbourhood(tmp_path, 2, groups=GROUPS)

    async def story() -> None:
        async with town.node(1) as one:
            async with town.node(2) as two:
                await until(lambda: links(one) == [2])
                await publish_pairs(one)
                await until(lambda: sum(two.status()["delivered"].values()) == 2 * COUNT)
            async with town.node(2) as two:
                came: list[bytes] = []
                two.on_message(lambda message: came.append(message.payload))
                await until(lambda: len(came) == 2 * COUNT)
                assert came == in_order()

    asyncio.run(story())


def test_a_group_that_is_read_is_not_read_together_with_others(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 2, groups=GROUPS)

    async def story() -> None:
        async with town.node(1) as one:
            one.group("causes").on_message(lambda message: None)
            with pytest.raises(NodeError, match="'causes' is read already"):
                one.on_message(lambda message: None)
            one.on_message(lambda message: None, "effects")
            with pytest.raises(NodeError, match="'effects' is read already"):
                one.group("effects").on_message(lambda message: None)

    asyncio.run(story())
