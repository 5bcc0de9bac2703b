"""Carries links over UDP: one socket per node, and sealed sessions on it.

A session is set up by a call (answered at first by a cookie, so that nobody is answered at an
address that is not its own) and a reply; then every datagram is sealed. `udp_session.py` has what
happens inside.

Reading goes on until the socket is empty, at most so many datagrams per turn, and what came in one
turn is acknowledged together. A peer whose address changes is answered at the new one as soon as a
newer datagram of its session comes from there.
"""

import asyncio
import errno
import os
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, cast

from causalcast.datagrams import sealed_bytes as wire
from causalcast.errors import WireError
from causalcast.forks import close_in_child
from causalcast.limits import Limit, Span
from causalcast.runtime.links.address_book import Address
from causalcast.runtime.links.carrier import ContextNow, ProtocolFactory
from causalcast.runtime.links.doorway import Guest, Strangers
from causalcast.runtime.links.udp.sealing import (
    Cookies,
    Exchange,
    Membership,
    SessionKeys,
    SessionNumbers,
)
from causalcast.runtime.links.udp.session import (
    LARGEST_DATAGRAM,
    USUAL_DATAGRAM,
    Place,
    UdpTransport,
    microseconds,
)

DATAGRAMS_PER_TURN: Final = Limit(
    "runtime.links.udp.carrier.datagrams_per_turn",
    16,
    least=1,
    most=1024,
    unit="datagrams",
    about="read in one turn; then they are acknowledged, so that the other end goes on",
)
CALL_AGAIN: Final = Span(
    "runtime.links.udp.carrier.call_again",
    0.1,
    least=0.01,
    most=5.0,
    about="until a call is repeated, then twice as long each time",
)
MOST_UNPROVEN: Final = Limit(
    "runtime.links.udp.carrier.most_unproven",
    32,
    least=1,
    most=1 << 16,
    unit="sessions",
    about="sessions whose caller has sent nothing sealed yet",
)
UNPROVEN_WITHIN: Final = Span(
    "runtime.links.udp.carrier.unproven_within",
    5.0,
    least=1.0,
    most=60.0,
    about="such a session is given up",
)
RENEW_COOKIES: Final = Span(
    "runtime.links.udp.carrier.renew_cookies",
    60.0,
    least=5.0,
    most=3600.0,
    about="how long a cookie for callers is good",
)
SOCKET_BUFFER: Final = Limit(
    "runtime.links.udp.carrier.socket_buffer",
    4 << 20,
    least=1 << 16,
    most=64 << 20,
    unit="bytes",
    about="asked for; the kernel gives what it allows",
)


class UdpCarrier:
    """The socket of a node and its sessions."""

    def __init__(self, membership: Membership, who: str = "") -> None:
        """`who`: what tells this node from all others, in every life."""
        self.counts: Counter[str] = Counter()
        self._numbers = SessionNumbers(membership, who or os.urandom(16).hex())
        self._membership = membership
        self._loop = asyncio.get_running_loop()
        self._socket: socket.socket | None = None
        self._leaving = False
        self.largest_datagram = USUAL_DATAGRAM
        self._accept: Callable[[UdpTransport], None] | None = None
        self._sessions: dict[int, UdpTransport] = {}  # by our own number
        self._by_call: dict[bytes, UdpTransport] = {}  # those we were called for, not proven yet
        self._calls: dict[int, _Call] = {}
        self._cookies = Cookies()
        self._cookies_renewed = self._loop.time()
        self._buffer = bytearray(1 << 16)
        self._touched: dict[UdpTransport, None] = {}

    # What links ask for

    async def bind(self, host: str, port: int) -> None:
        """Take the port. Dials of our own leave from it too."""
        found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
        family, kind, proto, _, place = found[0]
        bound = socket.socket(family, kind, proto)
        bound.setblocking(False)
        close_in_child(bound)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            bound.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER.value)
        try:
            bound.bind(place)
        except OSError:
            bound.close()
            raise
        self._socket = bound
        fits = bound.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 64
        self.largest_datagram = max(USUAL_DATAGRAM, min(fits, LARGEST_DATAGRAM))
        self._loop.add_reader(bound, self._read)

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int, context: ssl.SSLContext | None
    ) -> None:
        """Call until somebody answers; whoever waits for this says for how long."""
        assert self._socket is not None
        found = await self._loop.getaddrinfo(
            host, port, family=self._socket.family, type=socket.SOCK_DGRAM
        )
        call = _Call(found[0][4], self._loop.create_future(), self._numbers.draw())
        self._calls[call.session] = call
        wait = CALL_AGAIN.value
        try:
            while not call.answered.done():
                self.transmit(call.encoded(self._membership), call.place)
                await asyncio.wait([call.answered], timeout=wait)
                wait *= 2
            keys, theirs = call.answered.result()
        finally:
            del self._calls[call.session]
        transport = UdpTransport(self, call.place, call.session, theirs, keys, is_caller=True)
        self._sessions[call.session] = transport
        if context is None:
            transport.begin(factory())
        else:
            await transport.begin_tls(factory(), context, server_side=False)

    def doorway(
        self,
        strangers: Strangers,
        guest: ProtocolFactory,
        context: ContextNow,
        failed: Callable[[str], None],
    ) -> "UdpDoorway":
        """The way in to this node."""
        return UdpDoorway(self, strangers, guest, context, failed)

    def serve(self, accept: Callable[[UdpTransport], None]) -> None:
        """Answer calls from now on; `accept` gets each session that has proven itself."""
        self._accept = accept

    def close_when_empty(self) -> None:
        """Let go of the socket as soon as no session is left."""
        self._accept = None
        self._leaving = True
        if self._socket is not None and not self._sessions:
            self._loop.remove_reader(self._socket)
            self._socket.close()
            self._socket = None

    # What sessions ask for

    def transmit(self, data: bytes, place: Place) -> None:
        """Let a datagram leave; what the kernel does not take counts as lost."""
        if self._socket is None:
            return
        try:
            self._socket.sendto(data, place)
        except OSError as error:
            self.counts["not_sent"] += 1
            if error.errno == errno.EMSGSIZE:
                self.counts["too_long"] += 1

    def forget(self, transport: UdpTransport) -> None:
        """A session is over."""
        self._sessions.pop(transport.session, None)
        self._touched.pop(transport, None)
        self._prove(transport)
        if self._leaving:
            self.close_when_empty()

    # Reading

    def _read(self) -> None:
        buffer = memoryview(self._buffer)
        for _ in range(DATAGRAMS_PER_TURN.value):
            if self._socket is None:
                return
            try:
                size, place = self._socket.recvfrom_into(buffer)
            except BlockingIOError:
                break
            except OSError:
                continue  # the network's answer to something that was sent
            try:
                # Not once for all of them: what came while others were read would seem to be faster
                # than it was, and the shortest round trip is remembered.
                self._take(buffer[:size], place, microseconds(self._loop))
            except WireError as error:
                self.counts[str(error).replace(" ", "_")] += 1
        touched, self._touched = self._touched, {}
        for transport in touched:
            transport.after_reading()

    def _take(self, data: memoryview, place: Place, now: int) -> None:
        if data and data[0] == wire.SEALED:
            session, counter = wire.read_head(data)
            transport = self._sessions.get(session)
            if transport is None:
                if not self._numbers.are_ours(session):
                    raise WireError("session of another node")  # who asks learns nothing
                statement = wire.UNKNOWN_FORM.pack(wire.UNKNOWN, session, b"")[: -wire.PROOF_BYTES]
                self.transmit(statement + self._membership.prove(statement), place)
                raise WireError("unknown session")
            self._touched[transport] = None
            transport.take(data, counter, place, now)
            return
        kind, *fields = wire.read_setup(data)
        if kind == wire.CALL:
            self._on_call(data, place, fields)
        elif kind == wire.RETRY:
            self._on_retry(fields)
        elif kind == wire.REPLY:
            self._on_reply(fields)
        else:
            self._on_unknown(data, fields)

    # Setting up

    def _on_call(self, data: memoryview, place: Place, fields: list[Any]) -> None:
        theirs, key, cookie, proof = fields
        if self._accept is None:
            return
        if not self._membership.is_proof(bytes(data[: -wire.PROOF_BYTES]), proof):
            raise WireError("a call of a stranger")
        if self._loop.time() - self._cookies_renewed > RENEW_COOKIES.value:
            self._cookies.renew()
            self._cookies_renewed = self._loop.time()
        caller = repr(place).encode() + key
        if not self._cookies.is_good(cookie, caller):
            fresh = self._cookies.make(caller)
            self.transmit(wire.RETRY_FORM.pack(wire.RETRY, theirs, fresh), place)
            return
        before = self._by_call.get(key)
        if before is not None:
            self.transmit(before.reply, place)
        elif any(key == one.called_with for one in self._sessions.values()):
            raise WireError("a call that was answered")
        else:
            self._answer(theirs, key, place)

    def _answer(self, theirs: int, key: bytes, place: Place) -> None:
        assert self._accept is not None
        while len(self._by_call) >= MOST_UNPROVEN.value:
            self.counts["too_many_calls"] += 1
            next(iter(self._by_call.values())).abort()
        exchange, session = Exchange(), self._numbers.draw()
        transcript = wire.REPLY_FORM.pack(wire.REPLY, theirs, session, exchange.public, bytes(32))
        transcript += key
        keys = exchange.agree(key, self._membership, transcript)
        transport = UdpTransport(self, place, session, theirs, keys, is_caller=False)
        transport.called_with = key
        transport.reply = wire.REPLY_FORM.pack(
            wire.REPLY, theirs, session, exchange.public, keys.proof(transcript)
        )
        self._sessions[session] = transport
        self._by_call[key] = transport
        self._loop.call_later(UNPROVEN_WITHIN.value, self._give_up_unproven, key)
        self.transmit(transport.reply, place)

    def proven(self, transport: UdpTransport) -> None:
        """The caller sealed something: it has the keys."""
        self._prove(transport)
        if self._accept is None:
            transport.abort()
        else:
            self._accept(transport)

    def _prove(self, transport: UdpTransport) -> None:
        if self._by_call.get(transport.called_with) is transport:
            del self._by_call[transport.called_with]

    def _give_up_unproven(self, key: bytes) -> None:
        transport = self._by_call.get(key)
        if transport is not None:
            transport.abort()

    def _on_retry(self, fields: list[Any]) -> None:
        session, cookie = fields
        call = self._calls.get(session)
        if call is not None and call.cookie != cookie:
            call.cookie = cookie
            self.transmit(call.encoded(self._membership), call.place)

    def _on_unknown(self, data: memoryview, fields: list[Any]) -> None:
        """The peer has restarted. Numbers of sessions are drawn: an old word ends no new one."""
        session, proof = fields
        for transport in list(self._sessions.values()):
            if transport.theirs == session:
                if not self._membership.is_proof(bytes(data[: -wire.PROOF_BYTES]), proof):
                    raise WireError("a forged farewell")
                transport.forgotten()

    def _on_reply(self, fields: list[Any]) -> None:
        session, theirs, key, proof = fields
        call = self._calls.get(session)
        if call is None or call.answered.done():
            return
        transcript = wire.REPLY_FORM.pack(wire.REPLY, session, theirs, key, bytes(32))
        transcript += call.exchange.public
        keys = call.exchange.agree(key, self._membership, transcript)
        if keys.proof(transcript) != proof:
            raise WireError("a reply of a stranger")
        call.answered.set_result((keys, theirs))


class UdpDoorway:
    """Lets in whoever has set up a session and gets through the handshake of TLS."""

    def __init__(
        self,
        carrier: UdpCarrier,
        strangers: Strangers,
        guest: ProtocolFactory,
        context: ContextNow,
        failed: Callable[[str], None],
    ) -> None:
        self._carrier = carrier
        self._strangers = strangers
        self._make_guest = guest
        self._context = context
        self._failed = failed
        self._tasks: set[asyncio.Task[None]] = set()

    async def bind(self, address: Address) -> None:
        await self._carrier.bind(address.host, address.port)

    def open(self) -> None:
        self._carrier.serve(self._let_in)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._carrier.close_when_empty()

    def _let_in(self, transport: UdpTransport) -> None:
        guest = self._make_guest()
        address = str(transport.get_extra_info("peername")[0])
        context = self._context()
        if context is None:
            transport.begin(guest)
            if cast(Guest, guest).is_stranger():
                self._strangers.enter(cast(Guest, guest), address)
            return
        self._strangers.enter(transport, address)
        task = asyncio.get_running_loop().create_task(self._shake_hands(transport, guest, context))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _shake_hands(
        self, transport: UdpTransport, guest: asyncio.BaseProtocol, context: ssl.SSLContext
    ) -> None:
        try:
            await transport.begin_tls(guest, context, server_side=True)
        except (OSError, TimeoutError) as error:
            self._failed(str(error) or "hung up in the handshake")
        else:
            if cast(Guest, guest).is_stranger():
                self._strangers.replace(transport, cast(Guest, guest))
        finally:
            self._strangers.leave(transport)


class _Call:
    """A call of ours that waits for its reply."""

    def __init__(
        self, place: Place, answered: "asyncio.Future[tuple[SessionKeys, int]]", session: int
    ) -> None:
        self.place = place
        self.answered = answered
        self.session = session
        self.exchange = Exchange()
        self.cookie = wire.NO_COOKIE

    def encoded(self, membership: Membership) -> bytes:
        whole = wire.CALL_FORM.pack(
            wire.CALL, self.session, self.exchange.public, self.cookie, bytes(wire.PROOF_BYTES)
        )
        statement = whole[: -wire.PROOF_BYTES]
        return statement + membership.prove(statement)
