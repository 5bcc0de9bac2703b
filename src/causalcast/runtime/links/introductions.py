"""Nodes learn from one another where others can be reached.

An overlay that changes names nodes to nodes that never met them. Before a message that does so, a
frame with their addresses travels on the same link, each address once per link. A node that joins
knows an address only: it asks there who answers, and then joins through that node.
"""

import asyncio
import ssl
from typing import Final, cast

import msgspec

from causalcast.core.ids import NodeId
from causalcast.core.message import Message, Wire
from causalcast.errors import NodeError, WireError
from causalcast.limits import Limit
from causalcast.runtime.links.address_book import Address, AddressBook
from causalcast.runtime.links.carrier import Carrier
from causalcast.runtime.links.greeting import (
    ANSWER_LIMIT,
    ANYBODY,
    Greeting,
    differences,
    in_short,
    read_greeting,
)
from causalcast.runtime.security.identity import Passport, read_certificate
from causalcast.runtime.security.tls import objection_to
from causalcast.wire.framing import FrameReader, frame

MOST_REMEMBERED: Final = Limit(
    "runtime.links.introductions.most_remembered",
    4096,
    least=1,
    most=1 << 20,
    unit="nodes",
    about="nodes introduced on a link; beyond it they are introduced again",
)


class Addresses(Message):
    """Where nodes that the next message names can be reached."""

    wire = Wire("runtime.addresses", nodes=dict[NodeId, str])

    def __init__(self, nodes: dict[NodeId, str]) -> None:
        self.nodes = nodes


class Introduced:
    """Whose addresses went over one link."""

    __slots__ = ("_nodes",)

    def __init__(self) -> None:
        self._nodes: set[NodeId] = set()

    def of_strangers(self, named: list[NodeId], book: AddressBook) -> dict[NodeId, str]:
        """The addresses of those who were not introduced yet; they are from now on."""
        if len(self._nodes) > MOST_REMEMBERED.value:
            self._nodes.clear()
        found = {}
        for node in named:
            address = book.find(node)
            if node not in self._nodes and address is not None:
                found[node] = str(address)
                self._nodes.add(node)
        return found


def take_in(addresses: Addresses, book: AddressBook, tls: bool) -> None:
    """Believe them until the nodes tell themselves; WireError for what is no usable address."""
    for node, text in addresses.nodes.items():
        try:
            address = Address.parse(text)
        except ValueError:
            raise WireError(f"{text!r} is no address") from None
        if not tls and not address.is_loopback():
            raise WireError(f"{address} is not on loopback, and this cluster has no TLS")
        book.hear(node, address)


async def who_is_at(
    carrier: Carrier,
    address: Address,
    mine: Greeting,
    within: float,
    context: ssl.SSLContext | None,
) -> NodeId:
    """Who listens at `address`.

    OSError or TimeoutError if nobody does, NodeError if it could never be a neighbour.
    """
    theirs = await greeting_at(carrier, address, mine, within, context)
    found = differences(mine, theirs)
    if found:
        raise NodeError(f"the node at {address} cannot be a neighbour: {'; '.join(found)}")
    return NodeId(theirs.node)


class _Asking(asyncio.BufferedProtocol):
    """A connection on which each end only greets."""

    def __init__(self, mine: Greeting) -> None:
        self.theirs: asyncio.Future[Greeting] = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport | None = None
        self._mine = mine
        self._reader = FrameReader(ANSWER_LIMIT.value)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        asking = msgspec.structs.replace(
            self._mine, wanted=ANYBODY, facts=in_short(self._mine.facts)
        )
        self.transport.write(frame(asking.encode()))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.writable()

    def buffer_updated(self, nbytes: int) -> None:
        if self.theirs.done():
            return
        try:
            for body in self._reader.filled(nbytes, at_most=1):
                self.theirs.set_result(read_greeting(body))
        except WireError as error:
            self.theirs.set_exception(error)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.theirs.done():
            self.theirs.set_exception(ConnectionError("hung up before greeting"))


def _check_passport(transport: asyncio.Transport, greeting: Greeting) -> None:
    shown = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    objection = objection_to(Passport.of(read_certificate(shown)), greeting.node)
    if objection:
        raise WireError(objection)


async def greeting_at(
    carrier: Carrier,
    address: Address,
    mine: Greeting,
    within: float,
    context: ssl.SSLContext | None,
) -> Greeting:
    """The greeting of whoever listens at `address`, neighbour or not; `context` for TLS."""
    asking = _Asking(mine)
    try:
        async with asyncio.timeout(within):
            await carrier.connect(lambda: asking, address.host, address.port, context)
            theirs = await asking.theirs
        assert asking.transport is not None
        if context is not None:
            _check_passport(asking.transport, theirs)
        return theirs
    except WireError as error:
        raise NodeError(f"whoever listens at {address} is no node of ours: {error}") from None
    finally:
        asking.theirs.cancel()
        if asking.transport is not None:
            asking.transport.close()
