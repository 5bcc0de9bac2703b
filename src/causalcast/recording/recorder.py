"""Writes down what one process publishes and handles, so that the order can be judged later.

    from causalcast.recording import Recorder

    recorder = Recorder("p0", "logs/p0.jsonl")         # another name in every process
    recorder.subscribed("chat")                        # before anything of it can arrive

    sent = recorder.publish("chat")                    # before the send
    client.send("chat", payload, headers=sent.headers)

    def on_message(topic, payload, headers):
        with recorder.handling(headers, topic):        # what is published inside is an answer to it
            ...

Each call writes one line, as `causalcast trace import` reads it, and hands it to the kernel before
it returns: a process that is killed loses nothing, at worst it leaves half a line. The lines of all
threads and tasks have one order, which is that of the calls.

A publication is recorded *before* it is sent. The other way round it may arrive somewhere before it
was published, and such a log proves nothing. Threads that share a client record and send under a
lock, or what was recorded first may be sent last; the adapters beside this file do so.

This file needs the standard library only and can be copied into any project.
"""

import json
import os
import threading
import time
from collections.abc import Mapping
from contextvars import ContextVar
from json.encoder import encode_basestring_ascii as quoted  # a tenth of what json.dumps takes
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

HEADER = "causalcast-message"
"""The header that carries a message's id from who publishes it to who handles it."""


class Publication(NamedTuple):
    """What was recorded: the id, and the headers to send along."""

    id: str
    headers: dict[str, str]


class Recorder:
    """The log of one process: one file, one line per publication, delivery and subscription."""

    def __init__(self, name: str, path: str | os.PathLike[str]) -> None:
        self.name = name
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._handled: ContextVar[str] = ContextVar("causalcast_handled", default="")
        self._prefix = f"{name}-"
        self._node = f'{{"node": {quoted(name)}, "pos": '
        self._texts: dict[str, str] = {}
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._pos = self._continue_log()
        if self._pos:
            self._append('"crash"')
            self._append('"recover"')

    def publish(self, topic: str, key: str | None = None) -> Publication:
        """Record a publication; call it before the send, and send its headers along."""
        more = f', "group": {self._texts.get(topic) or self._text(topic)}'
        answered = self._handled.get()
        if answered:
            more += f', "causes": [{quoted(answered)}]'
        if key is not None:
            more += f', "key": {quoted(key)}'
        with self._lock:
            message = f"{self._prefix}{self._pos}"
            self._append(f'"publish", "message": {quoted(message)}{more}')
        return Publication(message, {HEADER: message})

    def handling(
        self, headers: Mapping[str, Any] | None, topic: str, share: str | None = None,
        attempt: int | None = None,
    ) -> "Handling":  # fmt: skip
        """Record a delivery on entering the block; publications inside it are answers to it.

        `share` names the group of subscribers of which one gets each message, `attempt` counts
        deliveries of a message that the system repeats.
        """
        return Handling(self, headers, topic, share, attempt)

    def delivered(
        self, headers: Mapping[str, Any] | None, topic: str, share: str | None = None,
        attempt: int | None = None,
    ) -> str:  # fmt: skip
        """Record a delivery whose handling is no block of code; the message's id."""
        message = id_in(headers)
        more = f', "group": {self._texts.get(topic) or self._text(topic)}'
        if share:
            more += f', "share": {quoted(share)}'
        if attempt is not None:
            more += f', "attempt": {attempt}'
        with self._lock:
            message = message or f"unknown to {self.name}, {self._pos}"
            self._append(f'"deliver", "message": {quoted(message)}{more}')
        return message

    def subscribed(self, topic: str, share: str | None = None) -> None:
        """Record that everything published from now on is owed to this process."""
        shared = f', "share": {quoted(share)}' if share else ""
        with self._lock:
            self._append(f'"join", "group": {self._text(topic)}{shared}')

    def unsubscribed(self, topic: str) -> None:
        """Record that this process wants nothing more of a topic."""
        with self._lock:
            self._append(f'"leave", "group": {self._text(topic)}')

    def close(self) -> None:
        """Close the file; nothing is lost without it."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _append(self, what: str) -> None:
        """One line in one write; the lock that the caller holds gives it its place."""
        pos = self._pos
        line = f'{self._node}{pos}, "at_us": {time.time_ns() // 1000}, "kind": {what}}}\n'
        os.write(self._file, line.encode())
        self._pos = pos + 1

    def _text(self, topic: str) -> str:
        """A topic as JSON; the same few are asked for again and again."""
        text = self._texts.get(topic)
        if text is None:
            text = self._texts[topic] = quoted(topic)
        return text

    def _continue_log(self) -> int:
        """The next position: 0, or that after the last whole line of an earlier life."""
        size = os.fstat(self._file).st_size
        tail = os.pread(self._file, min(size, 1 << 20), max(0, size - (1 << 20)))
        whole = tail[: tail.rfind(b"\n") + 1]
        os.ftruncate(self._file, size - len(tail) + len(whole))  # half a line is nobody's
        lines = whole.splitlines()
        return int(json.loads(lines[-1])["pos"]) + 1 if lines else 0


class Handling:
    """One message while it is handled; `id` is the message's."""

    __slots__ = ("_arguments", "_recorder", "_token", "id")

    def __init__(self, recorder: Recorder, *arguments: Any) -> None:
        self._recorder = recorder
        self._arguments = arguments
        self.id = ""

    def __enter__(self) -> "Handling":
        recorder = self._recorder
        self.id = recorder.delivered(*self._arguments)
        self._token = recorder._handled.set(self.id)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        where: TracebackType | None,
    ) -> None:  # fmt: skip
        self._recorder._handled.reset(self._token)


def id_in(headers: Mapping[str, Any] | None) -> str:
    """The message's id, or nothing if whoever sent it recorded nothing."""
    found = headers.get(HEADER) if headers else None
    if isinstance(found, str):
        return found
    if isinstance(found, bytes):
        return found.decode("utf-8", "replace")
    return "" if found is None else str(found)
