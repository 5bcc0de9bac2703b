"""A simulated network: byte streams between processes, with everything that TCP lets happen.

Bytes arrive in order, in pieces of any size, after a latency of their way and as fast as it carries
them. What a reader does not take stops its writer. Links can be cut (both ends hear of it, or one),
ways can be silent in both directions or in one (nobody hears of anything until they are healed),
dials can be refused or stay without an answer.
"""

import asyncio
import collections
import contextvars
import random
import ssl
from collections.abc import Callable
from typing import Any, Final, Protocol, cast

from causalcast.nodeworld.lives import Life, life_of
from causalcast.runtime.links.address_book import Address
from causalcast.runtime.links.carrier import ContextNow, ProtocolFactory
from causalcast.runtime.links.doorway import Guest, Strangers

WINDOW: Final = 1 << 16  # bytes under way in one direction, as a kernel has it
COUNTED_FOR: Final = 10.0  # seconds in which dials from one machine to another are counted
MOST_DIALS: Final = 50  # in such a time
MOST_DIALS_TO_JOIN: Final = 150  # where nodes join: their overlay dials five times a second


class Listener(Protocol):
    """Who takes in what dials a port."""

    is_open: bool
    context: contextvars.Context
    life: Life | None

    def let_in(self, transport: "SimTransport", address: str) -> None:
        """Somebody dialled."""


class Network:
    """All ways between the machines of a world; a machine is known by its port."""

    def __init__(self, loop: asyncio.AbstractEventLoop, chance: random.Random) -> None:
        self.loop = loop
        self.chance = chance
        self.counts: dict[str, int] = {}
        self.latency: dict[tuple[int, int], float] = {}  # seconds, by way
        self.usual_latency = 0.001
        self.largest_piece = 1 << 16
        self.bytes_per_second = 0  # of each way; 0: as many as come
        self.bytes = 0  # that arrived
        self.dials = 0
        self.most_dials = 0  # from one machine to another within such a time
        self._recent_dials: dict[tuple[int, int], collections.deque[float]] = {}
        self._flaky: dict[tuple[int, int], float] = {}  # how many times a way connections last
        self._silent: set[tuple[int, int]] = set()  # ways: from, to
        self._doors: dict[int, Listener] = {}
        self._streams: dict[Stream, None] = {}

    def count(self, name: str) -> None:
        """Something happened that a campaign wants to see."""
        self.counts[name] = self.counts.get(name, 0) + 1

    # What happens to it

    def silence(self, a: int, b: int, one_way: bool = False) -> None:
        """Nothing passes between two machines, or from the first to the second; nobody is told."""
        self._silent.add((a, b))
        if not one_way:
            self._silent.add((b, a))

    def heal(self) -> None:
        """Everything passes again; what was under way goes on."""
        self._silent.clear()
        self._flaky.clear()
        for stream in list(self._streams):
            stream.pump()

    def calm_down(self) -> None:
        """Every way is as it should be."""
        self.latency.clear()
        self.bytes_per_second = 0
        self.heal()

    def is_silent(self, a: int, b: int) -> bool:
        """Whether nothing passes from one machine to another now."""
        return (a, b) in self._silent

    def let_nothing_last(self, a: int, b: int, ways: float) -> None:
        """Connections between two machines are lost when so many latencies have passed."""
        self._flaky[a, b] = self._flaky[b, a] = ways

    def half_close(self, a: int, b: int) -> bool:
        """The first loses its connections to the second, which hears of it when it writes."""
        ends = [s.sender for s in self._streams if (s.sender.port, s.receiver.port) == (a, b)]
        for end in ends:
            end.lost_alone()
        return bool(ends)

    def cut(self, a: int, b: int) -> bool:
        """Break the connections between two machines; False if there is none."""
        ends = [s.sender for s in self._streams if {s.sender.port, s.receiver.port} == {a, b}]
        for end in ends:
            end.broken(ConnectionResetError("cut"))
        return bool(ends)

    def process_ended(self, life: Life, is_silent: bool) -> None:
        """A process is gone. Its kernel closes its connections, unless the power is gone, too."""
        for port, door in list(self._doors.items()):
            if door.life is life:
                del self._doors[port]
        for stream in list(self._streams):
            if stream.sender.life is life:
                stream.sender.is_over = True
                if is_silent:
                    stream.forget()
                else:
                    stream.end(ConnectionResetError("the process is gone"))
            elif stream.receiver.life is life:
                stream.is_unread = True

    # What carriers ask for

    def bind(self, door: "Listener", port: int) -> None:
        if port in self._doors:
            raise OSError(98, "Address already in use")
        self._doors[port] = door

    def unbind(self, door: "Listener", port: int) -> None:
        if self._doors.get(port) is door:
            del self._doors[port]

    def way(self, a: int, b: int) -> float:
        """Seconds that a piece takes from one machine to another."""
        usual = self.latency.get((a, b), self.usual_latency)
        return usual * self.chance.choice((0.5, 1.0, 1.0, 1.5))

    async def connect(self, factory: ProtocolFactory, me: int, port: int) -> "SimTransport":
        """Dial; OSError if nobody is there, and no answer at all on a silent way."""
        self.dials += 1
        self._note_dial(me, port)
        await asyncio.sleep(self.way(me, port))
        if self.is_silent(me, port) or self.is_silent(port, me):
            self.count("dial_unanswered")
            await asyncio.Future()  # whoever dialled says for how long it waits
        door = self._doors.get(port)
        if door is None or not door.is_open:
            self.count("dial_refused")
            await asyncio.sleep(self.way(port, me))
            raise ConnectionRefusedError(111, "Connection refused")
        mine = SimTransport(self, me)
        theirs = SimTransport(self, port, door.context)
        for one, other in ((mine, theirs), (theirs, mine)):
            one.stream = Stream(self, one, other)
            self._streams[one.stream] = None
        door.let_in(theirs, str(me))
        await asyncio.sleep(self.way(port, me))
        mine.begin(factory())
        if (me, port) in self._flaky:
            lasts = self._flaky[me, port] * self.way(me, port)
            self.loop.call_later(lasts, self._lose, mine, context=_NOBODY)
        return mine

    def _note_dial(self, me: int, port: int) -> None:
        recent = self._recent_dials.setdefault((me, port), collections.deque())
        recent.append(self.loop.time())
        while recent[0] < self.loop.time() - COUNTED_FOR:
            recent.popleft()
        self.most_dials = max(self.most_dials, len(recent))

    def _lose(self, end: "SimTransport") -> None:
        if not end.is_over:
            end.broken(ConnectionResetError("it did not last"))

    def forget(self, stream: "Stream") -> None:
        """Nothing passes there any more."""
        self._streams.pop(stream, None)


class Stream:
    """One direction of a connection."""

    def __init__(self, network: Network, sender: "SimTransport", receiver: "SimTransport") -> None:
        self.sender = sender
        self.receiver = receiver
        self.is_unread = False  # the reader is gone
        self._network = network
        self._unsent = bytearray()
        self._under_way = 0
        self._arrived = bytearray()
        self._pieces: collections.deque[bytes | None] = collections.deque()  # on their way
        self._last_at = 0.0
        self._free_at = 0.0  # when the way has carried what was put on it
        self._end: Exception | None = None
        self._is_ending = False
        self._is_ended = False

    def unsent(self) -> int:
        """Bytes that wait for the window."""
        return len(self._unsent)

    def put(self, data: bytes) -> None:
        """The sender writes."""
        self._unsent += data
        self.pump()

    def end(self, reason: Exception | None) -> None:
        """The sender says nothing more; with a reason, what was not sent is lost."""
        if reason is not None:
            self._unsent.clear()
        if not self._is_ending:
            self._is_ending = True
            self._end = reason
            self.pump()

    def forget(self) -> None:
        """Nothing arrives any more, and nobody is told."""
        self._is_ended = True
        self._pieces.clear()
        self._network.forget(self)

    def pump(self) -> None:
        """Let leave what the window and the way allow."""
        network, a, b = self._network, self.sender.port, self.receiver.port
        if self._is_ended or network.is_silent(a, b):
            return
        while self._unsent and self._under_way + len(self._arrived) < WINDOW:
            room = WINDOW - self._under_way - len(self._arrived)
            size = min(room, network.chance.randint(1, network.largest_piece))
            piece = bytes(self._unsent[:size])
            del self._unsent[:size]
            self._under_way += len(piece)
            self._plan(piece)
        if not self._unsent and self._is_ending:
            self._is_ended = True
            self._plan(None)
        self.sender.look_at_buffer()

    def _plan(self, piece: bytes | None) -> None:
        """Let a piece arrive, or the end of all pieces, behind everything before it."""
        network = self._network
        way = network.way(self.sender.port, self.receiver.port)
        now = network.loop.time()
        if piece is not None and network.bytes_per_second:
            self._free_at = max(self._free_at, now) + len(piece) / network.bytes_per_second
            way += self._free_at - now
        self._last_at = max(self._last_at, now + way)
        self._pieces.append(piece)
        network.loop.call_at(self._last_at, self._next_arrives, context=_NOBODY)

    def _next_arrives(self) -> None:
        if not self._pieces:
            return  # the way was silent when its turn came: all of them go again
        if self._network.is_silent(self.sender.port, self.receiver.port):
            again = b"".join(piece for piece in self._pieces if piece is not None)
            self._unsent[:0] = again
            self._under_way -= len(again)
            self._is_ended = False
            self._pieces.clear()
            return
        piece = self._pieces.popleft()
        if piece is None:
            self._network.forget(self)
            self.receiver.ended(self._end)
        else:
            self._arrive(piece)

    def _arrive(self, piece: bytes) -> None:
        self._under_way -= len(piece)
        self._network.bytes += len(piece)
        if self.is_unread:
            self.sender.broken(ConnectionResetError("nobody reads there"))
            return
        self._arrived += piece
        self.receiver.wake()

    def take(self) -> bytes:
        """What has arrived; the reader takes it, and the window opens."""
        data = bytes(self._arrived)
        self._arrived.clear()
        self._network.loop.call_soon(self.pump, context=_NOBODY)
        return data

    def has_arrived(self) -> bool:
        """Whether there is something to read."""
        return bool(self._arrived)


_NOBODY: Final = contextvars.Context()  # belongs to no life: the network goes on when one ends


class SimTransport(asyncio.Transport):
    """One end of a connection, with asyncio's interface."""

    def __init__(
        self, network: Network, port: int, context: contextvars.Context | None = None
    ) -> None:
        super().__init__()
        self.port = port
        self.stream: Stream
        self.is_over = False
        self.context = contextvars.copy_context() if context is None else context
        self.life = life_of(self.context)
        self._network = network
        self._protocol: Any = None
        self._high = 1 << 16
        self._is_paused = False  # the writer
        self._reads = True
        self._is_closing = False

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        """The connection stands."""
        self._protocol = protocol
        self._protocol.connection_made(self)
        self.wake()

    def incoming(self) -> Stream:
        """What the other end says."""
        return self.stream.receiver.stream

    # What the network tells

    def wake(self) -> None:
        """Something arrived."""
        self._network.loop.call_soon(self._read, context=self.context)

    def _read(self) -> None:
        if self._protocol is None or self.is_over or not self._reads:
            return
        stream = self.incoming()
        if not stream.has_arrived():
            return
        if not isinstance(self._protocol, asyncio.BufferedProtocol):
            self._protocol.data_received(stream.take())
            return
        data = memoryview(stream.take())
        while data and not self.is_over:
            room = memoryview(self._protocol.get_buffer(len(data)))
            taken = min(len(room), len(data))
            room[:taken] = data[:taken]
            self._protocol.buffer_updated(taken)
            data = data[taken:]

    def ended(self, reason: Exception | None) -> None:
        """The other end says nothing more."""
        self._network.loop.call_soon(self._end_reading, reason, context=self.context)

    def _end_reading(self, reason: Exception | None) -> None:
        if self.is_over:
            return
        if reason is None:
            self._read()
            if not isinstance(self._protocol, asyncio.BufferedProtocol | None):
                self._protocol.eof_received()
        self.stream.end(None)
        self._lose(reason)

    def broken(self, reason: Exception) -> None:
        """The connection is reset."""
        for stream in (self.stream, self.incoming()):
            stream.forget()
        for end in (self, self.stream.receiver):
            self._network.loop.call_soon(end._lose, reason, context=end.context)

    def lost_alone(self) -> None:
        """This end is reset, and nothing tells the other one."""
        self.stream.forget()
        self.incoming().is_unread = True
        reason = ConnectionResetError("half open")
        self._network.loop.call_soon(self._lose, reason, context=self.context)

    def _lose(self, reason: Exception | None) -> None:
        if not self.is_over and self._protocol is not None:
            self.is_over = self._is_closing = True
            self._protocol.connection_lost(reason)
        self.is_over = True

    def look_at_buffer(self) -> None:
        """Let the writer wait while more is in the buffer than it asked for."""
        waiting = self.stream.unsent()
        if self._is_closing and not waiting:  # what was written has left, as far as one can tell
            self._network.loop.call_soon(self._lose, None, context=self.context)
        if not self._is_paused and waiting > self._high:
            self._is_paused = True
            self._network.count("writer_paused")
            self._network.loop.call_soon(self._tell_writer, True, context=self.context)
        elif self._is_paused and waiting <= self._high // 4:
            self._is_paused = False
            self._network.loop.call_soon(self._tell_writer, False, context=self.context)

    def _tell_writer(self, pause: bool) -> None:
        if not self.is_over and self._protocol is not None:
            if pause:
                self._protocol.pause_writing()
            else:
                self._protocol.resume_writing()

    # What asyncio's transports do

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "peername":
            return (f"10.0.0.{self.stream.receiver.port % 256}", self.stream.receiver.port)
        return default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = self._high if high is None else high

    def get_write_buffer_size(self) -> int:
        return self.stream.unsent()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._is_closing and not self.is_over:
            self.stream.put(bytes(data))

    def pause_reading(self) -> None:
        self._reads = False

    def resume_reading(self) -> None:
        self._reads = True
        self.wake()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.stream.end(None)

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self.stream.end(None)
            self.look_at_buffer()

    def abort(self) -> None:
        self._is_closing = True
        self.stream.end(ConnectionResetError("aborted"))
        self._network.loop.call_soon(self._lose, None, context=self.context)


class SimCarrier:
    """Carries the links of one node over the network."""

    def __init__(self, network: Network, port: int) -> None:
        self._network = network
        self._port = port

    def doorway(
        self,
        strangers: Strangers,
        guest: ProtocolFactory,
        context: ContextNow,
        failed: Callable[[str], None],
    ) -> "SimDoorway":
        return SimDoorway(self._network, strangers, guest)

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int, context: ssl.SSLContext | None
    ) -> None:
        await self._network.connect(factory, self._port, port)


class SimDoorway:
    """Where dials arrive."""

    def __init__(self, network: Network, strangers: Strangers, guest: ProtocolFactory) -> None:
        self.is_open = False
        self.context = contextvars.copy_context()
        self.life = life_of(self.context)
        self._network = network
        self._strangers = strangers
        self._make_guest = guest
        self._port = -1

    async def bind(self, address: Address) -> None:
        self._network.bind(self, address.port)
        self._port = address.port

    def open(self) -> None:
        self.is_open = True

    def close(self) -> None:
        self.is_open = False
        self._network.unbind(self, self._port)

    def let_in(self, transport: SimTransport, address: str) -> None:
        """Somebody dialled."""
        self._network.loop.call_soon(self._welcome, transport, address, context=self.context)

    def _welcome(self, transport: SimTransport, address: str) -> None:
        guest = self._make_guest()
        transport.begin(guest)
        if cast(Guest, guest).is_stranger():
            self._strangers.enter(cast(Guest, guest), address)
