"""Speaks with a running node from another process, over its control socket (see `control`)."""

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from causalcast.core.ids import MessageId, NodeId, message_id, number_of, origin_of
from causalcast.errors import NodeError

_LONGEST_PATH: Final = 100  # unix sockets take 107 bytes on Linux and 103 elsewhere

Answer = dict[str, Any]


def control_path(folder: Path, node: int | str) -> Path:
    """Where the socket of a node is: in its folder, where nobody else can put one."""
    return folder.resolve() / f"control-{node}.sock"


@contextlib.contextmanager
def short_name(path: Path) -> Iterator[str]:
    """A name for a socket that the system takes, however long its path is.

    NodeError where there is none: a place outside the node's folder would be anybody's.
    """
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        yield str(path)
        return
    opened = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        through = f"/proc/self/fd/{opened}"
        if not os.path.isdir(through):
            raise NodeError(f"{path}: too long for a control socket; use a shorter path")
        yield f"{through}/{path.name}"
    finally:
        os.close(opened)


def name_of(message: MessageId) -> str:
    """`3.17` is the 17th publication of node 3."""
    return f"{origin_of(message)}.{number_of(message)}"


def id_named(name: str) -> MessageId:
    """The id that people write as `3.17`."""
    origin, dot, number = name.partition(".")
    if not dot or not origin.isdecimal() or not number.isdecimal():
        raise NodeError(f"{name!r} is no message; write it as origin.number, such as 3.17")
    return message_id(NodeId(int(origin)), int(number))


class ControlClient:
    """Speaks with a running node from another process, one request after the other."""

    def __init__(self, folder: Path, node: int | str, timeout: float | None = 10.0) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout)
        try:
            with short_name(control_path(folder, node)) as name:
                self._socket.connect(name)
        except (FileNotFoundError, ConnectionRefusedError):
            self._socket.close()
            raise NodeError(f"node {node} does not run in {folder}") from None
        except OSError as error:
            self._socket.close()
            raise NodeError(f"node {node} does not answer in {folder} ({error.strerror})") from None
        self._lines = self._socket.makefile("rb")
        self._node = node

    def __enter__(self) -> "ControlClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self._socket.close()

    def hang_up(self) -> None:
        """End the line, also for another thread that waits for the next answer."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def ask(self, do: str, **request: Any) -> Answer:
        """Send a request and return its answer; NodeError if the node says no."""
        self._send(do, request)
        return self._next_answer()

    def messages(self, group: str, reader: str = "") -> Iterator[Answer]:
        """Subscribe to a group, as the reader of that name: its messages, until the node stops.

        Each must be acknowledged when it is handled: else it comes again for the next subscriber,
        and after some hundred of them nothing more comes.
        """
        self._send("subscribe", {"group": group} | ({"reader": reader} if reader else {}))
        self._next_answer()
        self._socket.settimeout(None)
        for line in self._lines:
            message: Answer = json.loads(line)
            if not message.pop("ok", True):
                raise NodeError(f"node {self._node}: {message.get('error')}")
            yield message

    def acknowledge(self, message: Answer) -> None:
        """Say that a message of `messages` is handled: it does not come again."""
        self._send("ack", {"message": message["message"]})

    def _send(self, do: str, request: Answer) -> None:
        with contextlib.suppress(BrokenPipeError):  # then there is no answer, and that is told
            self._socket.sendall(line_of({"do": do, **request}))

    def _next_answer(self) -> Answer:
        try:
            line = self._lines.readline()
        except TimeoutError:
            waited = self._socket.gettimeout()
            raise NodeError(f"node {self._node} did not answer within {waited:.0f} s") from None
        except OSError:
            line = b""
        if not line:
            raise NodeError(f"node {self._node} hung up without an answer")
        answer: Answer = json.loads(line)
        if not answer.pop("ok"):
            raise NodeError(f"node {self._node}: {answer.get('error')}")
        return answer


def line_of(content: Answer) -> bytes:
    """A request or an answer as it travels."""
    return json.dumps(content).encode() + b"\n"
