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
from causalcast.runtime.operating.control_client import ControlClient, control_path

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
