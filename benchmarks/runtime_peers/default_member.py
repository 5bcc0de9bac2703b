"""A node as `causalcast up` makes it, and the application in it: publishes and acknowledges.

Started by `default_node.py` with the path of the node's TOML; its work stands beside that. It says
`ready` when its links stand, starts at `go`, and prints what it used when it has everything.
"""

import asyncio
import json
import os
import resource
import struct
import sys
import time
from pathlib import Path
from typing import Any

from causalcast import Node
from causalcast.runtime.node_config import NodeConfig
from causalcast.runtime.received_message import ReceivedMessage

HEAD = struct.Struct(">II")  # who published, and its how manieth


def cpu_seconds() -> float:
    """What this process used so far, in all its threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class Application:
    """Publishes with many tasks where it is told to; takes and acknowledges everything."""

    def __init__(self, node: Node, me: int, work: dict[str, Any]) -> None:
        self._group = node.group("all")
        self._me = me
        self._work = work
        self._numbers = iter(range(1, work["publications"] + 1))

    async def publish(self) -> None:
        """All publications, by so many tasks, each of which waits for its own."""
        if self._me == self._work["publisher"]:
            await asyncio.gather(*(self._publish_some() for _ in range(self._work["tasks"])))

    async def _publish_some(self) -> None:
        padding = bytes(self._work["size"] - HEAD.size)
        for number in self._numbers:
            await self._group.publish(HEAD.pack(self._me, number) + padding)

    async def receive(self) -> None:
        """Everything, in the order of its publisher: one by one, or in batches."""
        seen, most = 0, self._work["batch"]
        if most == 1:
            async for message in self._group:
                seen += 1
                self._check(message, seen)
                await message.ack()
                if seen == self._work["publications"]:
                    return
        while seen < self._work["publications"]:
            messages = await self._group.receive_many(most)
            for message in messages:
                seen += 1
                self._check(message, seen)
            await self._group.ack_many(messages)

    def _check(self, message: ReceivedMessage, number: int) -> None:
        publisher = self._work["publisher"]
        if (message.origin, message.number) != (publisher, number):
            raise SystemExit(f"{message!r} came, {publisher}.{number} was next")
        assert len(message.payload) == self._work["size"]


async def _run(path: Path) -> None:
    loop = asyncio.get_running_loop()
    work = json.loads((path.parents[1] / "work.json").read_text())
    config = NodeConfig.read(path)
    async with Node(config) as node:
        wanted = len(config.blueprint.topology.neighbours[config.node])
        while len(node.status()["links"]) < wanted:
            await asyncio.sleep(0.01)
        application = Application(node, int(config.node), work)
        print("ready", flush=True)
        await loop.run_in_executor(None, sys.stdin.readline)
        started, cpu = time.monotonic(), cpu_seconds()
        await asyncio.gather(application.publish(), application.receive())
        ended = time.monotonic()
        print("received", flush=True)
        await loop.run_in_executor(None, sys.stdin.readline)  # everybody has everything
        facts = {"started": started, "ended": ended, "cpu_seconds": cpu_seconds() - cpu}
        print(json.dumps({**facts, "pid": os.getpid()}), flush=True)
        await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    profiled = os.environ.get("CAUSALCAST_PROFILE", "")
    if profiled and f"node-{profiled}" in sys.argv[1]:
        import cProfile

        profile = cProfile.Profile()
        profile.runcall(asyncio.run, _run(Path(sys.argv[1])))
        profile.dump_stats(f"/tmp/profile-{profiled}")
    else:
        asyncio.run(_run(Path(sys.argv[1])))
