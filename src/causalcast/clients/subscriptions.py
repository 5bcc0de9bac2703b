"""The groups that a client reads, over as many connections as it takes."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Protocol, final

from websockets.exceptions import ConnectionClosed

from causalcast.any_node import Since
from causalcast.clients import protocol
from causalcast.clients.client_position import ClientPosition
from causalcast.clients.dialling import CLOSED_WITHIN
from causalcast.clients.protocol import Ack, Delivery, Subscribe, Subscribed, Unsubscribe
from causalcast.clients.requests import Requests
from causalcast.core.ids import MessageId
from causalcast.errors import Gap, GroupRefused, NodeError
from causalcast.runtime.metadata import Metadata


class Subscriber(Protocol):
    """Who reads one group."""

    name: str
    since: Since

    def arrived(self, message: MessageId, body: bytes, known: Metadata) -> None:
        """A message came, and what travelled with it."""

    def fail(self, failure: NodeError) -> None:
        """Nothing comes any more."""

    def stop_calling(self) -> None:
        """Nobody wants to hear of anything any more."""


@final
class Subscriptions:
    """Who reads which group, and what the node was not told yet."""

    def __init__(self, requests: Requests, position: ClientPosition) -> None:
        self.requests = requests
        self.position = position
        self._by_name: dict[str, Subscriber] = {}
        self._handled: list[str] = []  # not told yet
        self._telling: asyncio.Future[None] | None = None
        self._again = 0  # the request to read the groups again
        self._reading_again: asyncio.Future[None] | None = None

    def reader_of(self, name: str) -> Subscriber | None:
        """Who reads a group now."""
        return self._by_name.get(name)

    async def add(self, readers: Sequence[Subscriber]) -> None:
        """Messages of these groups come from now on, in one order."""
        for reader in readers:
            if reader.name in self._by_name:
                raise NodeError(second_reader(repr(reader.name)))
        self._by_name |= {reader.name: reader for reader in readers}
        try:
            reply = await self.requests.ask(self._request(readers))
        except BaseException as error:
            for reader in readers:
                self._by_name.pop(reader.name, None)
            if isinstance(error, Gap):
                self.position.seen.pop(error.group, None)  # who enters it again begins anew
            raise
        assert isinstance(reply, Subscribed)
        self.position.note_subscribed(reply)

    async def remove(self, names: Sequence[str]) -> None:
        """No more messages of these groups; the position stays."""
        for name in names:
            reader = self._by_name.pop(name, None)
            if reader is not None:
                reader.stop_calling()
        if self.requests.failure is None and self.requests.socket is not None:
            with contextlib.suppress(NodeError, TimeoutError):  # what still comes is not read
                async with asyncio.timeout(CLOSED_WITHIN.value):
                    await self.requests.ask(Unsubscribe(self.requests.number(), list(names)))

    def arrived(self, delivery: Delivery, behind: bytes | None) -> None:
        """A message came."""
        message = protocol.id_named(delivery.message)
        protocol.note(self.position.past, delivery.group, message)
        reader = self._by_name.get(delivery.group)
        if reader is not None:
            known = Metadata(delivery.published_us, delivery.headers, delivery.content_type)
            reader.arrived(message, protocol.body_of(delivery, behind), known)
        else:
            self.tell_handled(message)  # it is not read any more, and must not fill a window

    def tell_handled(self, message: MessageId) -> None:
        """Let the node know soon, with others."""
        if not self._handled:
            asyncio.get_running_loop().call_soon(self._flush)
        self._handled.append(protocol.name_of(message))

    async def tell(self) -> None:
        """Let the node know now what is handled."""
        if self._handled and self.requests.socket is not None:
            told, self._handled = self._handled, []
            with contextlib.suppress(ConnectionClosed):  # the next node is told the position
                await self.requests.socket.send(protocol.encode(Ack(told)))

    async def read_again(self) -> None:
        """Go on over a new connection, in one request, so that all groups come in one order. Those
        that were never answered are asked for again as they were."""
        self.requests.forget(self._again)  # it was over another connection
        self._handled.clear()  # meanwhile; the request has the position
        readers = [one for name, one in self._by_name.items() if name in self.position.seen]
        if readers:
            request = self._request(readers)
            self._again = request.id
            answer = await self.requests.ask_first(request)
            answer.add_done_callback(self._on_reading_again)

    def connection_lost(self) -> None:
        """The next node is told the position."""
        self._handled.clear()

    def close(self) -> None:
        """Nobody wants to hear of anything any more."""
        for reader in self._by_name.values():
            reader.stop_calling()

    def fail(self, failure: NodeError) -> None:
        """Nothing comes any more."""
        for reader in self._by_name.values():
            reader.fail(failure)

    def _request(self, readers: Sequence[Subscriber]) -> Subscribe:
        position = self.position
        names = [reader.name for reader in readers]
        seen = {name: position.seen[name] for name in names if name in position.seen}
        return Subscribe(self.requests.number(), names, seen, position.log, readers[0].since)

    def _flush(self) -> None:
        if self._handled and self.requests.socket is not None:
            self._telling = asyncio.ensure_future(self.tell())

    def _on_reading_again(self, answer: "asyncio.Future[protocol.Reply]") -> None:
        if answer.cancelled():
            return
        error = answer.exception()
        if isinstance(error, Gap | GroupRefused) and error.group in self._by_name:
            # It alone cannot go on: who enters it again begins anew.
            self.position.seen.pop(error.group, None)
            self._by_name.pop(error.group).fail(error)
            if self.requests.socket is not None:
                self._reading_again = asyncio.ensure_future(self.read_again())
        elif isinstance(error, NodeError):
            self.fail(error)
        elif error is None:
            reply = answer.result()
            if isinstance(reply, Subscribed):
                self.position.note_subscribed(reply)


def second_reader(names: str) -> str:
    """What a second reader is told."""
    return (
        f"{names} is read already: what one reader takes no other gets, so a group of a client has "
        "one at a time (connect once more for another)"
    )
