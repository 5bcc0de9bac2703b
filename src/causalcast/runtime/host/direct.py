"""Requests from one node to another, beside the protocol: over the link between two neighbours.

A request is sent once and never repeated, so it is handled at most once. Whoever asks gets the
answer, or an error that says what is known: a request whose link was lost may have been handled.
Nothing is kept on disk, and nothing is promised about the order of requests and publications.

Such a frame begins with a byte that no message of a protocol begins with, and is sent only to those
who have said in their greeting that they know it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Final, final

import msgspec

from causalcast.core.ids import NodeId
from causalcast.errors import NodeError, WireError
from causalcast.limits import Limit
from causalcast.printable import printable

LONGEST_ERROR: Final = 500  # characters of an error that travels back

MOST_ASKED = Limit(
    "runtime.host.direct.most_asked",
    1000,
    least=1,
    most=1 << 16,
    unit="requests",
    about="requests of this node that wait for an answer",
)
MOST_ANSWERED = Limit(
    "runtime.host.direct.most_answered",
    64,
    least=1,
    most=1 << 12,
    unit="requests",
    about="requests of one neighbour that are being handled; more are refused",
)

# Answers a neighbour: who asks, of which group, and what. A NodeError travels back as it is.
Answer = Callable[[NodeId, int, bytes], Awaitable[bytes]]


class Request(msgspec.Struct, array_like=True, frozen=True, tag=0):
    """Somebody wants an answer."""

    number: int  # of the asker, in this life
    kind: str
    group: int
    body: bytes


class Reply(msgspec.Struct, array_like=True, frozen=True, tag=1):
    """What it is, or why there is none."""

    number: int
    body: bytes
    error: str = ""


_decoder: Final[msgspec.msgpack.Decoder[Request | Reply]] = msgspec.msgpack.Decoder(Request | Reply)


@final
class Direct:
    """Asks neighbours and answers them."""

    def __init__(
        self,
        send: Callable[[NodeId, bytes], str],
        beside: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        """`send` lets bytes leave to a neighbour and returns why it cannot, or nothing; `beside`
        lets something go on while the node lives."""
        self.answers: dict[str, Answer] = {}  # by kind
        self._send = send
        self._beside = beside
        self._last = 0
        self._waiting: dict[int, tuple[NodeId, asyncio.Future[bytes]]] = {}
        self._answering: dict[NodeId, int] = {}

    async def ask(self, peer: NodeId, kind: str, group: int, body: bytes, timeout: float) -> bytes:
        """What `peer` answers; NodeError if it does not, or says why it cannot."""
        if len(self._waiting) >= MOST_ASKED.value:
            raise NodeError(f"{len(self._waiting)} requests wait for an answer; ask more slowly")
        self._last += 1
        number = self._last
        why_not = self._send(peer, msgspec.msgpack.encode(Request(number, kind, group, body)))
        if why_not:
            raise NodeError(f"node {peer} was not asked: {why_not}")
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[number] = peer, answered
        try:
            async with asyncio.timeout(timeout):
                return await answered
        except TimeoutError:
            raise NodeError(
                f"node {peer} has not answered within {timeout:g} s; it may have handled the "
                "request, or not"
            ) from None
        finally:
            self._waiting.pop(number, None)
            if answered.done() and not answered.cancelled():
                answered.exception()  # nobody else asks for it

    def came(self, peer: NodeId, data: bytes) -> None:
        """A frame of a neighbour, without its first byte; WireError for one that is none."""
        try:
            found = _decoder.decode(data)
        except (msgspec.DecodeError, ValueError) as error:
            raise WireError(f"no request and no answer: {error}") from None
        if isinstance(found, Request):
            self._asked(peer, found)
            return
        asked, answered = self._waiting.get(found.number, (None, None))
        if answered is None or asked != peer or answered.done():
            return  # too late, or from an earlier life
        if found.error:
            said = printable(found.error)[:LONGEST_ERROR]
            answered.set_exception(NodeError(f"node {peer}: {said}"))
        else:
            answered.set_result(found.body)

    def lost(self, peer: NodeId) -> None:
        """The link to a neighbour is gone: what was asked there has no answer."""
        for asked, answered in self._waiting.values():
            if asked == peer and not answered.done():
                answered.set_exception(
                    NodeError(
                        f"the link to node {peer} was lost before it answered; it may have handled "
                        "the request, or not"
                    )
                )

    def end(self) -> None:
        """The node stops."""
        for _, answered in self._waiting.values():
            if not answered.done():
                answered.set_exception(NodeError("the node was stopped"))

    def _asked(self, peer: NodeId, request: Request) -> None:
        count = self._answering.get(peer, 0)
        if count >= MOST_ANSWERED.value:
            busy = f"it handles {count} requests of this node already; ask more slowly"
            self._reply(peer, Reply(request.number, b"", busy))
            return
        self._answering[peer] = count + 1
        self._beside(self._answer(peer, request))

    async def _answer(self, peer: NodeId, request: Request) -> None:
        answer = self.answers.get(request.kind)
        try:
            if answer is None:
                raise NodeError(f"it knows no request {request.kind!r}")
            body = await answer(peer, request.group, request.body)
            reply = Reply(request.number, body)
        except NodeError as error:
            reply = Reply(request.number, b"", str(error)[:LONGEST_ERROR] or "refused")
        except Exception as error:
            said = f"its handler failed: {error!r}"
            reply = Reply(request.number, b"", said[:LONGEST_ERROR])
            problem = {"message": f"answering node {peer} failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(problem)
        finally:
            self._answering[peer] -= 1
            if not self._answering[peer]:
                del self._answering[peer]
        self._reply(peer, reply)

    def _reply(self, peer: NodeId, reply: Reply) -> None:
        self._send(peer, msgspec.msgpack.encode(reply))  # whoever is away asks again, or does not
