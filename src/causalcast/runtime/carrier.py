"""What carries links: something that can be listened at and dialled, with asyncio's transports."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Final, Protocol

FAREWELL_WITHIN: Final = 1.0  # seconds for the other end to say that it has heard the last

ProtocolFactory = Callable[[], asyncio.BaseProtocol]


class Listener(Protocol):
    """A place that can be dialled; asyncio.Server is one."""

    async def start_serving(self) -> None:
        """Accept dials from now on."""

    def close(self) -> None:
        """Accept none any more."""


class Carrier(Protocol):
    """How bytes come from one node to another, in order."""

    async def bind(self, accept: ProtocolFactory, host: str, port: int) -> Listener:
        """Take a place; dials are accepted once it serves. OSError if somebody else has it."""

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int, context: ssl.SSLContext | None
    ) -> None:
        """Dial, over TLS where there is a context; OSError if the connection never stands."""


class TcpCarrier:
    """TCP, as asyncio has it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    async def bind(self, accept: ProtocolFactory, host: str, port: int) -> Listener:
        return await self._loop.create_server(accept, host, port, start_serving=False)

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int, context: ssl.SSLContext | None
    ) -> None:
        if context is None:
            await self._loop.create_connection(factory, host, port)
        else:
            await self._loop.create_connection(
                factory, host, port, ssl=context, ssl_shutdown_timeout=FAREWELL_WITHIN
            )
