"""asyncio's own ways to connect and to listen, over the simulated network.

Doors for clients, and clients, speak WebSocket through a library that asks the event loop for its
sockets. Here the loop gives it connections of the world, so that the library itself runs, too.
"""

import asyncio
import contextvars
from typing import Any, Final, final

from causalcast.nodeworld.lives import life_of
from causalcast.nodeworld.network import Network, SimTransport
from causalcast.runtime.links.carrier import ProtocolFactory

# On which machine of the network a client runs: where its connections come from.
MACHINE: Final[contextvars.ContextVar[int]] = contextvars.ContextVar("machine")


@final
class SimServer:
    """What `create_server` returns: somebody listens at a port."""

    def __init__(self, network: Network, factory: ProtocolFactory, port: int) -> None:
        self.is_open = True
        self.context = contextvars.copy_context()
        self.life = life_of(self.context)
        self.sockets: tuple[Any, ...] = ()
        self._network = network
        self._factory = factory
        self._port = port
        network.bind(self, port)

    def let_in(self, transport: SimTransport, address: str) -> None:
        """Somebody dialled."""
        self._network.loop.call_soon(self._welcome, transport, context=self.context)

    def _welcome(self, transport: SimTransport) -> None:
        if self.is_open:
            transport.begin(self._factory())
        else:
            transport.abort()

    # What asyncio's servers do

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._network.loop

    def is_serving(self) -> bool:
        return self.is_open

    def close(self) -> None:
        self.is_open = False
        self._network.unbind(self, self._port)

    async def wait_closed(self) -> None:
        """Nobody is accepted any more from `close` on."""


async def connected(
    network: Network, factory: ProtocolFactory, port: int
) -> tuple[SimTransport, asyncio.BaseProtocol]:
    """What `create_connection` returns, for who runs on a machine of the network."""
    made: list[asyncio.BaseProtocol] = []

    def make() -> asyncio.BaseProtocol:
        made.append(factory())
        return made[0]

    transport = await network.connect(make, MACHINE.get(), port)
    return transport, made[0]
