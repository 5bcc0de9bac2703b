"""What carries links: something that can be listened at and dialled, with asyncio's transports."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Protocol

from causalcast.runtime.links.address_book import Address
from causalcast.runtime.links.doorway import FAREWELL_WITHIN, Doorway, Strangers

ProtocolFactory = Callable[[], asyncio.BaseProtocol]
ContextNow = Callable[[], ssl.SSLContext | None]


class Door(Protocol):
    """Where dials arrive."""

    async def bind(self, address: Address) -> None:
        """Take `address`; OSError where that cannot be."""

    def open(self) -> None:
        """Accept dials from now on."""

    def close(self) -> None:
        """Accept nobody any more."""


class Carrier(Protocol):
    """How bytes come from one node to another, in order."""

    def doorway(
        self,
        strangers: Strangers,
        guest: ProtocolFactory,
        context: ContextNow,
        failed: Callable[[str], None],
    ) -> Door:
        """The way in, over TLS where there is a context; `failed` hears of failed handshakes."""

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int, context: ssl.SSLContext | None
    ) -> None:
        """Dial, over TLS where there is a context; OSError if the connection never stands."""


class TcpCarrier:
    """TCP, as asyncio has it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def doorway(
        self,
        strangers: Strangers,
        guest: ProtocolFactory,
        context: ContextNow,
        failed: Callable[[str], None],
    ) -> Doorway:
        return Doorway(strangers, guest, context, failed)

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int, context: ssl.SSLContext | None
    ) -> None:
        if context is None:
            await self._loop.create_connection(factory, host, port)
        else:
            await self._loop.create_connection(
                factory, host, port, ssl=context, ssl_shutdown_timeout=FAREWELL_WITHIN.value
            )
