"""A session of the UDP transport as a byte stream, which is what asyncio calls a transport.

The point-to-point layer brings pieces of the stream over once and in order, with a window that
follows the way, so that frames of any length pass. Each datagram is sealed. What came in one turn
is acknowledged and handed over together. Who reads too slowly closes the other end's window.
"""

import asyncio
import collections
import logging
import random
import socket
import ssl
from asyncio import sslproto
from collections import Counter
from typing import Any, Final, Protocol

from causalcast.core.duration import MILLISECOND, SECOND
from causalcast.datagrams import point_to_point as ptp
from causalcast.datagrams import sealed_bytes as wire
from causalcast.datagrams.point_to_point import Datagram, Effects, PointToPoint, PointToPointOptions
from causalcast.errors import WireError
from causalcast.limits import Limit
from causalcast.runtime.links.doorway import FAREWELL_WITHIN, HANDSHAKE_WITHIN
from causalcast.runtime.links.udp.sealing import Opener, Sealer, SessionKeys

log = logging.getLogger(__name__)

FEW: Final = Limit(
    "runtime.links.udp.session.few",
    2,
    least=1,
    most=64,
    unit="datagrams",
    about="under way; while there are more, only full ones join them",
)
BURST: Final = Limit(
    "runtime.links.udp.session.burst",
    16,
    least=1,
    most=1024,
    unit="datagrams",
    about="of one session per turn; the next turn goes on",
)
# Where the way takes it, as loopback does: as much as dozens of them fit into a socket's buffer.
LARGEST_DATAGRAM: Final = 60 << 10
USUAL_DATAGRAM: Final = 16 << 10  # there, if the buffer is a small one
SMALLEST_DATAGRAM: Final = 1200  # every way of today takes it
MOST_FLYING: Final = 2 << 20  # bytes of a session under way, in as many datagrams as that is
MOST_UNREAD: Final = Limit(
    "runtime.links.udp.session.most_unread",
    2 << 20,
    least=1 << 16,
    most=64 << 20,
    unit="bytes",
    about="read more slowly by the node than they come; then there is no more room",
)
MOST_TOGETHER: Final = Limit(
    "runtime.links.udp.session.most_together",
    16,
    least=1,
    most=1024,
    unit="pieces",
    about="handed over at once",
)
STREAM: Final = b"\0"  # the rest of a message is a piece of the stream
END: Final = b"\1"  # the stream ends here

# A peer that says nothing for so long counts as failed: an idle one is asked once a second. On a
# slow way nine copies would take longer than that, on a quick one about as long.
SILENCE: Final = Limit(
    "runtime.links.udp.session.silence",
    5 * SECOND,
    least=1 * SECOND,
    most=60 * SECOND,
    unit="us",
    about="silence after which a session is over",
)

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
    first_room=MOST_FLYING // LARGEST_DATAGRAM,
)


def most_kept() -> int:
    """Bytes that a session has at most, with what had been told to have room."""
    return MOST_UNREAD.value + MOST_FLYING + (1 << 20)


Place = tuple[Any, ...]  # an address as the socket gives it


class Carrying(Protocol):
    """What a session asks of whoever has the socket."""

    counts: Counter[str]
    largest_datagram: int

    def transmit(self, data: bytes, place: Place) -> None:
        """Let a datagram leave."""

    def proven(self, transport: "UdpTransport") -> None:
        """The caller sealed something: it has the keys."""

    def forget(self, transport: "UdpTransport") -> None:
        """The session is over."""


class UdpTransport(asyncio.Transport):
    """One session as a byte stream.

    Large because it is a transport of asyncio, with all that such a one must offer, over a
    conversation that it opens, feeds and closes.
    """

    def __init__(
        self,
        carrier: Carrying,
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
        self._largest = 0  # piece that came, or would leave
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
            ssl_handshake_timeout=HANDSHAKE_WITHIN.value,  # type: ignore[arg-type]  # seconds, as float
            ssl_shutdown_timeout=FAREWELL_WITHIN.value,
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
            self._make_room()
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
        if self._unread_bytes > most_kept() and datagram.kind == ptp.DATA:
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
        self._piece = _piece_towards(self._place, self._carrier.largest_datagram)
        self._layer.send_window.widest = min(OPTIONS.window, MOST_FLYING // self._piece)
        self._largest = max(self._largest, self._piece)
        self._make_room()

    def _make_room(self) -> None:
        """What is said to have room must fit in memory, however slowly it is read."""
        self._layer.room = min(OPTIONS.window, MOST_FLYING // self._largest)

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
                and self._layer.queued() >= FEW.value
                and not self._closing
            ):
                break  # an acknowledgement is near; until then more may come to share a datagram
            if sent == BURST.value:
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
        if len(body) > self._largest:
            self._largest = len(body)
            self._make_room()
        if self._unread_bytes > MOST_UNREAD.value:
            self._layer.room = 0

    def _hand_over(self) -> None:
        """Give the protocol what came, as long as it reads."""
        while self._unread and self._reading and self._protocol is not None and not self._gone:
            pieces: list[memoryview] = []
            while (
                self._unread and self._unread[0][:1] == STREAM and len(pieces) < MOST_TOGETHER.value
            ):
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
        due = min(self._layer.deadline(), self._heard_at + SILENCE.value)
        if due >= self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = due
        self._timer = self._loop.call_at(due / SECOND, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._timer_at = ptp.NEVER
        if self._now() - self._heard_at > SILENCE.value:
            self._carrier.counts["peers_failed"] += 1
            self._finish(TimeoutError("nothing was heard any more"))
        self.after_reading()

    def _now(self) -> int:
        return microseconds(self._loop)


def microseconds(loop: asyncio.AbstractEventLoop) -> int:
    """What the clock says: never before a timer that has run out."""
    return int(loop.time() * SECOND) + 1


def _piece_towards(place: Place, most: int) -> int:
    """How much of the stream fits into one datagram on the way there."""
    is_six = ":" in place[0]
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
