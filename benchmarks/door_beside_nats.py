"""A door beside NATS with WebSocket: messages a second, latency, memory of idle clients.

    python benchmarks/door_beside_nats.py
    python benchmarks/door_beside_nats.py --seconds 2 --clients 1 10 --idle 100 --rounds 1

Every round runs each system in turn, so both see the same machine; the median of the rounds counts.
All clients are in this process, and are the same for both: plain sockets that speak WebSocket by
hand and look for marks in what comes, so that they cost as little as Python can. With a fast server
the clients are what is measured; `cpu` says how much of one core the server used.

Both carry 128 bytes to everybody who subscribed. A node answers a publication when it is on disk,
keeps it for clients that come back, and wants acknowledgements; NATS (core) answers when it has
read it, and keeps nothing. NATS comes from `nats-server` of the distribution, or of the extra
`bench`; without it the node is measured alone, and that is said.
"""

import argparse
import asyncio
import base64
import json
import os
import re
import resource
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from causalcast.runtime.operating.local_cluster import ClusterPlan, LocalCluster, free_addresses

GROUP = "chat"
BODY = 128
MARK = b"@T"  # in front of the time in a body; nothing else has it
DIGITS = 19
PUBLISHERS = 10  # connections; a door takes 2,000 requests a second of each name
UNANSWERED = 50  # of one of them
PACED = 100  # publications a second while latency is measured, but
PACED_DELIVERIES = 1000  # of them all, so that nobody has to queue
PATIENCE = 120.0
MESSAGE_ID = re.compile(rb'"message":"([0-9.]+)","group"')


def body() -> bytes:
    """128 bytes that say when they were made."""
    return (MARK + b"%019d" % time.monotonic_ns()).ljust(BODY, b".")


def frame(payload: bytes) -> bytes:
    """A text frame of a client, masked with zeros."""
    size = len(payload)
    length = bytes([0x80 | size]) if size < 126 else b"\xfe" + struct.pack("!H", size)
    return b"\x81" + length + b"\0\0\0\0" + payload


class Client(asyncio.Protocol):
    """One connection, of either system."""

    def __init__(self, address: str, take: Callable[[bytes], None]) -> None:
        self._address = address
        self._take = take
        self._before = b""
        self.transport: asyncio.Transport
        self.is_open = asyncio.Event()
        self.is_lost = False

    async def connect(self) -> None:
        """Dial, and shake hands."""
        host, _, port = self._address.partition(":")
        await asyncio.get_running_loop().create_connection(lambda: self, host, int(port))
        key = base64.b64encode(os.urandom(16)).decode()
        head = f"GET / HTTP/1.1\r\nHost: {self._address}\r\nUpgrade: websocket\r\n"
        head += f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
        self.transport.write(f"{head}\r\n".encode())
        async with asyncio.timeout(PATIENCE):
            await self.is_open.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is there."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Something came; the first thing is the answer to the handshake."""
        data = self._before + data
        if not self.is_open.is_set():
            head, end, rest = data.partition(b"\r\n\r\n")
            self._before = rest if end else data
            if end:
                assert head.startswith(b"HTTP/1.1 101"), head
                self.is_open.set()
            return
        payloads, at = [], 0
        while len(data) >= at + 2:
            size, begin = data[at + 1], at + 2
            if size == 126:
                size, begin = int.from_bytes(data[at + 2 : at + 4]), at + 4
            elif size == 127:
                size, begin = int.from_bytes(data[at + 2 : at + 10]), at + 10
            if len(data) < begin + size:
                break
            if data[at] & 15 in (0, 1, 2):
                payloads.append(data[begin : begin + size])
            at = begin + size
        self._before = data[at:]
        if payloads:
            self._take(b"".join(payloads))

    def connection_lost(self, error: Exception | None) -> None:
        """It is gone."""
        self.is_lost = True

    def say(self, words: bytes) -> None:
        """One frame."""
        self.transport.write(frame(words))


class System:
    """What both have in common."""

    name: str
    address: str
    process: int

    def hello(self, who: str) -> bytes:
        """The first frame."""
        raise NotImplementedError

    def subscribe(self) -> bytes:
        """Wants all of the group."""
        raise NotImplementedError

    def publish(self, number: int, text: bytes) -> bytes:
        """One publication."""
        raise NotImplementedError

    welcome: bytes  # what says that the hello was heard
    answer: bytes  # what says that a publication was accepted

    def acknowledgement(self, data: bytes) -> bytes:
        """What a reader has to say when this came."""
        return b""

    def stop(self) -> None:
        """End it."""

    def cpu(self) -> float:
        """Seconds that it used so far."""
        fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> int:
        """Resident bytes."""
        pages = int(Path(f"/proc/{self.process}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


class Door(System):
    """A node with a door, and a journal."""

    name = "causalcast"
    welcome = b'"welcome"'
    answer = b'"published"'

    def __init__(self, folder: Path) -> None:
        plan = ClusterPlan(1, overlay="full_mesh", groups={GROUP: [1]}, tls=False, clients=True)
        plan.trace_level = "none"
        self._cluster = LocalCluster(folder / "cluster", plan)
        config = self._cluster.config_of(1)
        config.write_text(re.sub(r"\n\[trace\]\n[^\[]*", "\n", config.read_text()))
        self._cluster.start_all()
        self.address = self._cluster.door_of(1).removeprefix("ws://")
        self.process = self._cluster.process_id(1)

    def hello(self, who: str) -> bytes:
        return json.dumps({"do": "hello", "version": 1, "name": who}).encode()

    def subscribe(self) -> bytes:
        return json.dumps({"do": "subscribe", "id": 1, "groups": [GROUP]}).encode()

    def publish(self, number: int, text: bytes) -> bytes:
        head = b'{"do":"publish","id":%d,"group":"%s","text":"' % (number, GROUP.encode())
        return head + text + b'"}'

    def acknowledgement(self, data: bytes) -> bytes:
        came = MESSAGE_ID.findall(data)
        return b'{"do":"ack","messages":["' + b'","'.join(came) + b'"]}' if came else b""

    def stop(self) -> None:
        self._cluster.stop(1)


class Nats(System):
    """A server of NATS with its own WebSocket."""

    name = "NATS"
    welcome = b"+OK"
    answer = b"+OK"

    def __init__(self, folder: Path) -> None:
        plain, self.address = free_addresses(2)
        port = self.address.partition(":")[2]
        config = folder / "nats.conf"
        websocket = f'websocket {{ listen: "{self.address}", no_tls: true }}'
        config.write_text(f"listen: {plain}\nmax_pending: 1GB\n{websocket}\n")
        self._server = subprocess.Popen(
            [nats_server(), "-c", str(config)], stderr=subprocess.DEVNULL
        )
        self.process = self._server.pid
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", int(port))).close()
                return
            except ConnectionRefusedError:
                time.sleep(0.02)

    def hello(self, who: str) -> bytes:
        verbose = b"true" if who.startswith("publisher") else b"false"
        return b'CONNECT {"verbose":%s,"echo":true}\r\nPING\r\n' % verbose

    def subscribe(self) -> bytes:
        return b"SUB %s 1\r\nPING\r\n" % GROUP.encode()

    def publish(self, number: int, text: bytes) -> bytes:
        return b"PUB %s %d\r\n%s\r\n" % (GROUP.encode(), len(text), text)

    def stop(self) -> None:
        self._server.send_signal(signal.SIGTERM)
        self._server.wait()


def nats_server() -> str:
    """Where it is; empty if it is not."""
    beside = Path(sys.executable).parent / "nats-server"
    return str(beside) if beside.exists() else shutil.which("nats-server") or ""


class Reader:
    """A client that counts what comes, and keeps how long it took."""

    def __init__(self, system: System, number: int) -> None:
        self._system = system
        self._tail = b""
        self.count = 0
        self.took: list[int] = []
        self.keeps_times = False
        self.has_heard = asyncio.Event()
        self.client = Client(system.address, self._take)
        self._name = f"reader-{number % 20}"

    async def start(self) -> None:
        """Connect and subscribe."""
        await self.client.connect()
        self.client.say(self._system.hello(self._name))
        async with asyncio.timeout(PATIENCE):
            await self.has_heard.wait()
        self.has_heard.clear()
        self.client.say(self._system.subscribe())
        async with asyncio.timeout(PATIENCE):
            await self.has_heard.wait()

    def _take(self, data: bytes) -> None:
        self.has_heard.set()
        words = self._system.acknowledgement(data)
        if words:
            self.client.say(words)
        data = self._tail + data
        at, now = data.find(MARK), time.monotonic_ns()
        while 0 <= at <= len(data) - BODY:
            self.count += 1
            if self.keeps_times:
                self.took.append(now - int(data[at + len(MARK) : at + len(MARK) + DIGITS]))
            at = data.find(MARK, at + BODY)
        self._tail = data[at:] if at >= 0 else data[-1:]  # NATS may cut anywhere


class Publisher:
    """A client that publishes, and has so many publications without an answer."""

    def __init__(self, system: System, number: int) -> None:
        self._system = system
        self._answered = asyncio.Event()
        self._tail = b""
        self.answers = 0
        self.sent = 0
        self.client = Client(system.address, self._take)
        self._name = f"publisher-{number}"

    async def start(self) -> None:
        """Connect."""
        await self.client.connect()
        self.client.say(self._system.hello(self._name))
        async with asyncio.timeout(PATIENCE):
            while not self.answers:
                self._answered.clear()
                await self._answered.wait()
        await asyncio.sleep(0.1)
        self.answers = 0

    def publish(self) -> None:
        """One more."""
        self.sent += 1
        self.client.say(self._system.publish(self.sent, body()))

    async def publish_until(self, end: float) -> None:
        """As fast as answers come."""
        while time.monotonic() < end:
            while self.sent - self.answers < UNANSWERED:
                self.publish()
            self._answered.clear()
            async with asyncio.timeout(PATIENCE):
                await self._answered.wait()

    def _take(self, data: bytes) -> None:
        for answer in {self._system.answer, self._system.welcome}:
            self.answers += data.count(answer)
        self._answered.set()


async def arrived(readers: list[Reader], count: int) -> None:
    """Return when all have so many."""
    deadline = time.monotonic() + PATIENCE
    while any(reader.count < count for reader in readers):
        if time.monotonic() > deadline or any(reader.client.is_lost for reader in readers):
            raise SystemExit(f"lost: {sorted(reader.count for reader in readers)} of {count}")
        await asyncio.sleep(0.002)


async def rate(system: System, clients: int, seconds: float) -> dict[str, float]:
    """As much as goes, to so many clients, until the last has the last."""
    readers = [Reader(system, number) for number in range(clients)]
    publishers = [Publisher(system, number) for number in range(PUBLISHERS)]
    for one in (*readers, *publishers):
        await one.start()
    began, used = time.monotonic(), system.cpu()
    await asyncio.gather(*(one.publish_until(began + seconds) for one in publishers))
    count = sum(one.sent for one in publishers)
    await arrived(readers, count)
    took = time.monotonic() - began
    used = system.cpu() - used
    for one in (*readers, *publishers):
        one.client.transport.abort()
    return {
        "published": count / took,
        "delivered": count * clients / took,
        "cpu": used / took,
        "us": 1e6 * used / (count * clients),
    }


async def latency(system: System, clients: int, seconds: float) -> dict[str, float]:
    """From publishing to each client, at a pace that all can keep."""
    readers = [Reader(system, number) for number in range(clients)]
    publisher = Publisher(system, 0)
    for one in (*readers, publisher):
        await one.start()
    for reader in readers:
        reader.keeps_times = True
    pace = min(PACED, PACED_DELIVERIES / clients)
    count = max(1, int(pace * seconds))
    began = time.monotonic()
    for number in range(count):
        await asyncio.sleep(max(0.0, began + number / pace - time.monotonic()))
        publisher.publish()
    await arrived(readers, count)
    took = sorted(one / 1e6 for reader in readers for one in reader.took)
    for one in (*readers, publisher):
        one.client.transport.abort()
    return {"p50": took[len(took) // 2], "p99": took[len(took) * 99 // 100]}


async def idle(system: System, clients: int) -> dict[str, float]:
    """What each client costs that only listens."""
    before = system.memory()
    readers = [Reader(system, number) for number in range(clients)]
    for reader in readers:
        await reader.start()
    await asyncio.sleep(1)
    found = (system.memory() - before) / clients
    lost = sum(reader.client.is_lost for reader in readers)
    for reader in readers:
        reader.client.transport.abort()
    if lost:
        raise SystemExit(f"{system.name} let {lost} idle clients go")
    return {"KiB": found / 1024}


def measured(make: Callable[[Path], System], given: argparse.Namespace) -> dict[str, Any]:
    """All figures of one system, in one process of it."""
    with tempfile.TemporaryDirectory(dir=Path(__file__).parents[1]) as folder:  # on a disk
        system = make(Path(folder))
        try:
            found: dict[str, Any] = {"idle": asyncio.run(idle(system, given.idle))}
            for clients in given.clients:
                found[f"rate {clients}"] = asyncio.run(rate(system, clients, given.seconds))
                found[f"latency {clients}"] = asyncio.run(latency(system, clients, given.seconds))
        finally:
            system.stop()
    return found


def main() -> int:
    """Measure in turns, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--idle", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each figure")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    makers: dict[str, Callable[[Path], System]] = {"causalcast": Door}
    if nats_server():
        makers["NATS"] = Nats
    else:
        print("there is no nats-server: causalcast is measured alone", file=sys.stderr)
    loads = [os.getloadavg()[0]]
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in makers}
    for _ in range(given.rounds):
        for name, make in makers.items():
            rounds[name].append(measured(make, given))
            loads.append(os.getloadavg()[0])
    medians = {
        name: {
            what: {
                key: round(statistics.median(one[what][key] for one in found), 2)
                for key in found[0][what]
            }
            for what in found[0]
        }
        for name, found in rounds.items()
    }
    machine = {"cores": os.cpu_count(), "load": [round(load, 1) for load in loads]}
    print(json.dumps({"machine": machine, "medians": medians}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
