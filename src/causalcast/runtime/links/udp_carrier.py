"""Carries links over UDP: sealed sessions, each with a point-to-point layer and a byte stream.

One socket per node. A session is set up by a call (answered at first by a cookie, so that nobody is
answered at an address that is not its own) and a reply; then every datagram is sealed. Inside, the
point-to-point layer brings pieces of a byte stream over once and in order, with a window that
adapts, so that frames of any length pass and asyncio's `Transport` is what the node sees.

Reading goes on until the socket is empty, at most so many datagrams per turn, and what came in one
turn is acknowledged together. A peer whose address changes is answered at the new one as soon as a
newer datagram of its session comes from there.
"""

import asyncio
import collections
import errno
import logging
import os
import random
import socket
import ssl
from asyncio import sslproto
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, cast

from causalcast.core.duration import MILLISECOND, SECOND
from causalcast.errors import WireError
from causalcast.parts import point_to_point as ptp
from causalcast.parts.point_to_point import Datagram, Effects, PointToPoint, PointToPointOptions
from causalcast.runtime.links.address_book import Address
from causalcast.runtime.links.carrier import ContextNow, ProtocolFactory
from causalcast.runtime.links.doorway import FAREWELL_WITHIN, HANDSHAKE_WITHIN, Guest, Strangers
from causalcast.runtime.links.sealing import (
    Cookies,
    Exchange,
    Membership,
    Opener,
    Sealer,
    SessionKeys,
)
from causalcast.wire import sealed_datagram as wire

log = logging.getLogger(__name__)

DATAGRAMS_PER_TURN: Final = 16  # then they are acknowledged, so that the other end goes on
FEW: Final = 2  # datagrams under way; while there are more, only full ones join them
BURST: Final = 16  # datagrams of one session per turn; the next turn goes on
LARGEST_DATAGRAM: Final = 16384  # where the way takes it, as loopback does
SMALLEST_DATAGRAM: Final = 1200  # every way of today takes it
CALL_AGAIN: Final = 0.1  # seconds, then twice as long each time
MOST_UNPROVEN: Final = 32  # sessions whose caller has sent nothing sealed yet
UNPROVEN_WITHIN: Final = 5.0  # seconds
RENEW_COOKIES: Final = 60.0  # seconds
SOCKET_BUFFER: Final = 4 << 20  # asked for; the kernel gives what it allows
MOST_FLYING: Final = 2 << 20  # bytes of a session under way, in as many datagrams as that is
MOST_UNREAD: Final = 2 << 20  # bytes that wait while the node reads more slowly; then there is no
# room for more. What was under way then is still taken, up to as much again and some more.
MOST_TOGETHER: Final = 16  # pieces that are handed over at once
STREAM: Final = b"\0"  # the rest of a message is a piece of the stream
END: Final = b"\1"  # the stream ends here

# A peer that says nothing for so long counts as failed: an idle one is asked once a second. On a
# slow way nine copies would take longer than that, on a quick one about as long.
SILENCE: Final = 5 * SECOND

OPTIONS: Final = PointToPointOptions(
    retransmissions=8,
    keep_alive_every=1 * SECOND,
    shortest_timeout=10 * MILLISECOND,
    per_byte=0,
    window=ptp.WIDEST,
    queue=2 * ptp.WIDEST,
    fast_repeat=True,
    confirm_acks=False,
    adapts=True,
    ack_delay=1 * MILLISECOND,
    ack_every=2,
    notes_all=False,
)

Place = tuple[Any, ...]  # an address as the socket gives it


class UdpCarrier:
    """The socket of a node and its sessions."""

    def __init__(self, membership: Membership) -> None:
        self.counts: Counter[str] = Counter()
        self._membership = membership
        self._loop = asyncio.get_running_loop()
        self._socket: socket.socket | None = None
        self._leaving = False
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
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            bound.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER)
        try:
            bound.bind(place)
        except OSError:
            bound.close()
            raise
        self._socket = bound
        self._loop.add_reader(bound, self._read)

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int, context: ssl.SSLContext | None
    ) -> None:
        """Call until somebody answers; whoever waits for this says for how long."""
        assert self._socket is not None
        found = await self._loop.getaddrinfo(
            host, port, family=self._socket.family, type=socket.SOCK_DGRAM
        )
        call = _Call(found[0][4], self._loop.create_future())
        self._calls[call.session] = call
        wait = CALL_AGAIN
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

    def serve(self, accept: "Callable[[UdpTransport], None]") -> None:
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

    def forget(self, transport: "UdpTransport") -> None:
        """A session is over."""
        self._sessions.pop(transport.session, None)
        self._touched.pop(transport, None)
        self._prove(transport)
        if self._leaving:
            self.close_when_empty()

    # Reading

    def _read(self) -> None:
        buffer = memoryview(self._buffer)
        for _ in range(DATAGRAMS_PER_TURN):
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
        if self._loop.time() - self._cookies_renewed > RENEW_COOKIES:
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
        while len(self._by_call) >= MOST_UNPROVEN:
            self.counts["too_many_calls"] += 1
            next(iter(self._by_call.values())).abort()
        exchange, session = Exchange(), _draw()
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
        self._loop.call_later(UNPROVEN_WITHIN, self._give_up_unproven, key)
        self.transmit(transport.reply, place)

    def proven(self, transport: "UdpTransport") -> None:
        """The caller sealed something: it has the keys."""
        self._prove(transport)
        if self._accept is None:
            transport.abort()
        else:
            self._accept(transport)

    def _prove(self, transport: "UdpTransport") -> None:
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

    def _let_in(self, transport: "UdpTransport") -> None:
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
        self, transport: "UdpTransport", guest: asyncio.BaseProtocol, context: ssl.SSLContext
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

    def __init__(self, place: Place, answered: "asyncio.Future[tuple[SessionKeys, int]]") -> None:
        self.place = place
        self.answered = answered
        self.session = _draw()
        self.exchange = Exchange()
        self.cookie = wire.NO_COOKIE

    def encoded(self, membership: Membership) -> bytes:
        whole = wire.CALL_FORM.pack(
            wire.CALL, self.session, self.exchange.public, self.cookie, bytes(wire.PROOF_BYTES)
        )
        statement = whole[: -wire.PROOF_BYTES]
        return statement + membership.prove(statement)


class UdpTransport(asyncio.Transport):
    """One session as a byte stream."""

    def __init__(
        self,
        carrier: UdpCarrier,
        place: Place,
        session: int,
        theirs: int,
        keys: SessionKeys,
        is_caller: bool,
    ) -> None:
        super().__init__()
        self.session = session
        self.called_with = b""
        self.reply = b""
        self._carrier = carrier
        self._loop = asyncio.get_running_loop()
        self._place = place
        self.theirs = theirs
        mine, other = keys.caller_key, keys.callee_key
        tokens = keys.caller_token, keys.callee_token
        if not is_caller:
            mine, other, tokens = other, mine, tokens[::-1]
        self._sealer, self._opener = Sealer(mine), Opener(other)
        self._tokens = tokens
        self._layer = PointToPoint(OPTIONS, random.Random())
        self._layer.begin(*tokens, self._now())
        self._look_at_the_way()
        self._heard_at = self._now()
        self._protocol: asyncio.BaseProtocol | None = None
        self._reading = True
        self._unread: collections.deque[bytes] = collections.deque()  # while nobody reads
        self._unread_bytes = 0
        self._turn: Effects = []  # what this turn's datagrams ask for
        self._buffer = bytearray()  # written, not numbered yet
        self._high, self._low = 1 << 16, 1 << 14
        self._paused = False
        self._closing = False  # no more is written
        self._ended = False  # the end of the stream has its number
        self._gone = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = ptp.NEVER
        self._goes_on = False  # a further burst is planned

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        """The session stands."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._hand_over()
        self._set_timer()

    async def begin_tls(
        self, protocol: asyncio.BaseProtocol, context: ssl.SSLContext, server_side: bool
    ) -> None:
        """The session stands: shake hands inside it, then the protocol may speak."""
        shaken: asyncio.Future[None] = self._loop.create_future()
        # What asyncio puts on its own transports; it asks no more of them than is here.
        tls = sslproto.SSLProtocol(
            self._loop,
            protocol,
            context,
            shaken,
            server_side=server_side,
            ssl_handshake_timeout=HANDSHAKE_WITHIN,  # type: ignore[arg-type]  # seconds, as float
            ssl_shutdown_timeout=FAREWELL_WITHIN,
        )
        self.begin(tls)
        try:
            await shaken
        except BaseException:
            self.abort()
            raise

    # What the protocol asks for

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing:
            return
        self._buffer += data
        self._feed()
        if not self._paused and len(self._buffer) > self._high:
            self._paused = True
            if self._protocol is not None:
                self._protocol.pause_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 1 << 16 if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return len(self._buffer)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._place if name == "peername" else default

    def is_closing(self) -> bool:
        return self._closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def is_reading(self) -> bool:
        return self._reading

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._hand_over()
        if self._layer.room == 0 and self._unread_bytes == 0 and not self._gone:
            self._layer.room = OPTIONS.window
            out: Effects = []
            self._layer.tell_room(self._now(), out)
            self._perform(out)

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._feed()

    def abort(self) -> None:
        self._force_close(None)

    def _force_close(self, error: Exception | None) -> None:
        """As asyncio's own transports have it; its TLS calls this."""
        if not self._gone:
            self._transmit(Datagram(wire.RESET, 0, 0))
            self._finish(error)

    # What the carrier hands over

    def take(self, data: memoryview, counter: int, place: Place, now: int) -> None:
        """A datagram of this session; WireError if it is not what it seems. What it asks for
        happens when the turn is over."""
        newest = self._opener.highest
        content = self._opener.open(data, counter)
        self._heard_at = now
        mine, theirs = self._tokens
        datagram = wire.read_content(content, theirs, mine)
        if counter > newest and place != self._place:
            log.info("the peer at %s is now at %s", self._place, place)
            self._carrier.counts["address_changed"] += 1
            self._place = place
            self._look_at_the_way()
        if self._protocol is None:
            self._carrier.proven(self)
        if datagram.kind == wire.RESET:
            self._perform_turn()
            self._finish(ConnectionResetError("the peer hung up"))
            return
        if self._unread_bytes > 2 * MOST_UNREAD + LARGEST_DATAGRAM and datagram.kind == ptp.DATA:
            raise WireError("a slow reader")  # the other end was told
        self._layer.receive(datagram, now, self._turn)

    def after_reading(self) -> None:
        """A turn's datagrams were taken: acknowledge them, and send what the window allows."""
        if not self._gone:
            self._layer.poll(self._now(), self._turn)
            self._perform_turn()
            self._feed()

    def _perform_turn(self) -> None:
        out, self._turn = self._turn, []
        self._perform(out)
        self._hand_over()

    def forgotten(self) -> None:
        """The peer knows nothing of this session."""
        self._finish(ConnectionResetError("the peer has restarted"))

    # Sending

    def _look_at_the_way(self) -> None:
        self._piece = _piece_towards(self._place)
        self._layer.send_window.widest = min(OPTIONS.window, MOST_FLYING // self._piece)

    def _feed(self) -> None:
        """Number what was written, as far as window and burst allow."""
        if self._gone or self._goes_on:
            return
        out: Effects = []
        now = self._now()
        sent = 0
        while self._buffer and self._layer.may_send():
            if (
                len(self._buffer) < self._piece
                and self._layer.queued() >= FEW
                and not self._closing
            ):
                break  # an acknowledgement is near; until then more may come to share a datagram
            if sent == BURST:
                self._goes_on = True
                self._loop.call_soon(self._go_on)
                break
            piece = STREAM + self._buffer[: self._piece]
            del self._buffer[: self._piece]
            self._layer.send(piece, now, out)
            sent += 1
        if self._closing and not self._ended and not self._buffer:
            self._ended = True
            self._layer.send(END, now, out)
        self._perform(out)
        self._set_timer()
        if self._paused and len(self._buffer) <= self._low:
            self._paused = False
            if self._protocol is not None:
                self._protocol.resume_writing()

    def _go_on(self) -> None:
        self._goes_on = False
        self._feed()

    def _transmit(self, datagram: Datagram) -> None:
        sealed = self._sealer.seal(self.theirs, wire.pack_content(datagram))
        self._carrier.transmit(sealed, self._place)

    def _perform(self, out: Effects) -> None:
        for effect in out:
            if self._gone:
                return
            if isinstance(effect, ptp.Transmit):
                self._transmit(effect.datagram)
            elif isinstance(effect, ptp.Deliver):
                self._deliver(effect.body)
            elif isinstance(effect, ptp.Arrived):
                if self._ended and self._layer.queued() == 0:
                    self._finish(None)
            elif isinstance(effect, ptp.Failed):
                self._carrier.counts["peers_failed"] += 1
                self._finish(TimeoutError(effect.reason))
            elif isinstance(effect, ptp.Note) and effect.what in ("retransmit", "overtaken"):
                self._carrier.counts["retransmissions"] += 1

    # Receiving

    def _deliver(self, body: bytes) -> None:
        self._unread.append(body)
        self._unread_bytes += len(body)
        if self._unread_bytes > MOST_UNREAD:
            self._layer.room = 0

    def _hand_over(self) -> None:
        """Give the protocol what came, as long as it reads."""
        while self._unread and self._reading and self._protocol is not None and not self._gone:
            pieces: list[memoryview] = []
            while self._unread and self._unread[0][:1] == STREAM and len(pieces) < MOST_TOGETHER:
                body = self._unread.popleft()
                self._unread_bytes -= len(body)
                pieces.append(memoryview(body)[1:])
            if not pieces:
                self._acknowledge_the_end()
                return
            self._give(pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces)))

    def _give(self, stream: memoryview) -> None:
        assert isinstance(self._protocol, asyncio.BufferedProtocol)
        while stream and not self._gone:
            buffer = memoryview(self._protocol.get_buffer(len(stream)))
            taken = min(len(buffer), len(stream))
            buffer[:taken] = stream[:taken]
            stream = stream[taken:]
            self._protocol.buffer_updated(taken)

    def _acknowledge_the_end(self) -> None:
        """The peer closed in good order: so do we, and nothing is left to say."""
        out: Effects = []
        self._layer.poll(self._now(), out)
        self._perform(out)
        self._transmit(Datagram(wire.RESET, 0, 0))
        self._finish(None)

    # The end

    def _finish(self, error: Exception | None) -> None:
        if self._gone:
            return
        self._gone = self._closing = True
        if self._timer is not None:
            self._timer.cancel()
        self._buffer.clear()
        self._carrier.forget(self)
        if self._protocol is not None:
            self._loop.call_soon(self._protocol.connection_lost, error)

    # Time

    def _set_timer(self) -> None:
        """Be woken at the next deadline; an earlier one that is planned already looks again."""
        if self._gone or self._timer_at <= self._now() + OPTIONS.ack_delay:
            return
        due = min(self._layer.deadline(), self._heard_at + SILENCE)
        if due >= self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = due
        self._timer = self._loop.call_at(due / SECOND, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._timer_at = ptp.NEVER
        if self._now() - self._heard_at > SILENCE:
            self._carrier.counts["peers_failed"] += 1
            self._finish(TimeoutError("nothing was heard any more"))
        self.after_reading()

    def _now(self) -> int:
        return microseconds(self._loop)


def microseconds(loop: asyncio.AbstractEventLoop) -> int:
    """What the clock says: never before a timer that has run out."""
    return int(loop.time() * SECOND) + 1


def _piece_towards(place: Place) -> int:
    """How much of the stream fits into one datagram on the way there."""
    is_six = ":" in place[0]
    most = LARGEST_DATAGRAM
    try:
        with socket.socket(
            socket.AF_INET6 if is_six else socket.AF_INET, socket.SOCK_DGRAM
        ) as probe:
            probe.connect(place)  # sends nothing
            mtu = probe.getsockopt(*_MTU[is_six])
            most = min(most, mtu - (48 if is_six else 28))
    except OSError:
        most = SMALLEST_DATAGRAM
    return max(most, SMALLEST_DATAGRAM) - wire.OVERHEAD - len(STREAM)


# The kernel's word on the way to a connected address (IP_MTU, IPV6_MTU of Linux).
_MTU: Final = {False: (socket.IPPROTO_IP, 14), True: (socket.IPPROTO_IPV6, 24)}


def _draw() -> int:
    return int.from_bytes(os.urandom(8))
