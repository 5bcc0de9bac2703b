"""The control socket of a running node: JSON lines over a unix socket in the node's folder.

A request is one object with `do`; the answer is one object with `ok`. `subscribe` is answered by
one line per message, and the subscriber acknowledges what it has handled (`subscriptions`). Whoever
may open the socket may publish: it is for the node's own user.

    {"do": "publish", "group": "chat", "text": "hello"}   {"do": "status"}   {"do": "stop"}
    {"do": "publish", "group": "chat", "base64": "AAEC"}  {"do": "explain", "message": "3.17"}
    {"do": "subscribe", "group": "chat"}, and then        {"do": "ack", "message": "3.17"}
    {"do": "subscribe", "group": "chat", "reader": "search"}
    {"do": "unsubscribe", "group": "chat", "reader": "search"}
    {"do": "preview", "words": "gone 3"}                  {"do": "command", "words": "gone 3"}
    {"do": "commands"}                                    {"do": "metrics"}
    {"do": "events", "since": 17}
    {"do": "join_group", "group": "chat"}                 {"do": "leave_group", "group": "chat"}
"""

import asyncio
import base64
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from causalcast.errors import CausalcastError, NodeError
from causalcast.limits import Limit, Span
from causalcast.runtime.node import Node
from causalcast.runtime.operating.control_client import (
    Answer,
    control_path,
    id_named,
    line_of,
    name_of,
    short_name,
)
from causalcast.runtime.operating.subscriptions import Feed, Subscriber
from causalcast.runtime.storage.reader_table import check_name

_LINE_LIMIT: Final = Limit(
    "runtime.operating.control.line_limit",
    16 << 20,
    least=4 << 20,
    most=256 << 20,
    unit="bytes",
    about="a line on the control socket: a body as text",
)
ANSWER_WITHIN: Final = Span(
    "runtime.operating.control.answer_within",
    1.0,
    least=0.01,
    most=60.0,
    about="for what was asked before the node stopped",
)

# What a program adds to the requests of its node; it may take its time.
ProgramRequest = Callable[[Answer], Answer | Awaitable[Answer]]


class ControlServer:
    """Answers requests for one node. `extra` adds requests of the program around it."""

    def __init__(self, node: Node, extra: Mapping[str, ProgramRequest] | None = None) -> None:
        self.stop_asked = asyncio.Event()
        self._node = node
        self._extra = extra or {}
        self._path = control_path(node.config.folder, node.config.control_name())
        self._server: asyncio.Server | None = None
        self._feeds: dict[tuple[str, str], Feed] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._requests: dict[str, Callable[[Answer], Awaitable[Answer]]] = {
            "publish": self._publish,
            "status": self._status,
            "explain": self._explain,
            "metrics": self._metrics,
            "events": self._events,
            "commands": self._commands,
            "preview": self._preview,
            "command": self._command,
            "join_group": self._join_group,
            "leave_group": self._leave_group,
            "unsubscribe": self._unsubscribe,
            "stop": self._stop,
        }

    async def start(self) -> None:
        """Open the socket; one that a killed node left is removed (the journal is locked by us)."""
        self._path.unlink(missing_ok=True)
        before = os.umask(0o177)  # nobody else may open it, not even between two lines
        try:
            with short_name(self._path) as name:
                self._server = await asyncio.start_unix_server(
                    self._serve, name, limit=_LINE_LIMIT.value
                )
        finally:
            os.umask(before)

    async def close(self) -> None:
        """Close the socket and end all subscriptions."""
        if self._server is not None:
            self._server.close()
        if self._answering:  # who asked hears why the node stops
            await asyncio.wait(self._answering, timeout=ANSWER_WITHIN.value)
        for feed in self._feeds.values():
            await feed.close()
        self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                request = _parse(line)
                if request.get("do") == "subscribe":
                    await self._subscribe(request, reader, writer)
                    break
                answering = asyncio.create_task(self._send_answer(request, writer))
                self._answering.add(answering)
                answering.add_done_callback(self._answering.discard)
                await answering
        except (ConnectionError, ValueError):
            pass  # whoever asked has gone, or talks no lines
        finally:
            writer.close()

    async def _send_answer(self, request: Answer, writer: asyncio.StreamWriter) -> None:
        writer.write(line_of(await self._answer(request)))
        await writer.drain()

    async def _answer(self, request: Answer) -> Answer:
        name = str(request.get("do"))
        try:
            if name in self._extra:
                answer = self._extra[name](request)
                return {"ok": True, **(answer if isinstance(answer, dict) else await answer)}
            if name not in self._requests:
                known = ", ".join([*self._requests, "subscribe", *self._extra])
                raise NodeError(f"no request {name!r} (known: {known})")
            return {"ok": True, **await self._requests[name](request)}
        except CausalcastError as error:
            return {"ok": False, "error": str(error)}

    async def _publish(self, request: Answer) -> Answer:
        group = self._node.group(str(request.get("group")))
        headers, content_type = request.get("headers", {}), request.get("content_type", "")
        if not isinstance(headers, dict) or not isinstance(content_type, str):
            raise NodeError("expected an object of texts in `headers`, a text in `content_type`")
        receipt = await group.publish(_body_of(request), headers, content_type)
        return {"message": name_of(receipt.id)}

    async def _status(self, request: Answer) -> Answer:
        return self._node.status()

    async def _explain(self, request: Answer) -> Answer:
        asked = id_named(str(request.get("message")))
        waits_for = [name_of(message) for message in self._node.explain(asked)]
        return {"waits_for": waits_for, "reasons": self._node.reasons(asked)}

    async def _metrics(self, request: Answer) -> Answer:
        return {"text": self._node.metrics()}

    async def _events(self, request: Answer) -> Answer:
        """Those from a number on, as far as they are kept, and the number of the next one."""
        since = request.get("since", 0)
        if not isinstance(since, int):
            raise NodeError("expected a number in `since`: that of the first event")
        kept = self._node.events_since(since)
        return {"events": [vars(event) for event in kept], "next": self._node.event_count()}

    async def _commands(self, request: Answer) -> Answer:
        forms = self._node.config.blueprint.protocol.commands.values()
        return {"commands": {form.usage(): form.meaning for form in forms}}

    async def _preview(self, request: Answer) -> Answer:
        return {"losses": self._node.preview(str(request.get("words")))}

    async def _command(self, request: Answer) -> Answer:
        self._node.command(str(request.get("words")))
        return {}

    async def _join_group(self, request: Answer) -> Answer:
        group = self._node.group(str(request.get("group")))
        return {"changed": group.join(), "member": group.is_member()}

    async def _leave_group(self, request: Answer) -> Answer:
        return {"changed": self._node.group(str(request.get("group"))).leave()}

    async def _unsubscribe(self, request: Answer) -> Answer:
        name = str(request.get("reader"))
        await self._node.group(str(request.get("group"))).unsubscribe(name)
        return {}

    async def _stop(self, request: Answer) -> Answer:
        self.stop_asked.set()
        return {}

    async def _subscribe(
        self, asked: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Hand over messages until they hang up; meanwhile they say what they have handled."""
        group, name = str(asked.get("group")), asked.get("reader", "")
        try:
            self._node.group(group).check_joinable()
            if name != "":
                check_name(name)
                await self._node.group(group).subscribe(name)
        except NodeError as error:
            writer.write(line_of({"ok": False, "error": str(error)}))
            return
        writer.write(line_of({"ok": True, "group": group}))
        feed = self._feeds.get((group, name))
        if feed is None:
            feed = self._feeds[group, name] = Feed(self._node, group, name)
        subscriber = Subscriber(writer)
        feed.join(subscriber)
        try:
            while line := await reader.readline():
                request = _parse(line)
                if request.get("do") != "ack":
                    raise NodeError('a subscriber says nothing but {"do": "ack", "message": …}')
                await feed.acknowledge(subscriber, id_named(str(request.get("message"))))
        except NodeError as error:
            subscriber.cut_off(str(error))
        finally:
            feed.leave(subscriber)


def _body_of(request: Answer) -> bytes:
    """What is to be published: a text, or any bytes in base64."""
    text, encoded = request.get("text"), request.get("base64")
    if isinstance(text, str) and encoded is None:
        return text.encode()
    if isinstance(encoded, str) and text is None:
        try:
            return base64.b64decode(encoded, validate=True)
        except ValueError as error:
            raise NodeError(f"base64 cannot be decoded: {error}") from None
    raise NodeError("expected what to publish, as text or as base64: one of them, a string")


def _parse(line: bytes) -> Answer:
    try:
        request = json.loads(line)
    except ValueError:
        return {}
    return request if isinstance(request, dict) else {}
