"""The control socket is for the node's own user, from its first moment on."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from causalcast import Node
from causalcast.errors import NodeError
from causalcast.runtime.node_config import NodeConfig
from causalcast.runtime.operating.control import ControlServer
from causalcast.runtime.operating.control_client import Answer, ControlClient, control_path

TOML = """
[node]
id = 1
listen = "127.0.0.1:7401"
[protocol]
name = "naive_flood"
[groups]
all = "*"
[security]
tls = false
"""


def test_nobody_else_may_open_it_whatever_the_umask_is(tmp_path: Path) -> None:
    async def story() -> None:
        server = ControlServer(Node(NodeConfig.parse(TOML, tmp_path)))
        await server.start()
        assert control_path(tmp_path, 1).stat().st_mode & 0o077 == 0
        await server.close()

    before = os.umask(0)
    try:
        asyncio.run(story())
        assert os.umask(0) == 0, "the umask is put back"
    finally:
        os.umask(before)


def test_who_does_not_answer_in_time_has_not_hung_up(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as busy:
        busy.bind(str(control_path(tmp_path, 1)))
        busy.listen()
        with (
            ControlClient(tmp_path, 1, timeout=0.1) as client,
            pytest.raises(NodeError, match="node 1 did not answer within 0 s"),
        ):
            client.ask("status")


def test_a_node_with_a_long_path_has_its_socket_in_its_folder_all_the_same(tmp_path: Path) -> None:
    """A shared folder for temporary files is anybody's: whoever is first answers there."""
    folder = tmp_path / ("long" * 30) / "deep"
    folder.mkdir(parents=True)

    async def story() -> None:
        async with Node(NodeConfig.parse(TOML, folder)) as node:
            server = ControlServer(node)
            await server.start()
            assert [found.name for found in folder.iterdir() if found.is_socket()] == [
                "control-1.sock"
            ]
            assert control_path(folder, 1).parent == folder.resolve()
            status = await asyncio.to_thread(ask_status, folder)
            assert status["node"] == 1
            await server.close()
            assert not control_path(folder, 1).exists()

    asyncio.run(story())


def ask_status(folder: Path) -> Answer:
    with ControlClient(folder, 1) as client:
        return client.ask("status")
