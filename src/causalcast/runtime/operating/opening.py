"""`causalcast.open`, `open_sync`: a node for a program, with a way in for operators."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path

from causalcast.runtime.node import Node
from causalcast.runtime.node_config import NodeConfig
from causalcast.runtime.operating.control import ControlServer
from causalcast.runtime.sync_node import SyncNode

log = logging.getLogger(__name__)


def open(path: str | Path) -> Node:  # noqa: A001 - `causalcast.open` is what people type
    """The node that the TOML file at `path` describes; enter it to start it.

    While it runs, `causalcast status`, `explain`, `leave` and the other commands find it by the
    folder of that file.
    """
    return Node(NodeConfig.read(Path(path)), control=controlled)


def open_sync(path: str | Path) -> SyncNode:
    """The node that the TOML file at `path` describes, for programs without asyncio; enter it."""
    return SyncNode(NodeConfig.read(Path(path)), controlled)


@contextlib.asynccontextmanager
async def controlled(node: Node) -> AsyncIterator[None]:
    """Open the control socket of a node. Asked to stop, the node stops, and its application hears
    of that where it uses the node."""
    server = ControlServer(node)
    try:
        await server.start()
    except OSError as error:  # a folder that can only be read: the node runs all the same
        log.warning("no control socket in %s: %s", node.config.folder, error.strerror)
        yield
        return
    stopping = asyncio.create_task(_stop_when_asked(server, node))
    try:
        yield
    finally:
        stopping.cancel()
        await server.close()


async def _stop_when_asked(server: ControlServer, node: Node) -> None:
    await server.stop_asked.wait()
    # Not by `node.stop`, which closes this socket: its application does that.
    await node.host().stop()
