"""Our UDP transport beside our TCP one: bytes per second and round trips, without loss and with.

    python benchmarks/carriers.py [--loss 0 1 5] [--seconds 3] [--rounds 3]
        [--way loopback|ethernet|distant] [--uvloop]
        [--transports udp tcp tcp-cubic tcp-bbr quic quic-cubic]

Two processes; `lossy_ways.py` says how they reach each other and where packets are lost. On
loopback the kernel's TCP loses packets of up to 64 KiB, ours datagrams of 60 KiB; on the other ways
both lose packets of up to 1,500 bytes. `tcp` has the congestion control this machine is set to,
`tcp-NAME` that one. `quic` is aioquic (`pip install aioquic`), with Reno or the control that is
named; its bytes are always encrypted. Each round measures every pair of transport and loss once, in
turn, so that a busy machine slows all of them alike. One process writes frames as fast as the
transport takes them; then frames go to and fro one by one.
"""

import argparse
import asyncio
import multiprocessing
import os
import socket
import statistics
import sys
import time
from collections.abc import Coroutine
from multiprocessing.connection import Connection
from typing import Any, cast

from lossy_ways import WAYS, Way, make_way

from causalcast.runtime.links.address_book import Address
from causalcast.runtime.links.carrier import Carrier, TcpCarrier
from causalcast.runtime.links.doorway import Strangers
from causalcast.runtime.links.udp.carrier import UdpCarrier
from causalcast.runtime.links.udp.sealing import ClusterKey
from causalcast.version import VERSION, build_kind
from causalcast.wire.framing import FrameReader, frame

FRAME_BYTES = 64
FRAMES_PER_WRITE = 64  # what a busy link writes in one turn
Result = tuple[float, float, float]


class Stream(asyncio.BufferedProtocol):
    """Counts frames; the receiving one answers each read from a short frame on."""

    def __init__(self, receives: bool = False) -> None:
        self.frames = 0
        self.receives = receives
        self.echoes = False
        self.transport: asyncio.Transport
        self.room = asyncio.Event()
        self.room.set()
        self.came = asyncio.Event()
        self._reader = FrameReader(1 << 20)

    def is_stranger(self) -> bool:
        return False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is one without saying so
        self.transport.set_write_buffer_limits(high=1 << 20)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.writable()

    def buffer_updated(self, nbytes: int) -> None:
        frames = self._reader.filled(nbytes)
        self.frames += len(frames)
        if self.receives and any(len(one) == 1 for one in frames):
            self.echoes = True
        if frames and self.echoes:
            self.transport.write(frame(bytes(frames[-1])))
        if frames:
            self.came.set()

    def pause_writing(self) -> None:
        self.room.clear()

    def resume_writing(self) -> None:
        self.room.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.room.set()
        self.came.set()


def carrier_of(name: str) -> Carrier:
    if name.startswith("quic"):
        from quic_carrier import QuicCarrier  # only who asks for it needs aioquic

        return QuicCarrier(name.partition("-")[2] or "reno")
    return UdpCarrier(ClusterKey(b"benchmark" * 4)) if name == "udp" else TcpCarrier()


def choose_congestion(name: str, stream: Stream) -> None:
    """Let the kernel's TCP have the congestion control that the transport's name asks for."""
    kind, _, congestion = name.partition("-")
    if kind == "tcp" and congestion:
        tcp: socket.socket = stream.transport.get_extra_info("socket")
        tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())


def serve(name: str, way: Way, loss: float, pipe: Connection, uvloop: bool) -> None:
    """The receiving process: tells its port, then how many frames came in which time."""

    async def run() -> None:
        streams: list[Stream] = []

        def accept() -> Stream:
            streams.append(Stream(receives=True))
            return streams[-1]

        port = 20_000 + os.getpid() % 10_000
        carrier = carrier_of(name)
        listener = carrier.doorway(Strangers(), accept, lambda: None, print)
        await listener.bind(Address(way.hosts[1], port))
        listener.open()
        pipe.send(port)
        while not streams or not streams[0].frames:
            await asyncio.sleep(0.001)
        choose_congestion(name, streams[0])
        way.lose(socket_of(carrier, streams[0]), loss)
        used = time.process_time()
        while not pipe.poll():
            await asyncio.sleep(0.01)
        pipe.recv()
        pipe.send((streams[0].frames, time.process_time() - used))
        while not pipe.poll():
            await asyncio.sleep(0.01)
        listener.close()

    way.enter(1)
    run_loop(run(), uvloop)


def write(
    name: str, way: Way, loss: float, seconds: float, port: int, pipe: Connection, uvloop: bool
) -> None:
    """The sending process: tells what `measure` returns."""

    async def run() -> Result:
        carrier = carrier_of(name)
        if isinstance(carrier, UdpCarrier):
            await carrier.bind(way.hosts[0], port + 10_000)
        stream = Stream()
        await carrier.connect(lambda: stream, way.hosts[1], port, None)
        choose_congestion(name, stream)
        stream.transport.write(frame(bytes(FRAME_BYTES)))
        await asyncio.sleep(0.1)
        way.lose(socket_of(carrier, stream), loss)
        block = frame(bytes(FRAME_BYTES)) * FRAMES_PER_WRITE
        began, used = time.monotonic(), time.process_time()
        while time.monotonic() - began < seconds:
            await stream.room.wait()
            stream.transport.write(block)
            await asyncio.sleep(0)
        took, used = time.monotonic() - began, time.process_time() - used
        pipe.send("count")
        while not pipe.poll():
            await asyncio.sleep(0.001)
        arrived, used_there = pipe.recv()
        times = await round_trips(stream, seconds)
        stream.transport.abort()
        return arrived / took, (used + used_there) / arrived * 1e6, times

    way.enter(0)
    pipe.send(run_loop(run(), uvloop))


def measure(name: str, way: Way, loss: float, seconds: float, uvloop: bool) -> Result:
    """Frames per second that arrived, microseconds of CPU per frame at both ends together, and the
    median round trip in microseconds."""
    to_server, server_pipe = multiprocessing.Pipe()
    to_client, client_pipe = multiprocessing.Pipe()
    server = multiprocessing.Process(
        target=serve, args=(name, way, loss, server_pipe, uvloop), daemon=True
    )
    server.start()
    port: int = to_server.recv()
    client = multiprocessing.Process(
        target=write, args=(name, way, loss, seconds, port, client_pipe, uvloop), daemon=True
    )
    client.start()
    to_server.send(to_client.recv())  # it wants the frames to be counted
    to_client.send(to_server.recv())
    result: Result = to_client.recv()
    to_server.send("stop")
    for process in (server, client):
        process.join(5)
        process.kill()
    return result


def run_loop(story: Coroutine[Any, Any, Any], uvloop: bool) -> Any:
    """Run on asyncio's own loop, or on uvloop's."""
    if not uvloop:
        return asyncio.run(story)
    import uvloop as other  # only who asks for it needs it

    with asyncio.Runner(loop_factory=other.new_event_loop) as runner:
        return runner.run(story)


async def round_trips(stream: Stream, seconds: float) -> float:
    """The median time from writing a short frame to its echo, paced a little apart."""
    stream.transport.write(frame(b"e"))  # echoes from here on, behind all that was written
    stream.came.clear()
    await asyncio.wait_for(stream.came.wait(), 60)
    times = []
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        await asyncio.sleep(0.002)
        stream.came.clear()
        sent = time.monotonic()
        stream.transport.write(frame(bytes(FRAME_BYTES)))
        await asyncio.wait_for(stream.came.wait(), 60)
        times.append(time.monotonic() - sent)
    return statistics.median(times) * 1e6


def socket_of(carrier: Carrier, stream: Stream) -> socket.socket:
    """Where the packets of a stream come in."""
    if isinstance(carrier, UdpCarrier):
        assert carrier._socket is not None
        return carrier._socket
    found: socket.socket = stream.transport.get_extra_info("socket")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--loss", type=float, nargs="+", default=[0.0, 1.0, 5.0], metavar="%")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--way", choices=WAYS, default="loopback")
    parser.add_argument("--delay", type=float, default=5.0, metavar="MS", help="distant: each way")
    parser.add_argument("--transports", nargs="+", default=["tcp", "udp"], metavar="NAME")
    parser.add_argument("--uvloop", action="store_true")
    options = parser.parse_args()
    print(f"causalcast {VERSION} ({build_kind()})", file=sys.stderr)
    found: dict[tuple[float, str], list[Result]] = {}
    for _ in range(options.rounds):
        for loss in options.loss:
            for name in options.transports:
                way = make_way(options.way, options.delay)
                try:
                    result = measure(name, way, loss, options.seconds, options.uvloop)
                finally:
                    way.close()
                found.setdefault((loss, name), []).append(result)
    print("| loss | transport | frames of 64 bytes per second | CPU per frame, µs | p50, µs |")
    print("| --- | --- | --- | --- | --- |")
    for (loss, name), results in found.items():
        rates = sorted(rate for rate, _, _ in results)
        used = statistics.median(used for _, used, _ in results)
        trip = statistics.median(trip for _, _, trip in results)
        spread = f"{rates[0]:,.0f}..{rates[-1]:,.0f}"
        rate = f"{statistics.median(rates):,.0f} ({spread})"
        print(f"| {loss:g} % | {name} | {rate} | {used:.2f} | {trip:,.0f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
