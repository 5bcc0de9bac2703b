"""Links: dial, accept, greet, read, write, over whatever carries them.

At any time a peer has one current link. What arrives on another one is dropped. Of two dials that
cross, the one dialled by the smaller id survives: the smaller end refuses the other's dial while
its own is under way, and the greater end drops its own for the smaller one's.

Over TLS a connection has a passport, what the certificate of the other end says, and may greet only
as a node that this names. Whoever has a token instead gets an identity, and no link.

Frames of one turn of the loop leave in one write per link. A link whose peer does not keep up
counts as congested; nothing is dropped, and the host lets publishers wait.
"""

import asyncio
import collections
import logging
import socket
import ssl
from typing import Final, Protocol, cast

from causalcast.core.ids import ANY_LINK, LinkId, NodeId
from causalcast.errors import Rejected, WireError
from causalcast.limits import Limit, Span
from causalcast.runtime.links.address_book import Address, AddressBook
from causalcast.runtime.links.allowance import Allowance
from causalcast.runtime.links.carrier import Carrier, TcpCarrier
from causalcast.runtime.links.doorway import Strangers
from causalcast.runtime.links.greeter import Acquainted, Greeter, imposture_of
from causalcast.runtime.links.greeting import (
    ANYBODY,
    LIMIT,
    Greeting,
    read_greeting,
)
from causalcast.runtime.links.introductions import Introduced
from causalcast.runtime.links.outlet import EncodeRun, Outlet, Outlets
from causalcast.runtime.links.traffic import Traffic
from causalcast.runtime.security.identity import JOIN, Passport
from causalcast.runtime.security.tls import Tls
from causalcast.wire.framing import BESIDE, LONGEST_MESSAGE, FrameReader, frame, frame_all

log = logging.getLogger(__name__)

DIAL_TIMEOUT: Final = Span(
    "runtime.links.links.dial_timeout",
    5.0,
    least=1.0,
    most=60.0,
    about="for connecting and greeting: several round trips",
)
SOON: Final = Span(
    "runtime.links.links.soon",
    1.0,
    least=0.01,
    most=60.0,
    about="a link that is lost so soon is dialled again after a pause, which doubles each time",
)
FIRST_PAUSE: Final = Span(
    "runtime.links.links.first_pause",
    0.1,
    least=0.001,
    most=10.0,
    about="the first such pause",
)
LONGEST_PAUSE: Final = Span(
    "runtime.links.links.longest_pause",
    5.0,
    least=0.01,
    most=60.0,
    about="the longest such pause",
)
HEARD_EVERY: Final = Span(
    "runtime.links.links.heard_every",
    0.1,
    least=0.001,
    most=0.5,
    about="how often the host hears that a peer is sending; less than detectors wait",
)
MOST_COUNTED: Final = 1000  # peers whose traffic is shown; who was linked longest ago is forgotten
CROSSING: Final = "crossing"  # a refusal that only means: my own dial to you is under way
CROSSING_PATIENCE: Final = Span(
    "runtime.links.links.crossing_patience",
    1.0,
    least=0.01,
    most=60.0,
    about="wait for the dial that survives, of two that cross",
)
CLOSE_WITHIN: Final = Span(
    "runtime.links.links.close_within",
    1.0,
    least=0.0,
    most=60.0,
    about="for what was written to leave before the node stops",
)
SEND_BUFFER_BYTES: Final = Limit(
    "runtime.links.links.send_buffer_bytes",
    8 << 20,
    least=1,
    most=1 << 30,
    unit="bytes",
    about="what may wait on one link; beyond it the link is congested and publishers wait",
    setting="[limits] send_buffer_bytes",
)
CONTROL_PER_SECOND: Final = Limit(
    "runtime.links.links.control_per_second",
    1000,
    least=1,
    most=1 << 20,
    unit="messages",
    about="messages of overlay and detector from one peer; beyond it, it is read more slowly",
    setting="[limits] control_per_second",
)


class LinkEvents(Acquainted, Protocol):
    """What links tell a node."""

    def next_link(self) -> LinkId:
        """A new link id."""

    def link_up(self, peer: NodeId, link: LinkId, dialled: bool) -> None:
        """There is a current link to `peer`."""

    def link_lost(self, peer: NodeId, link: LinkId, reason: str) -> None:
        """The current link is gone, or a dial failed."""

    def heard(self, peer: NodeId) -> None:
        """Bytes came from `peer`, perhaps in the middle of a message that takes long."""

    def frames_came(self, link: "Connection", frames: list[memoryview]) -> None:
        """Frames came on a current link; raises WireError for one that is no message."""

    def dropped(self, peer: NodeId, reason: str) -> None:
        """A frame for `peer` will not leave."""

    def relieved(self) -> None:
        """A link that was congested has room again."""

    def revoked(self) -> None:
        """A newer list of revocations came; links to those on it are closed already."""


class Connection(asyncio.BufferedProtocol):
    """One connection, from its greeting to its end. `current` while frames may pass."""

    def __init__(self, links: "Links", peer: NodeId, link: LinkId, dialled: bool) -> None:
        self.peer = peer  # unknown (-1) until the greeting where they dialled
        self.link = link
        self.dialled = dialled
        self.current = False
        self.peer_start = 0
        self.gone = False
        self.passport: Passport | None = None  # who it is at the other end, over TLS
        self.introduced = Introduced()
        self.control = Allowance(links.control_per_second, 2 * links.control_per_second)
        self.greeted: asyncio.Future[Greeting] = links.loop.create_future()
        self._links = links
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader(LIMIT.value)
        self.outlet = Outlet(link, self.flush)
        self._frames_out: list[bytes] = []  # before the outlet's messages
        self.current_since = 0.0
        self._heard_at = 0.0
        self._rests = False
        self._rests_until = 0.0
        self._patience: asyncio.TimerHandle | None = None

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's is one without saying so
        self._transport = transport
        connected = transport.get_extra_info("socket")
        if connected is not None:  # a connection of TCP has a socket of its own
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        transport.set_write_buffer_limits(high=self._links.send_buffer)
        self._patience = self._links.loop.call_later(DIAL_TIMEOUT.value, self._too_late)
        try:
            if self._links.tls is not None:
                self.passport = self._links.tls.passport(transport)
        except WireError as error:
            self._links.nonsense(self, error)
            return
        self._links.connected(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.writable()

    def buffer_updated(self, nbytes: int) -> None:
        self.outlet.traffic.received_bytes += nbytes
        try:
            if not self.greeted.done():
                # What follows the greeting is cut by the limit for messages, not for greetings.
                for body in self._reader.filled(nbytes, at_most=1):
                    self._take_greeting(body)
                nbytes = 0
            if self.current:
                self._note_life()
                frames = self._reader.filled(nbytes)
                if frames:
                    self._links.events.frames_came(self, frames)
        except WireError as error:
            self._links.nonsense(self, error)

    def _note_life(self) -> None:
        """Whoever sends is alive, also while what it sends is not whole, and its beats wait behind
        that."""
        now = self._links.loop.time()
        if now - self._heard_at > HEARD_EVERY.value:
            self._heard_at = now
            self._links.events.heard(self.peer)

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone = True
        self._forget_patience()
        if not self.greeted.done():
            self.greeted.set_exception(ConnectionError("hung up before greeting"))
            self.greeted.exception()  # whoever waits sees it; nobody has to
        self._links.lost(self, "closed" if exc is None else "broken")

    def pause_writing(self) -> None:
        self._links.outlets.congested[self.outlet] = None

    def resume_writing(self) -> None:
        self._links.no_longer_congested(self)

    # What the links call

    def write(self, data: bytes) -> None:
        """Let the bytes of a frame leave at the end of this turn, behind what was sent before."""
        outlets = self._links.outlets
        if not self.outlet.is_planned:
            outlets.plan(self.outlet)
        self._frame_messages()
        self._frames_out.append(data)
        outlets.queued_bytes += len(data)
        if self.current:  # greetings are no messages
            self.outlet.traffic.sent_messages += 1

    def _frame_messages(self) -> None:
        messages = self._links.outlets.take(self.outlet)
        if messages:
            if max(map(len, messages)) > LONGEST_MESSAGE.value:
                messages = self._links.without_too_long(self, messages)
            self._frames_out.append(frame_all(messages, self._links.max_frame))

    def flush(self) -> None:
        """Hand what leaves in this turn to the socket, in one write."""
        self._frame_messages()
        frames, self._frames_out = self._frames_out, []
        if frames and self._transport is not None and not self._transport.is_closing():
            data = frames[0] if len(frames) == 1 else b"".join(frames)
            self.outlet.traffic.sent_bytes += len(data)
            self._transport.write(data)

    def speak(self) -> None:
        """The greeting is over: frames may be as long as messages are."""
        self._forget_patience()
        self._reader.limit = self._links.max_frame
        self._reader.longest = max(LONGEST_MESSAGE.value, self._links.max_frame)

    def read_on(self) -> None:
        """Read from the socket if nothing speaks against it, else leave it to the other end."""
        if self._transport is not None and not self._transport.is_closing():
            if self._links.reads and not self._rests:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def rest(self, seconds: float) -> None:
        """Read nothing for a while: the peer sends too much of something."""
        self._rests_until = self._links.loop.time() + seconds
        if not self._rests:  # several messages of one read may ask for it
            self._links.counts["slowed_down"] += 1
            self._rests = True
            self.read_on()
            self._links.loop.call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        left = self._rests_until - self._links.loop.time()
        if left > 0.001:
            self._links.loop.call_later(left, self._go_on)
        else:
            self._rests = False
            self.read_on()

    def is_stranger(self) -> bool:
        """Whether it has not said yet who it is."""
        return not self.current and not self.gone

    def queued_bytes(self) -> int:
        """What was written and has not left yet, as far as this process can tell."""
        written = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return written + sum(map(len, self._frames_out)) + sum(map(len, self.outlet.encoded))

    def is_busy(self) -> bool:
        """Whether something that was written waits for the socket."""
        return self._transport is not None and self._transport.get_write_buffer_size() > 0

    def hang_up(self) -> None:
        """Close in good order, after what was written."""
        self.flush()
        self.current = False
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self.current = False
        if self._transport is not None:
            self._transport.abort()

    def where(self) -> str:
        """The other end, for logs."""
        return f"node {self.peer}" if self.peer >= 0 else self.address()

    def address(self) -> str:
        """Where the other end is, as the network says."""
        return str(self._transport and self._transport.get_extra_info("peername"))

    def _take_greeting(self, body: memoryview) -> None:
        greeting = read_greeting(body)
        self.greeted.set_result(greeting)
        if not self.dialled:
            self._links.answer(self, greeting)
        else:
            self._links.answered(self, greeting)

    def _too_late(self) -> None:
        self._links.nonsense(self, WireError("no greeting came in time"))

    def _forget_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


class _Dial:
    """A dial under way, and the frames that wait for it."""

    def __init__(self, link: LinkId) -> None:
        self.link = link
        self.task: asyncio.Task[None] | None = None
        self.connection: Connection | None = None
        self.waiting: list[bytes] = []
        self.waiting_bytes = 0


def why_no_link(error: Exception, address: Address | None) -> str:
    """What a dial came to, in words."""
    if isinstance(error, TimeoutError):
        return f"{address} says nothing; is there a node, and does it answer `causalcast status`?"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate at {address} is of another cluster, or has lapsed ({error})"
    if isinstance(error, ConnectionRefusedError):
        return f"nobody listens at {address}"
    return str(error) if address is None else f"{error} at {address}"


class Links:
    """All connections of a node; at most one is current per peer.

    Large because a dial, a connection and a crossing of two dials end one another: apart, each
    would have to ask the two others.
    """

    def __init__(
        self,
        greeting: Greeting,
        book: AddressBook,
        events: LinkEvents,
        max_frame: int,
        encode_run: EncodeRun,
        send_buffer: int = SEND_BUFFER_BYTES.default,
        tls: Tls | None = None,
        control_per_second: int = CONTROL_PER_SECOND.default,
        carrier: Carrier | None = None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.control_per_second = control_per_second
        self.tls = tls
        self.informed: set[NodeId] = set()  # who has our list of revocations
        self.strangers = Strangers()
        self.events = events
        self.max_frame = max_frame
        self.send_buffer = send_buffer
        self.outlets = Outlets(encode_run)
        self._to_hang_up: list[Connection] = []
        self.reads = True  # False while the application has more than it can take
        self.counts: collections.Counter[str] = collections.Counter()
        self.greeter = Greeter(greeting, events, tls, self.counts)
        self._me = NodeId(greeting.node)
        self._book = book
        self._current: dict[NodeId, Connection] = {}
        self._dials: dict[NodeId, _Dial] = {}
        self._pauses: dict[NodeId, float] = {}  # before the next dial, where links were lost soon
        self._crossed: set[NodeId] = set()  # whose dial was refused because ours was under way
        self._connections: dict[Connection, None] = {}
        self._traffic: dict[NodeId, Traffic] = {}  # who was linked last stands last
        self.carrier = carrier or TcpCarrier()
        self._doorway = self.carrier.doorway(
            self.strangers,
            lambda: Connection(self, NodeId(-1), LinkId(-1), False),
            lambda: None if self.tls is None else self.tls.server,
            self._no_handshake,
        )
        self._closing = False

    # What the host asks for

    async def bind(self, address: Address) -> None:
        """Take `address`; raises OSError where somebody else has it. See `listen`."""

        await self._doorway.bind(address)

    async def listen(self) -> None:
        """Accept dials from now on."""
        self._doorway.open()

    def send(self, to: NodeId, data: bytes, link: LinkId) -> bool:
        """Let a message leave, dialling where `link` allows it; False if it never will."""
        if self.outlets.put_encoded(to, data, link):
            return True
        if link != ANY_LINK:
            self.counts["send_on_lost_link"] += 1
            return False
        self.dial(to)
        dial = self._dials.get(to)
        if dial is None:  # the node hangs up on everybody: nothing leaves any more
            self.counts["send_while_closing"] += 1
            return False
        if dial.waiting_bytes + len(data) > self.send_buffer:
            self.counts["dial_queue_full"] += 1
            return False
        dial.waiting.append(data)
        dial.waiting_bytes += len(data)
        return True

    def dial(self, to: NodeId) -> None:
        """Dial `to`, unless there is a link or a dial already."""
        if to in self._current or to in self._dials or self._closing:
            return
        dial = _Dial(self.events.next_link())
        self._dials[to] = dial
        dial.task = self.loop.create_task(self._connect(to, dial))

    def hang_up(self, to: NodeId) -> None:
        """Close the link to `to` at the end of this turn; only the other end hears of it."""
        dial = self._dials.pop(to, None)
        if dial is not None:
            self._abandon(dial)
        connection = self._current.get(to)
        if connection is not None:
            self._forget_current(connection)
            self._to_hang_up.append(connection)

    def flush(self) -> None:
        """Write out what this turn left, one write per link, and hang up where that was asked."""
        outlets = self.outlets
        outlets.flush()
        if outlets.queued_bytes > self.send_buffer:
            self.events.relieved()
        outlets.queued_bytes = 0
        if self._to_hang_up:
            connections, self._to_hang_up = self._to_hang_up, []
            for connection in connections:
                connection.hang_up()

    def read_on(self, wanted: bool) -> None:
        """Read from all links, or from none: then those who send fill their buffers and wait."""
        self.reads = wanted
        for connection in self._current.values():
            connection.read_on()

    def busy_peers(self) -> dict[NodeId, None]:
        """Whose socket has not taken all that was written to it."""
        return {peer: None for peer, link in self._current.items() if link.is_busy()}

    def slow_peers(self) -> list[NodeId]:
        """Whose socket takes nothing more for now."""
        congested = self.outlets.congested
        return [peer for peer, link in self._current.items() if link.outlet in congested]

    def cut_silent(self, peer: NodeId) -> None:
        """End the link to somebody of whom nothing is heard, with all that waits in it."""
        connection = self._current.get(peer)
        if connection is not None:
            self.counts["cut_silent"] += 1
            connection.abort()
            self.lost(connection, "broken")

    def client_context(self) -> ssl.SSLContext | None:
        """With which TLS one dials from here; None without TLS."""
        return None if self.tls is None else self.tls.client

    @property
    def greeting(self) -> Greeting:
        """What this node says of itself."""
        return self.greeter.greeting

    def current_link(self, to: NodeId) -> Connection | None:
        """The link to `to`, if there is one."""
        return self._current.get(to)

    def send_direct(self, to: NodeId, data: bytes) -> str:
        """Let a request or an answer leave at the end of this turn; why it cannot, or nothing."""
        connection = self._current.get(to)
        if connection is None:
            return "there is no link to it now (only neighbours that are there can be asked)"
        if not connection.greeted.result().direct:
            return "it is of an earlier version, which takes no requests"
        connection.write(frame(bytes((BESIDE,)) + data, self.max_frame))
        return ""

    def current_peers(self) -> list[NodeId]:
        """Who has a link now."""
        return list(self._current)

    def traffic(self) -> dict[NodeId, Traffic]:
        """What went over the links to each peer in this life."""
        return self._traffic

    def queued_bytes(self) -> dict[NodeId, int]:
        """What waits for each peer: for its socket, or for a dial."""
        queued = {peer: link.queued_bytes() for peer, link in self._current.items()}
        for peer, dial in self._dials.items():
            queued[peer] = queued.get(peer, 0) + dial.waiting_bytes
        return queued

    async def close(self) -> None:
        """Hang up on everybody and stop listening."""
        self._closing = True
        self._doorway.close()
        for to in [*self._dials, *self._current]:
            self.hang_up(to)
        self.flush()
        for connection in list(self._connections):
            connection.hang_up()
        deadline = self.loop.time() + CLOSE_WITHIN.value
        while self._connections and self.loop.time() < deadline:
            await asyncio.sleep(0.01)
        self.abort()

    def abort(self) -> None:
        """Cut all connections at once."""
        self._closing = True
        self._doorway.close()
        for dial in self._dials.values():
            self._abandon(dial)
        for connection in list(self._connections):
            connection.abort()

    # Dialling

    async def _connect(self, to: NodeId, dial: _Dial) -> None:
        address = self._book.find(to)

        def connection() -> Connection:
            dial.connection = Connection(self, to, dial.link, True)
            return dial.connection

        try:
            if address is None:
                raise OSError("no address is known")
            if to in self._pauses:
                await asyncio.sleep(self._pauses[to])
            async with asyncio.timeout(DIAL_TIMEOUT.value):
                context = None if self.tls is None else self.tls.client
                await self.carrier.connect(connection, address.host, address.port, context)
                assert dial.connection is not None
                greeting = await dial.connection.greeted
            if greeting.refusal == CROSSING:
                await asyncio.sleep(CROSSING_PATIENCE.value)
                self._dial_failed(to, dial, "its own dial never came")
        except (OSError, TimeoutError, WireError) as error:
            self._dial_failed(to, dial, why_no_link(error, address))

    def connected(self, connection: Connection) -> None:
        """A connection stands; whoever dialled speaks first."""
        self._connections[connection] = None
        if self._closing:
            connection.abort()
        elif connection.dialled:
            hello = self.greeter.hello(connection.peer, connection.link)
            connection.write(frame(hello.encode()))
            connection.flush()

    def answered(self, connection: Connection, greeting: Greeting) -> None:
        """The other end answered our dial."""
        peer = connection.peer
        dial = self._dials.get(peer)
        imposture = imposture_of(connection.passport, greeting)
        if not imposture:
            self._hear_revocations(connection, greeting)
        if dial is None or dial.connection is not connection:
            connection.hang_up()  # abandoned meanwhile
        elif imposture:
            self.counts["impostors"] += 1
            log.warning("dialled node %s: %s", peer, imposture)
            connection.hang_up()
            self._dial_failed(peer, dial, imposture)
        elif greeting.refusal == CROSSING:
            connection.hang_up()
        elif greeting.node == peer and (older := self.greeter.older_storage(greeting)):
            log.warning("dialled node %s: %s", peer, older)
            connection.hang_up()
            self._dial_failed(peer, dial, older)
        elif greeting.refusal:
            self.counts["refused_greetings"] += 1
            reason = self.greeter.why_refused(greeting)
            log.warning("node %s refuses us: %s", peer, reason)
            connection.hang_up()
            self._dial_failed(peer, dial, reason)
        elif greeting.node != peer:
            self.counts["refused_greetings"] += 1
            log.warning("dialled node %s, and node %s answered", peer, greeting.node)
            connection.hang_up()
            self._dial_failed(peer, dial, f"node {greeting.node} answered")
        else:
            del self._dials[peer]
            self._make_current(connection, greeting, dial)

    def _dial_failed(self, to: NodeId, dial: _Dial, reason: str) -> None:
        if self._dials.get(to) is not dial:
            return
        del self._dials[to]
        self._abandon(dial)
        self.counts["dials_failed"] += 1
        log.info("dialling node %s failed: %s", to, reason)
        for _ in dial.waiting:
            self.events.dropped(to, "dial refused")
        self.events.link_lost(to, dial.link, "refused")

    def _abandon(self, dial: _Dial) -> None:
        if dial.task is not None and dial.task is not asyncio.current_task():
            dial.task.cancel()
        if dial.connection is not None:
            dial.connection.hang_up()

    # Being dialled

    def answer(self, connection: Connection, greeting: Greeting) -> None:
        """Somebody dialled us and greeted: take the link, or say why not."""
        passport = connection.passport
        if passport is not None and passport.purpose == JOIN:
            reply = self.greeter.enrol(passport, greeting)
            connection.write(frame(reply.encode()))
            connection.hang_up()
            return
        connection.peer = NodeId(greeting.node)
        connection.link = LinkId(greeting.link)
        refusal = imposture_of(connection.passport, greeting)
        if refusal:
            self.counts["impostors"] += 1
            log.warning("refusing somebody at %s: %s", connection.address(), refusal)
            connection.peer = NodeId(-1)
            connection.hang_up()
            return
        self._hear_revocations(connection, greeting)
        refusal = self.greeter.objection(greeting, self._closing)
        if greeting.wanted == ANYBODY:
            refusal = "now you know who is here"
        elif refusal:
            self.counts["refused_greetings"] += 1
            log.warning("refusing node %s: %s", greeting.node, refusal)
        elif self._crosses_ours(connection.peer, greeting):
            refusal = CROSSING
        self._crossed.discard(connection.peer)
        if refusal == CROSSING:
            self._crossed.add(connection.peer)
        connection.write(frame(self.greeter.reply(greeting, refusal).encode()))
        connection.flush()
        if refusal:
            connection.hang_up()
        else:
            self._take(connection, greeting)

    def _crosses_ours(self, peer: NodeId, greeting: Greeting) -> bool:
        """Whether a dial of ours is to survive this one. Asked twice, the peer has its way."""
        if self._me > peer or peer in self._crossed:
            return False
        if peer in self._dials:
            return True
        current = self._current.get(peer)
        if current is None or not current.dialled:
            return False
        return greeting.start == current.peer_start  # else it was away, and our link is dead

    def _take(self, connection: Connection, greeting: Greeting) -> None:
        peer = connection.peer
        self._book.learn(peer, Address.parse(greeting.address))
        dial = self._dials.pop(peer, None)
        if dial is not None:
            self._abandon(dial)
        self._make_current(connection, greeting, dial)

    # Links

    def _make_current(self, connection: Connection, greeting: Greeting, dial: _Dial | None) -> None:
        peer = connection.peer
        connection.speak()
        self.strangers.leave(connection)
        connection.peer_start = greeting.start
        before = self._current.get(peer)
        if before is not None:
            self._forget_current(before)
            before.abort()
            self.events.link_lost(peer, before.link, "broken")
        self._current[peer] = connection
        self._count_with_earlier(connection)
        connection.current = True
        connection.current_since = self.loop.time()
        connection.outlet.link, connection.outlet.peer = connection.link, peer
        self.outlets.of_peer[peer] = connection.outlet
        if not self.reads:
            connection.read_on()
        log.info("link to node %s is up", peer)
        self.events.link_up(peer, connection.link, connection.dialled)
        for data in dial.waiting if dial is not None else []:
            connection.write(frame(data, self.max_frame))
        if connection.current:
            self._crossed.discard(peer)

    def _count_with_earlier(self, connection: Connection) -> None:
        """Count what goes over this link together with what went over earlier ones to the peer."""
        peer = connection.peer
        traffic = self._traffic.pop(peer, Traffic())
        traffic.add(connection.outlet.traffic)
        connection.outlet.traffic = self._traffic[peer] = traffic
        if len(self._traffic) > MOST_COUNTED:
            gone = next((one for one in self._traffic if one not in self._current), None)
            if gone is not None:
                del self._traffic[gone]

    def _forget_current(self, connection: Connection) -> None:
        connection.current = False
        del self._current[connection.peer]
        del self.outlets.of_peer[connection.peer]

    def lost(self, connection: Connection, reason: str) -> None:
        """A connection ended, by whomever."""
        self._connections.pop(connection, None)
        self.strangers.leave(connection)
        self.no_longer_congested(connection)
        peer = connection.peer
        dial = self._dials.get(peer)
        if self._current.get(peer) is connection:
            self._forget_current(connection)
            self._think_of_pause(connection)
            log.info("link to node %s %s", peer, reason)
            self.events.link_lost(peer, connection.link, reason)
        elif dial is not None and dial.connection is connection and not self._crossed_by(dial):
            self._dial_failed(peer, dial, "hung up")

    def _think_of_pause(self, connection: Connection) -> None:
        """A link that is lost as soon as it is there would be dialled and lost without end."""
        peer = connection.peer
        if self.loop.time() - connection.current_since > SOON.value:
            self._pauses.pop(peer, None)
        else:
            pause = 2 * self._pauses.get(peer, FIRST_PAUSE.value / 2)
            self._pauses[peer] = min(pause, LONGEST_PAUSE.value)

    def _crossed_by(self, dial: _Dial) -> bool:
        """Whether the other end only hung up because its own dial is under way."""
        connection = dial.connection
        if connection is None or not connection.greeted.done() or connection.greeted.cancelled():
            return False  # cancelled with the dial: this node stops
        failed = connection.greeted.exception() is not None
        return not failed and connection.greeted.result().refusal == CROSSING

    def nonsense(self, connection: Connection, error: WireError) -> None:
        """A peer sent what is no message: that link is closed, the node goes on."""
        kind = "bad_frames" if connection.current else "bad_greetings"
        if isinstance(error, Rejected):
            kind = f"rejected_{error.kind}"
        self.counts[kind] += 1
        log.warning("closing the link to %s: %s", connection.where(), error)
        connection.abort()
        self.lost(connection, "broken")

    def without_too_long(self, connection: Connection, messages: list[bytes]) -> list[bytes]:
        """A message that the other end would refuse is not sent: it would end every link."""
        self.counts["too_long"] += 1
        log.error(
            "a message of %d bytes for %s is not sent: at most %d can be",
            max(map(len, messages)),
            connection.where(),
            LONGEST_MESSAGE.value,
        )
        return [data for data in messages if len(data) <= LONGEST_MESSAGE.value]

    def _no_handshake(self, reason: str) -> None:
        self.counts["failed_handshakes"] += 1
        log.info("a handshake failed: %s", reason)

    # Revocations

    def _hear_revocations(self, connection: Connection, greeting: Greeting) -> None:
        """A greeting may bring a newer list: whoever is on it is cut off, its bearer too."""
        if self.tls is None or not greeting.revoked:
            return
        try:
            if greeting.revoked != self.tls.revocations.der and self.tls.adopt(greeting.revoked):
                self.cut_off_revoked()
                self.events.revoked()
        except WireError as error:
            self.counts["bad_revocations"] += 1
            log.warning("node %s told: %s", greeting.node, error)
        if greeting.revoked == self.tls.revocations.der:
            self.informed.add(NodeId(greeting.node))

    def cut_off_revoked(self) -> None:
        """Tell the list of revocations from now on, and end the links to those on it."""
        assert self.tls is not None
        revocations = self.tls.revocations
        self.greeter.tell_revocations(revocations.der)
        self.informed.clear()
        for connection in list(self._connections):
            passport = connection.passport
            if passport is not None and passport.serial in revocations.serials:
                self.counts["revoked_links"] += 1
                log.warning("the certificate of %s is revoked", connection.where())
                connection.abort()
                self.lost(connection, "broken")

    def no_longer_congested(self, connection: Connection) -> None:
        """A connection has room again, or is gone."""
        congested = self.outlets.congested
        if congested.pop(connection.outlet, 0) is None and not congested:
            self.events.relieved()
