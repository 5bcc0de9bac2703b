"""What a node of an experiment does: wait for a trigger, broadcast if it is one of those who do.

A trigger is a publication like any other. Whoever gets it knows what to do, so it is enough to
tell one node: the multicast under test tells the rest.
"""

import asyncio
import json
from pathlib import Path
from typing import Any, Final

from causalcast.errors import NodeError
from causalcast.runtime.node import Group, Node
from causalcast.runtime.operating.node_process import Requests, run_node

GROUP: Final = "all"
TRIGGER: Final = b"trigger "
LARGEST_ORDER: Final = {"broadcasts": 10_000_000, "payload": 1 << 20, "interval_ms": 3_600_000}


class Broadcaster:
    """The program of one node."""

    def __init__(self, broadcasts: bool) -> None:
        self._broadcasts = broadcasts
        self._group: Group | None = None
        self._busy = 0
        self._sent = 0
        self._triggers = 0

    async def run(self, node: Node) -> None:
        """Handle what the group delivers, until cancelled."""
        async with node.group(GROUP) as self._group, asyncio.TaskGroup() as tasks:
            async for message in self._group:
                if message.payload.startswith(TRIGGER):
                    self._triggers += 1
                    if self._broadcasts:
                        order = json.loads(message.payload.removeprefix(TRIGGER))
                        self._busy += 1
                        tasks.create_task(self._broadcast(self._group, order))
                await message.ack()

    async def trigger(self, request: dict[str, Any]) -> dict[str, Any]:
        """Tell the whole network, through this node."""
        order = {}
        for key, most in LARGEST_ORDER.items():
            value = request.get(key)
            if not isinstance(value, (int, float)) or not 0 <= value <= most:
                raise NodeError(f"{key}: expected a number from 0 to {most}, not {value!r}")
            order[key] = value
        if self._group is None:
            raise NodeError("the node is not ready yet")
        receipt = await self._group.publish(TRIGGER + json.dumps(order).encode())
        return {"message": repr(receipt)}

    def progress(self, request: dict[str, Any]) -> dict[str, Any]:
        """How far it is with what it was told to do."""
        return {"busy": self._busy, "sent": self._sent, "triggers": self._triggers}

    async def _broadcast(self, group: Group, order: dict[str, Any]) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        body = bytes(order["payload"])
        for number in range(int(order["broadcasts"])):
            # From the beginning, not from the last one: a late broadcast delays no other.
            await asyncio.sleep(begun + number * order["interval_ms"] / 1000 - loop.time())
            await group.publish(body)
            self._sent += 1
        self._busy -= 1


def run_broadcaster(config: Path, broadcasts: bool) -> None:
    """Run the node of a TOML file until it is stopped or whoever started it has gone."""
    program = Broadcaster(broadcasts)
    requests: Requests = {"trigger": program.trigger, "progress": program.progress}
    run_node(config, program.run, requests, until_stdin_closes=True)
