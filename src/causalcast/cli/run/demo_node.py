"""One process of the demo: a node, and an application that publishes and answers.

Every node publishes to its groups at random moments. Whoever receives a message may answer it, in
another group it is a member of where there is one, so that causes and effects cross groups. An
answer may be answered in turn, three deep.
"""

import asyncio
import random
import sys
from pathlib import Path
from typing import Final

from causalcast.runtime.node import Group, Node
from causalcast.runtime.observing.node_logging import set_up_logging
from causalcast.runtime.operating.control_client import Answer, name_of
from causalcast.runtime.operating.node_process import run_node
from causalcast.runtime.received_message import ReceivedMessage

PAUSE: Final = 0.06  # seconds between two publications of a node, on average
ANSWERS: Final = 0.12  # of the messages a node receives
DEPTH: Final = 3


class Chatter:
    """The application of one node."""

    def __init__(self) -> None:
        self._quiet = asyncio.Event()
        self._random = random.Random()

    def be_quiet(self, request: Answer) -> Answer:
        """Publish nothing more of one's own, and answer nothing."""
        self._quiet.set()
        return {}

    async def run(self, node: Node) -> None:
        """Publish and answer until cancelled."""
        groups = [node.group(name) for name in node.status()["groups"]]
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._publish(groups))
            for group in groups:
                tasks.create_task(self._answer(node, group, groups))

    async def _publish(self, groups: list[Group]) -> None:
        count = 0
        while not self._quiet.is_set():
            await asyncio.sleep(self._random.expovariate(1 / PAUSE))
            count += 1
            await self._random.choice(groups).publish(f"0 news {count}".encode())
        await asyncio.Event().wait()  # the node goes on until it is stopped

    async def _answer(self, node: Node, group: Group, groups: list[Group]) -> None:
        others = [other for other in groups if other is not group] or groups
        async for message in group:
            depth = int(message.payload.split()[0])
            if message.origin != node.id and depth < DEPTH and self._wants_to_answer():
                await self._random.choice(others).publish(_answer_to(message, depth))
            await message.ack()

    def _wants_to_answer(self) -> bool:
        return not self._quiet.is_set() and self._random.random() < ANSWERS


def _answer_to(message: ReceivedMessage, depth: int) -> bytes:
    return f"{depth + 1} answer to {name_of(message.id)}".encode()


def main() -> None:
    """Run the node whose TOML is named on the command line."""
    set_up_logging()
    chatter = Chatter()
    requests = {"be_quiet": chatter.be_quiet}
    run_node(Path(sys.argv[1]), chatter.run, requests, until_stdin_closes=True)


if __name__ == "__main__":
    main()
