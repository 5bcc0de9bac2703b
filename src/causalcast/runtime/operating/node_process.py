"""One node as a process: opened, controlled, and stopped in good order by a signal."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from causalcast.errors import ConfigError
from causalcast.runtime.node import Node
from causalcast.runtime.node_config import NodeConfig
from causalcast.runtime.operating.control import ControlServer, ProgramRequest

log = logging.getLogger(__name__)

Program = Callable[[Node], Awaitable[None]]
Requests = Mapping[str, ProgramRequest]


def run_node(
    path: Path,
    program: Program | None = None,
    requests: Requests | None = None,
    until_stdin_closes: bool = False,
) -> None:
    """Run the node of a TOML file until SIGINT, SIGTERM or a `stop` request.

    `program` is what the application does beside it, `requests` what it adds to the control
    socket. With `until_stdin_closes` the node also stops when whoever started it is gone. Raises
    what stopped the node, if something did.
    """
    config = NodeConfig.read(path)
    with asyncio.Runner(loop_factory=loop_factory(config.event_loop)) as runner:
        runner.run(_run(Node(config), program, requests or {}, until_stdin_closes))


def loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes the event loop of that name; None for Python's own."""
    if name == "asyncio":
        return None
    try:
        import uvloop
    except ImportError:
        raise ConfigError(
            "[node] event_loop = 'uvloop': it is not installed; pip install 'causalcast[fast]'"
        ) from None
    new_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return new_loop


async def _run(
    node: Node, program: Program | None, requests: Requests, until_stdin_closes: bool
) -> None:
    loop = asyncio.get_running_loop()
    async with node:
        control = ControlServer(node, requests)
        await control.start()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, control.stop_asked.set)
        if until_stdin_closes:
            loop.add_reader(sys.stdin.fileno(), _look_at_stdin, control.stop_asked)
        log.info("node %s (%s) listens at %s", node.id, node.config.name, node.config.listen)
        tasks = [
            asyncio.create_task(node.wait_stopped()),
            asyncio.create_task(control.stop_asked.wait()),
        ]
        if program is not None:
            tasks.append(asyncio.ensure_future(program(node)))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await control.close()
    log.info("node %s stopped in good order", node.id)


def _look_at_stdin(stop_asked: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        stop_asked.set()
