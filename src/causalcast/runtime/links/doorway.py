"""Where dials arrive: strangers are few, and have little time.

Until a connection has shown who it is (TLS, then the greeting) it is a stranger. Strangers are
bounded in number, in all and per address. When there are too many, the oldest of the address that
has most must go: whoever means well needs a few milliseconds, so it is seldom the oldest.
"""

import asyncio
import functools
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import Final, Protocol, cast

from causalcast.forks import close_in_child
from causalcast.limits import Limit, Span
from causalcast.runtime.links.address_book import Address

MOST_STRANGERS: Final = Limit(
    "runtime.links.doorway.most_strangers",
    32,
    least=1,
    most=1 << 16,
    unit="connections",
    about="connections that have not said who they are; beyond it the oldest goes",
)
MOST_PER_ADDRESS: Final = Limit(
    "runtime.links.doorway.most_per_address",
    16,
    least=1,
    most=1 << 16,
    unit="connections",
    about="such connections from one address",
)
HANDSHAKE_WITHIN: Final = Span(
    "runtime.links.doorway.handshake_within",
    5.0,
    least=0.5,
    most=60.0,
    about="from being accepted to the end of the TLS handshake",
)
ACCEPT_AGAIN: Final = Span(
    "runtime.links.doorway.accept_again",
    0.1,
    least=0.001,
    most=10.0,
    about="until the next try after the system could not accept",
)
BACKLOG: Final = Limit(
    "runtime.links.doorway.backlog",
    128,
    least=1,
    most=4096,
    unit="connections",
    about="connections that the system keeps until they are accepted",
)
FAREWELL_WITHIN: Final = Span(
    "runtime.links.doorway.farewell_within",
    1.0,
    least=0.01,
    most=10.0,
    about="for the other end to say that it has heard the last",
)


class Stranger(Protocol):
    """Something that can be shown the door."""

    def abort(self) -> None:
        """Close it at once."""


class Strangers:
    """Who is there and not known yet, by address, the oldest first."""

    def __init__(self, most: int | None = None, per_address: int | None = None) -> None:
        self.turned_away = 0
        self.most_at_once = 0
        self._most = most or MOST_STRANGERS.value
        self._per_address = per_address or MOST_PER_ADDRESS.value
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
    """The protocol of a connection, once it may speak."""

    def is_stranger(self) -> bool:
        """Whether it has still to say who it is."""

    def abort(self) -> None:
        """Close it at once."""


class Knock:
    """One connection between being accepted and the end of its handshake."""

    def __init__(self, accepted: socket.socket) -> None:
        self.accepted = accepted
        self.task: asyncio.Task[None] | None = None

    def abort(self) -> None:
        """Close it at once; a handshake that waits for its turn takes no memory any more."""
        assert self.task is not None
        self.task.cancel()


class Doorway:
    """Listens, and lets in whoever gets through the handshake; `guest` makes its protocol."""

    def __init__(
        self,
        strangers: Strangers,
        guest: Callable[[], asyncio.BaseProtocol],
        context: Callable[[], ssl.SSLContext | None],
        failed: Callable[[str], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._strangers = strangers
        self._make_guest = guest
        self._context = context
        self._failed = failed
        self._listeners: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def bind(self, address: Address) -> None:
        """Take `address`, all of them if its name has several; OSError where that cannot be."""
        found = await self._loop.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, kind, protocol, _, where in dict.fromkeys(found):
            listener = socket.socket(family, kind, protocol)
            self._listeners.append(listener)
            close_in_child(listener)
            listener.setblocking(False)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(where)

    def open(self) -> None:
        """Accept dials from now on."""
        for listener in self._listeners:
            listener.listen(BACKLOG.value)
            self._begin(self._accept(listener))

    def close(self) -> None:
        """Accept nobody any more, and nobody who is still in the handshake."""
        for task in self._tasks:
            task.cancel()
        for listener in self._listeners:
            listener.close()
        self._listeners = []

    def _begin(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                accepted, where = await self._loop.sock_accept(listener)
            except OSError as error:  # it went away again, or there are too many open files
                self._failed(f"nobody could be accepted: {error}")
                await asyncio.sleep(ACCEPT_AGAIN.value)
                continue
            knock = Knock(accepted)
            knock.task = self._begin(self._shake_hands(knock))
            knock.task.add_done_callback(functools.partial(self._forget, knock))
            self._strangers.enter(knock, str(where[0]))

    async def _shake_hands(self, knock: Knock) -> None:
        context = self._context()
        try:
            if context is None:
                made = await self._loop.connect_accepted_socket(self._make_guest, knock.accepted)
            else:
                made = await self._loop.connect_accepted_socket(
                    self._make_guest,
                    knock.accepted,
                    ssl=context,
                    ssl_handshake_timeout=HANDSHAKE_WITHIN.value,
                    ssl_shutdown_timeout=FAREWELL_WITHIN.value,
                )
        except (OSError, TimeoutError) as error:
            self._failed(str(error) or "hung up in the handshake")
            return
        guest = cast(Guest, made[1])
        if guest.is_stranger():
            self._strangers.replace(knock, guest)

    def _forget(self, knock: Knock, task: asyncio.Task[None]) -> None:
        """It is in, or gone; one that never had its turn still has its socket."""
        self._strangers.leave(knock)
        if task.cancelled() or task.exception() is not None:
            knock.accepted.close()
