"""Free ports of this machine, and servers that answer at one."""

import contextlib
import socket
import time

from causalcast.errors import NodeError

ANSWERS_WITHIN = 60.0


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at, all different."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def wait_for_port(port: int) -> None:
    """Until somebody answers there."""
    until = time.monotonic() + ANSWERS_WITHIN
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise NodeError(f"no server answers at port {port} within {ANSWERS_WITHIN:.0f} s")
