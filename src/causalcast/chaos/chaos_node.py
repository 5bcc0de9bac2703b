"""One process under chaos: a node, and an application that publishes, answers and keeps a ledger.

The ledger is what the application was told, written by itself: it knows nothing of journals and
traces, so it can be held against them.

    P origin.number    `publish` returned
    D origin.number group    the message was handed to the application
    A origin.number    its acknowledgement is durable

The clock of the process can be made to jump: `jump` shifts the clock that timers follow, at once,
and the time of day, from the next start on.
"""

import asyncio
import faulthandler
import os
import random
import signal
import sys
from pathlib import Path
from typing import Final

from causalcast.chaos.small_limits import take_limits
from causalcast.errors import NodeError
from causalcast.runtime import wall_clock
from causalcast.runtime.node import Group, Node
from causalcast.runtime.observing.node_logging import set_up_logging
from causalcast.runtime.operating.control_client import Answer, name_of
from causalcast.runtime.operating.node_process import run_node
from causalcast.runtime.received_message import ReceivedMessage

LEDGER: Final = "ledger"
CLOCK: Final = "clock_shift"
AT_ONCE: Final = 8  # publications that an application waits for at the same time
ANSWERS: Final = 0.1  # of the messages a node receives


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock can be shifted."""

    shift = 0.0

    def time(self) -> float:
        return super().time() + self.shift


class JumpingPolicy(asyncio.DefaultEventLoopPolicy):
    """Makes such loops."""

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return JumpingLoop()


class Application:
    """What runs beside the node; the ledger is in the node's folder."""

    def __init__(self, folder: Path, rate: float) -> None:
        self._folder = folder
        self._rate = rate  # publications per second, on average; 0: as many as the node lets in
        self._ledger = os.open(folder / LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._quiet = asyncio.Event()
        self._dice = random.Random()
        self._marking: set[asyncio.Task[None]] = set()

    def be_quiet(self, request: Answer) -> Answer:
        """Publish nothing more."""
        self._quiet.set()
        return {}

    def jump(self, request: Answer) -> Answer:
        """Shift the clock by `seconds`."""
        loop = asyncio.get_running_loop()
        if not isinstance(loop, JumpingLoop):
            raise NodeError("the clock of this event loop cannot be shifted")
        seconds = float(request["seconds"])
        loop.shift += seconds
        (self._folder / CLOCK).write_text(str(read_shift(self._folder) + seconds))
        return {}

    async def run(self, node: Node) -> None:
        """Publish, answer and keep the ledger until cancelled."""
        await self._be_let_in(node)
        groups = [node.group(name) for name in node.status()["groups"]]
        async with asyncio.TaskGroup() as tasks:
            for _ in range(AT_ONCE):
                tasks.create_task(self._publish_all_the_time(groups))
            for group in groups:
                tasks.create_task(self._receive(node, group, groups))

    async def _be_let_in(self, node: Node) -> None:
        """Where members let a node in, it is in no group before, and cannot publish."""
        config = node.config
        if config.is_changing() and config.restart() == "resume":
            while not (node.status()["takes_part"] and node.status()["groups"]):
                await asyncio.sleep(0.05)

    async def _publish_all_the_time(self, groups: list[Group]) -> None:
        while not self._quiet.is_set():
            if self._rate > 0:
                await asyncio.sleep(self._dice.expovariate(self._rate / AT_ONCE))
            await self._publish(self._dice.choice(groups), b"news")
        await asyncio.Event().wait()  # the node goes on until it is stopped

    async def _publish(self, group: Group, body: bytes) -> None:
        receipt = await group.publish(body * self._dice.choice([1, 1, 10, 500]))
        self._write(f"P {name_of(receipt.id)}")

    async def _receive(self, node: Node, group: Group, groups: list[Group]) -> None:
        async for message in group:
            self._write(f"D {name_of(message.id)} {group.name}")
            if message.origin != node.id and self._wants_to_answer():
                await self._publish(self._dice.choice(groups), b"answer")
            task = asyncio.create_task(self._acknowledge(message))
            self._marking.add(task)
            task.add_done_callback(self._marking.discard)

    async def _acknowledge(self, message: ReceivedMessage) -> None:
        try:
            await message.ack(durable=True)
        except NodeError:
            return  # the node stops
        self._write(f"A {name_of(message.id)}")

    def _wants_to_answer(self) -> bool:
        return not self._quiet.is_set() and self._dice.random() < ANSWERS

    def _write(self, line: str) -> None:
        """One write, so that SIGKILL leaves whole lines; a full disk must not end the process."""
        data = line.encode() + b"\n"
        try:
            written = os.write(self._ledger, data)
        except OSError:
            written = 0
        if written < len(data):
            os.ftruncate(self._ledger, os.fstat(self._ledger).st_size - written)
            self._quiet.set()  # what cannot be noted down must not be done


def read_shift(folder: Path) -> float:
    """By how much earlier jumps have shifted the clock of a node."""
    path = folder / CLOCK
    return float(path.read_text() or 0) if path.exists() else 0.0


def main() -> None:
    """Run the node whose TOML is named on the command line, behind the rate of its application."""
    set_up_logging()
    faulthandler.register(signal.SIGUSR1)  # says into the log what it is at, if it hangs
    rate, config = float(sys.argv[1]), Path(sys.argv[2])
    take_limits(config.parent)
    wall_clock.shift_us = int(read_shift(config.parent) * 1_000_000)
    asyncio.set_event_loop_policy(JumpingPolicy())
    application = Application(config.parent, rate)
    requests = {"be_quiet": application.be_quiet, "jump": application.jump}
    run_node(config, application.run, requests, until_stdin_closes=True)


if __name__ == "__main__":
    main()
