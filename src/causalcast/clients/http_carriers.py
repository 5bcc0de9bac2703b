"""What takes a session's words over HTTP: one answer, or a stream of server-sent events."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import final

from causalcast.clients import protocol
from causalcast.clients.http_request import head_of
from causalcast.clients.position_token import sent_token
from causalcast.clients.protocol import Delivery, Refusal, Reply, Subscribe
from causalcast.clients.session import Ended, Refused, Session


@final
class OneAnswer:
    """One request, and the answer to it."""

    def __init__(self, frame: str | bytes) -> None:
        self._frame = frame
        self._is_over = asyncio.Event()
        self.reply: Reply | None = None

    async def __aiter__(self) -> AsyncIterator[str | bytes]:
        yield self._frame
        await self._is_over.wait()

    async def send(self, message: str | bytes) -> None:
        """The answer."""
        self.reply, _ = protocol.decode_reply(message)
        self._is_over.set()

    async def close(self, code: int = 1000) -> None:
        """There is none."""
        self._is_over.set()


@final
class EventStream:
    """A subscription whose messages are events; each event's id says where to go on."""

    def __init__(
        self, writer: asyncio.StreamWriter, request: Subscribe, headers: dict[str, str]
    ) -> None:
        """A request with a window is acknowledged by the client; others when they are written."""
        self.id = secrets.token_urlsafe(12)
        self.session: Session
        self.has_begun = False
        self._writer = writer
        self._headers = headers
        self._waits_for_acks = request.window > 0
        self._request = protocol.encode(request)

    async def __aiter__(self) -> AsyncIterator[str | bytes]:
        yield self._request
        await asyncio.Event().wait()  # acknowledgements come another way

    async def send(self, message: str | bytes) -> None:
        """One event; Refused if nothing may be read."""
        assert isinstance(message, str)
        reply, _ = protocol.decode_reply(message)
        if isinstance(reply, Refusal):
            raise Refused(reply.code, reply.error, reply.group)
        if not self.has_begun:
            self._begin()
        kind = "message" if isinstance(reply, Delivery) else "subscribed"
        token = sent_token(*self.session.position())
        self._writer.write(f"event: {kind}\nid: {token}\ndata: {message}\n\n".encode())
        await self._writer.drain()
        if isinstance(reply, Delivery) and not self._waits_for_acks:
            self.session.acknowledge([reply.message])

    async def close(self, code: int = 1000) -> None:
        """It is let go."""
        self._writer.transport.abort()

    async def end(self, ended: Ended) -> None:
        """Tell it why, and hang up."""
        if self.has_begun:
            refusal = protocol.encode(Refusal(0, ended.code, str(ended)))
            self._writer.write(f"event: refusal\ndata: {refusal}\n\n".encode())
        self._writer.close()

    async def beat(self, seconds: float) -> None:
        """Now and then a line that says nothing, so that both ends notice if the other is gone."""
        while True:
            await asyncio.sleep(seconds)
            if self.has_begun:
                self._writer.write(b":\n\n")

    def _begin(self) -> None:
        self.has_begun = True
        headers = {
            "Content-Type": "text/event-stream",
            "Cache-Control": "no-store",
            "Connection": "close",
            "Causalcast-Stream": self.id,
            **self._headers,
        }
        self._writer.write(head_of("200 OK", headers))
        self._writer.write(f"event: stream\ndata: {self.id}\n\n".encode())
