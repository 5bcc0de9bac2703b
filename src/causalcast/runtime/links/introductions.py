"""Nodes learn from one another where others can be reached.

An overlay that changes names nodes to nodes that never met them. Before a message that does so, a
frame with their addresses travels on the same link, each address once per link. A node that joins
knows an address only: it asks there who answers, and then joins through that node.
"""

import asyncio
import ssl
from typing import Final

import msgspec

from causalcast.core.ids import NodeId
from causalcast.core.message import Message, Wire
from causalcast.errors import NodeError, WireError
from causalcast.runtime.links.address_book import Address, AddressBook
from causalcast.runtime.links.greeting import ANYBODY, LIMIT, Greeting, differences, read_greeting
from causalcast.runtime.security.identity import Passport, read_certificate
from causalcast.runtime.security.tls import objection_to
from causalcast.wire.framing import LENGTH_BYTES, frame

MOST_REMEMBERED: Final = 4096  # nodes introduced on a link; beyond it they are introduced again


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
        if len(self._nodes) > MOST_REMEMBERED:
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
    address: Address, mine: Greeting, within: float, context: ssl.SSLContext | None
) -> NodeId:
    """Who listens at `address`.

    OSError or TimeoutError if nobody does, NodeError if it could never be a neighbour.
    """
    theirs = await greeting_at(address, mine, within, context)
    found = differences(mine, theirs)
    if found:
        raise NodeError(f"the node at {address} cannot be a neighbour: {'; '.join(found)}")
    return NodeId(theirs.node)


def _check_passport(writer: asyncio.StreamWriter, greeting: Greeting) -> None:
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    objection = objection_to(Passport.of(read_certificate(shown)), greeting.node)
    if objection:
        raise WireError(objection)


async def greeting_at(
    address: Address, mine: Greeting, within: float, context: ssl.SSLContext | None
) -> Greeting:
    """The greeting of whoever listens at `address`, neighbour or not; `context` for TLS."""
    async with asyncio.timeout(within):
        reader, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
        try:
            writer.write(frame(msgspec.structs.replace(mine, wanted=ANYBODY).encode()))
            length = int.from_bytes(await reader.readexactly(LENGTH_BYTES))
            if length > LIMIT:
                raise WireError("its greeting is too long")
            theirs = read_greeting(await reader.readexactly(length))
            if context is not None:
                _check_passport(writer, theirs)
            return theirs
        except asyncio.IncompleteReadError:
            raise ConnectionError("hung up before greeting") from None
        except WireError as error:
            raise NodeError(f"whoever listens at {address} is no node of ours: {error}") from None
        finally:
            writer.close()
