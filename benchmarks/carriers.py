"""Our UDP transport beside our TCP one: bytes per second and round trips, without loss and with.

    python benchmarks/carriers.py [--loss 0 1 5] [--seconds 3] [--rounds 3]

Two processes on loopback. Loss happens in the kernel, at both receiving sockets, by a filter that
throws a share of all packets away (classic BPF with the kernel's random numbers): TCP and UDP lose
alike, the kernel's TCP in packets of up to 64 KiB, ours in datagrams of 16 KiB. Each round measures
every pair of transport and loss once, in turn, so that a busy machine slows all of them alike. One
process writes frames as fast as the transport takes them; then frames go to and fro one by one.
"""

import argparse
import asyncio
import ctypes
import multiprocessing
import os
import socket
import statistics
import struct
import sys
import time
from multiprocessing.connection import Connection

from causalcast.runtime.links.address_book import Address
from causalcast.runtime.links.carrier import Carrier, TcpCarrier
from causalcast.runtime.links.doorway import Strangers
from causalcast.runtime.links.sealing import ClusterKey
from causalcast.runtime.links.udp_carrier import UdpCarrier
from causalcast.wire.framing import FrameReader, frame

FRAME_BYTES = 64
FRAMES_PER_WRITE = 64  # what a busy link writes in one turn
ATTACH_FILTER = 26  # SO_ATTACH_FILTER of Linux
RANDOM_NUMBER = 0xFFFFF000 + 56  # SKF_AD_OFF + SKF_AD_RANDOM


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
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=1 << 20)

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
    return TcpCarrier() if name == "tcp" else UdpCarrier(ClusterKey(b"benchmark" * 4))


def serve(name: str, loss: float, pipe: Connection) -> None:
    """The receiving process: tells its port, then how many frames came in which time."""

    async def run() -> None:
        streams: list[Stream] = []

        def accept() -> Stream:
            streams.append(Stream(receives=True))
            return streams[-1]

        port = 20_000 + os.getpid() % 10_000
        carrier = carrier_of(name)
        listener = carrier.doorway(Strangers(), accept, lambda: None, print)
        await listener.bind(Address("127.0.0.1", port))
        listener.open()
        pipe.send(port)
        while not streams or not streams[0].frames:
            await asyncio.sleep(0.001)
        lose(socket_of(carrier, streams[0]), loss)
        used = time.process_time()
        while not pipe.poll():
            await asyncio.sleep(0.01)
        pipe.recv()
        pipe.send((streams[0].frames, time.process_time() - used))
        while not pipe.poll():
            await asyncio.sleep(0.01)
        listener.close()

    asyncio.run(run())


def measure(name: str, loss: float, seconds: float) -> tuple[float, float, float]:
    """Frames per second that arrived, microseconds of CPU per frame at both ends together, and the
    median round trip in microseconds."""
    here, there = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(name, loss, there), daemon=True)
    server.start()
    port: int = here.recv()

    async def run() -> tuple[float, float, float]:
        carrier = carrier_of(name)
        if isinstance(carrier, UdpCarrier):
            await carrier.bind("127.0.0.1", port + 10_000)
        stream = Stream()
        await carrier.connect(lambda: stream, "127.0.0.1", port, None)
        stream.transport.write(frame(bytes(FRAME_BYTES)))
        await asyncio.sleep(0.1)
        lose(socket_of(carrier, stream), loss)
        block = frame(bytes(FRAME_BYTES)) * FRAMES_PER_WRITE
        began, used = time.monotonic(), time.process_time()
        while time.monotonic() - began < seconds:
            await stream.room.wait()
            stream.transport.write(block)
            await asyncio.sleep(0)
        took, used = time.monotonic() - began, time.process_time() - used
        here.send("count")
        while not here.poll():
            await asyncio.sleep(0.001)
        arrived, used_there = here.recv()
        times = await round_trips(stream, seconds)
        stream.transport.abort()
        return arrived / took, (used + used_there) / arrived * 1e6, times

    result = asyncio.run(run())
    here.send("stop")
    server.join(5)
    server.kill()
    return result


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


def lose(receiver: socket.socket, percent: float) -> None:
    """Let the kernel throw so many of a hundred packets away before this socket gets them."""
    if not percent:
        return
    threshold = int(percent / 100 * (1 << 32))
    program = [
        (0x20, 0, 0, RANDOM_NUMBER),  # load a random word
        (0x35, 0, 1, threshold),  # at least the threshold?
        (0x06, 0, 0, 0xFFFFFFFF),  # keep it
        (0x06, 0, 0, 0),  # throw it away
    ]
    code = b"".join(struct.pack("HBBI", *one) for one in program)
    buffer = ctypes.create_string_buffer(code)
    filters = struct.pack("HP", len(program), ctypes.addressof(buffer))
    receiver.setsockopt(socket.SOL_SOCKET, ATTACH_FILTER, filters)


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
    options = parser.parse_args()
    found: dict[tuple[float, str], list[tuple[float, float, float]]] = {}
    for _ in range(options.rounds):
        for loss in options.loss:
            for name in ("tcp", "udp"):
                found.setdefault((loss, name), []).append(measure(name, loss, options.seconds))
    print("| loss | transport | frames of 64 bytes per second | CPU per frame, µs | p50, µs |")
    print("| --- | --- | --- | --- | --- |")
    for (loss, name), results in found.items():
        rates = sorted(rate for rate, _, _ in results)
        used = statistics.median(used for _, used, _ in results)
        trip = statistics.median(trip for _, _, trip in results)
        spread = f"{rates[0]:,.0f}..{rates[-1]:,.0f}"
        rate = f"{statistics.median(rates):,.0f} ({spread})"
        print(f"| {loss:g} % | {name} | {rate} | {used:.2f} | {trip:.0f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
