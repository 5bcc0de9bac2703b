"""One process of the workload: `python -m causalcast.buses.client_process TASK.json`.

It says `ready` when it is connected, begins when it reads a line, publishes for some seconds,
answers some of what it handles, waits until nothing more arrives, and ends.
"""

import asyncio
import json
import sys
import time
from pathlib import Path
from random import Random

from causalcast.buses.registry import system_named
from causalcast.buses.system import Client, Task
from causalcast.recording.recorder import Recorder

QUIET_SECONDS = 2.0  # nothing arrived for so long: the rest has come, or is lost
LONGEST_WAIT = 20.0
BURST = 4  # publications at a time, as an application makes them


class Application:
    """What the process does with messages."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.random = Random(task.seed * 1000 + task.me)
        self.last_arrival = time.monotonic()
        self.until = float("inf")
        recorder = Recorder(f"p{task.me}", task.log)
        self.client: Client = system_named(task.system).client(task, recorder)

    async def run(self) -> None:
        """From the connection to the end."""
        await self.client.open(self.handle)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        self.until = time.monotonic() + self.task.seconds
        await self._publish()
        await self._wait_for_the_rest()
        await self.client.close()

    async def handle(self, topic: str) -> None:
        """A message was delivered: think about it, and answer sometimes."""
        self.last_arrival = time.monotonic()
        if self.task.pause_ms:
            await self.client.pause(self.task.pause_ms / 1000)
        if self.random.random() < self.task.answers and time.monotonic() < self.until:
            await self.client.publish(self.random.choice(self.client.topics), b"an answer")

    async def _publish(self) -> None:
        begin, sent = time.monotonic(), 0
        while (now := time.monotonic()) < self.until:
            due = int((now - begin) * self.task.rate)
            while sent < due:
                for _ in range(min(BURST, due - sent)):
                    await self.client.publish(self.random.choice(self.client.topics), b"a word")
                    sent += 1
            await asyncio.sleep(BURST / self.task.rate)

    async def _wait_for_the_rest(self) -> None:
        longest = time.monotonic() + LONGEST_WAIT
        self.last_arrival = max(self.last_arrival, time.monotonic())
        while time.monotonic() < min(longest, self.last_arrival + QUIET_SECONDS):
            await asyncio.sleep(0.05)


def main() -> None:
    """Do what the file says."""
    task = Task(**json.loads(Path(sys.argv[1]).read_text()))
    asyncio.run(Application(task).run())


if __name__ == "__main__":
    main()
