"""Where dials arrive: strangers are few, and have little time.

Until a connection has shown who it is (TLS, then the greeting) it is a stranger. Strangers are
bounded in number, in all and per address. When there are too many, the oldest of the address that
has most must go: whoever means well needs a few milliseconds, so it is seldom the oldest.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Final, Protocol

from causalcast.runtime.carrier import FAREWELL_WITHIN

MOST_STRANGERS: Final = 32
MOST_PER_ADDRESS: Final = 16
HANDSHAKE_WITHIN: Final = 5.0  # seconds from being accepted to the end of the handshake


class Stranger(Protocol):
    """Something that can be shown the door."""

    def abort(self) -> None:
        """Close it at once."""


class Strangers:
    """Who is there and not known yet, by address, the oldest first."""

    def __init__(self, most: int = MOST_STRANGERS, per_address: int = MOST_PER_ADDRESS) -> None:
        self.turned_away = 0
        self.most_at_once = 0
        self._most = most
        self._per_address = per_address
        self._by_address: dict[str, dict[Stranger, None]] = {}
        self._addresses: dict[Stranger, str] = {}

    def __len__(self) -> int:
        return len(self._addresses)

    def enter(self, stranger: Stranger, address: str) -> None:
        """One more; somebody may have to go for it."""
        here = self._by_address.setdefault(address, {})
        here[stranger] = None
        self._addresses[stranger] = address
        if len(here) > self._per_address:
            self._turn_away(next(iter(here)))
        elif len(self._addresses) > self._most:
            fullest = max(self._by_address.values(), key=len)
            self._turn_away(next(iter(fullest)))
        self.most_at_once = max(self.most_at_once, len(self._addresses))

    def replace(self, before: Stranger, after: Stranger) -> None:
        """The same stranger, a step further; it keeps its place in time."""
        address = self._addresses.pop(before, None)
        if address is not None:
            self._addresses[after] = address
            here = self._by_address[address]
            self._by_address[address] = {after if one is before else one: None for one in here}

    def leave(self, stranger: Stranger) -> None:
        """It is gone, or is no stranger any more."""
        address = self._addresses.pop(stranger, None)
        if address is not None:
            here = self._by_address[address]
            del here[stranger]
            if not here:
                del self._by_address[address]

    def _turn_away(self, stranger: Stranger) -> None:
        self.turned_away += 1
        self.leave(stranger)
        stranger.abort()


class Guest(Protocol):
    """The protocol that takes a connection over when it has been let in."""

    gone: bool

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It may speak."""

    def abort(self) -> None:
        """Close it at once."""


class Doorway(asyncio.Protocol):
    """One connection between being accepted and being let in."""

    def __init__(
        self,
        strangers: Strangers,
        context: ssl.SSLContext | None,
        guest: Callable[[], "asyncio.BufferedProtocol"],
        failed: Callable[[str], None],
    ) -> None:
        self._strangers = strangers
        self._context = context
        self._make_guest = guest
        self._failed = failed
        self._transport: asyncio.Transport
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.pause_reading()  # what comes is for whoever takes over
        peer = transport.get_extra_info("peername")
        self._strangers.enter(self, str(peer[0]) if peer else "")
        if transport.is_closing():
            return
        if self._context is None:
            guest = self._make_guest()
            transport.set_protocol(guest)
            self._let_in(guest, transport)
            transport.resume_reading()
        else:
            self._task = asyncio.get_running_loop().create_task(self._shake_hands(self._context))

    def connection_lost(self, exc: Exception | None) -> None:
        self._strangers.leave(self)

    def abort(self) -> None:
        """Close it at once; a handshake that waits for its turn takes no memory any more."""
        if self._task is not None:
            self._task.cancel()
        self._transport.abort()

    async def _shake_hands(self, context: ssl.SSLContext) -> None:
        guest = self._make_guest()
        try:
            secured = await asyncio.get_running_loop().start_tls(
                self._transport,
                guest,
                context,
                server_side=True,
                ssl_handshake_timeout=HANDSHAKE_WITHIN,
                ssl_shutdown_timeout=FAREWELL_WITHIN,
            )
        except (OSError, TimeoutError) as error:
            self._strangers.leave(self)
            self._transport.abort()
            self._failed(str(error) or "hung up in the handshake")
            return
        if secured is None:  # it was cut between the last byte and now
            self._strangers.leave(self)
        else:
            self._let_in(guest, secured)

    def _let_in(self, guest: asyncio.BufferedProtocol, transport: asyncio.BaseTransport) -> None:
        assert hasattr(guest, "abort")
        self._strangers.replace(self, guest)
        guest.connection_made(transport)
