"""What a client has asked for, and what becomes of it when a connection ends.

A request without an answer is sent again over the next connection. A publication is so only if
that leads to the node which may have made it, since no other can know whether it was made.
"""

import asyncio
import contextlib
import itertools
import secrets
from typing import Final, final

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State

from causalcast.clients import protocol
from causalcast.clients.protocol import Publish, Published, Refusal, Reply
from causalcast.core.ids import MessageId
from causalcast.errors import Gap, GroupRefused, NodeError, Unanswered
from causalcast.limits import Limit
from causalcast.runtime.metadata import Metadata

PENDING: Final = Limit(
    "clients.requests.pending",
    256,
    least=1,
    most=1 << 10,
    unit="messages",
    about="publications of a client that wait for their answers; then the next one waits",
)
Plain = (
    protocol.ListGroups
    | protocol.Presence
    | protocol.Subscribe
    | protocol.Unsubscribe
    | protocol.CreateGroup
    | protocol.RemoveGroup
)
Answer = (
    Published
    | protocol.Subscribed
    | protocol.GroupList
    | protocol.Present
    | protocol.Done
    | Refusal
)


@final
class Asked:
    """A request without an answer."""

    __slots__ = ("answer", "frame", "is_publication", "node", "sent_over")

    def __init__(self, frame: str | bytes, is_publication: bool) -> None:
        self.frame = frame
        self.is_publication = is_publication
        self.answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.node: int | None = None  # which it was sent to
        self.sent_over: ClientConnection | None = None


@final
class Requests:
    """All requests without answers, and the connection over which they go now."""

    def __init__(self) -> None:
        self.socket: ClientConnection | None = None
        self.failure: NodeError | None = None  # nothing is asked any more
        self._node = 0  # at the other end
        self._goes_on = False  # what was asked before is asked again: it goes first
        self._asked: dict[int, Asked] = {}
        self._numbers = itertools.count(1)
        self._key = secrets.token_hex(12)
        self._room = asyncio.Semaphore(PENDING.value)

    def number(self) -> int:
        """For the next request."""
        return next(self._numbers)

    async def ask(self, request: Plain) -> Reply:
        """Send it, and wait for the answer, over as many connections as it takes."""
        return await self._send(request.id, Asked(protocol.encode(request), False))

    async def publish(self, group: str, body: bytes, key: str, said: Metadata | None) -> MessageId:
        """The same for a publication; Unanswered if its node is gone."""
        number = self.number()
        request = Publish(number, group, key or f"{self._key}-{number}")
        if said is not None:
            request.headers, request.content_type = dict(said.headers), said.content_type
        async with self._room:
            asked = Asked(protocol.encode_with_body(request, body), True)
            reply = await self._send(number, asked)
        assert isinstance(reply, Published)
        return protocol.id_named(reply.message)

    async def ask_first(self, request: Plain) -> "asyncio.Future[Reply]":
        """Send it before all that was asked before, over this connection alone."""
        assert self.socket is not None
        asked = self._asked[request.id] = Asked(protocol.encode(request), False)
        asked.answer.add_done_callback(lambda _: self._asked.pop(request.id, None))
        await self._send_over(self.socket, asked)
        return asked.answer

    def forget(self, number: int) -> None:
        """Nobody wants the answer any more."""
        self._asked.pop(number, None)

    def publications_wait(self) -> bool:
        """Whether the last node may have made publications that are not answered."""
        return any(one.is_publication and one.node is not None for one in self._asked.values())

    # The connection

    def begin(self, socket: ClientConnection, node: int) -> None:
        """A connection to `node` was made; give up what only another node can answer."""
        self.socket, self._node = socket, node
        for asked in self._asked.values():
            is_elsewhere = asked.is_publication and asked.node not in (None, node)
            if is_elsewhere and not asked.answer.done():
                asked.answer.set_exception(
                    Unanswered(
                        f"node {asked.node}, which was asked to publish this, is gone, and node "
                        f"{node} cannot know whether it did"
                    )
                )

    async def send_again(self) -> None:
        """Ask over this connection for all that was not answered."""
        socket = self.socket
        assert socket is not None
        while True:
            # What was given up is still here until its caller has its turn.
            unsent = [
                one
                for one in self._asked.values()
                if one.sent_over is not socket and not one.answer.done()
            ]
            if not unsent:
                break  # nobody has asked for anything since
            for asked in unsent:
                await self._send_over(socket, asked)
        self._goes_on = True

    def end(self) -> None:
        """The connection is lost."""
        self.socket = None
        self._goes_on = False

    def answered(self, reply: Answer) -> None:
        """A node has answered."""
        asked = self._asked.get(reply.id)
        if asked is None or asked.answer.done():
            return
        if not isinstance(reply, Refusal):
            asked.answer.set_result(reply)
        elif reply.code == protocol.GAP:
            asked.answer.set_exception(Gap(reply.error, reply.group))
        elif reply.group:
            asked.answer.set_exception(GroupRefused(reply.error, reply.group))
        elif reply.code != protocol.STOPPING:  # a node that stops is asked again when it is back
            asked.answer.set_exception(NodeError(reply.error))

    def fail(self, failure: NodeError) -> None:
        """Nothing is answered any more."""
        self.failure = failure
        for asked in list(self._asked.values()):
            if not asked.answer.done():
                asked.answer.set_exception(failure)

    async def _send(self, number: int, asked: Asked) -> Reply:
        if self.failure is not None:
            raise self.failure
        self._asked[number] = asked
        try:
            if self.socket is not None and self._goes_on:
                await self._send_over(self.socket, asked)
            return await asked.answer
        finally:
            self.forget(number)

    async def _send_over(self, socket: ClientConnection, asked: Asked) -> None:
        asked.sent_over = socket
        if socket.state is not State.OPEN:
            return  # it has not left, and is asked for over the next connection
        asked.node = self._node
        with contextlib.suppress(ConnectionClosed):  # it is asked again
            await socket.send(asked.frame)
