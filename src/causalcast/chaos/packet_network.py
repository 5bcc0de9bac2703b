"""A network of packets that may be lost, doubled, late, out of order, or cut into sides.

Every node lives in a network namespace of its own, whose only way out is a TUN device. One thread
reads what nodes send and hands it on, or does not: so faults hit packets below TCP, as they do in
real networks, and whatever runs above, encrypted or not. Addresses are 127.77.0.x: for the nodes
this is loopback.

It needs Linux and the right to make network namespaces: root has it, and whoever may make a user
namespace gets it there (`command_with_rights`).
"""

import contextlib
import ctypes
import fcntl
import heapq
import os
import random
import select
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from causalcast.errors import MissingDependency

_CLONE_NEWNET: Final = 0x40000000
_TUNSETIFF: Final = 0x400454CA
_IFF_TUN: Final = 0x0001
_IFF_NO_PI: Final = 0x1000  # packets without a header in front
_SIOCSIFFLAGS: Final = 0x8914
_SIOCSIFADDR: Final = 0x8916
_SIOCSIFNETMASK: Final = 0x891C
_UP_AND_RUNNING: Final = 0x41
_DEVICE: Final = b"tun0"
_LONGEST: Final = 1 << 16
_HOLD_BACK: Final = (0.002, 0.03)  # seconds: a packet that is overtaken by later ones
MOST_NODES: Final = 250


class PacketNetwork:
    """The switch, and what it does to packets: each a share from 0 to 1, `delay` in seconds."""

    def __init__(self, seed: int = 0) -> None:
        self.loss = 0.0
        self.duplication = 0.0
        self.reordering = 0.0
        self.delay = 0.0  # at most; each packet draws its own, and keeps its place
        self.slow: dict[int, float] = {}  # seconds, on the way from this node to all others
        self.silent: int | None = None  # nothing passes from this node; it hears the others
        self.fired: Counter[str] = Counter()  # packets that each fault has hit
        self._sides: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
        self._dice = random.Random(seed)
        self._namespaces: dict[int, int] = {}  # descriptors
        self._devices: dict[int, int] = {}  # by node
        self._nodes: dict[int, int] = {}  # by device
        self._own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        self._late: list[tuple[float, int, int, bytes]] = []
        self._last_at: dict[tuple[int, int], float] = {}
        self._order = 0
        self._wake_read, self._wake_write = os.pipe()
        self._closing = False
        self._thread = threading.Thread(target=self._switch, name="network", daemon=True)
        self._thread.start()

    @staticmethod
    def objection() -> str:
        """Why such a network cannot be made on this machine; empty if it can."""
        try:
            network = PacketNetwork()
        except OSError as error:
            return f"no network namespaces ({error.strerror})"
        try:
            network.add(1)
        except MissingDependency as missing:
            return str(missing)
        finally:
            network.close()
        return ""

    def add(self, node: int) -> str:
        """Make a namespace for `node`; its address."""
        assert 0 < node <= MOST_NODES, node
        if node not in self._devices:
            problem: list[OSError] = []
            maker = threading.Thread(target=self._make_namespace, args=(node, problem))
            maker.start()  # a thread of its own: it moves into the namespace, and ends there
            maker.join()
            if problem:
                raise MissingDependency(
                    f"no network of namespaces and TUN devices here ({problem[0].strerror})"
                )
            os.write(self._wake_write, b".")
        return address_of(node)

    @contextlib.contextmanager
    def inside(self, node: int) -> Iterator[None]:
        """What this thread starts meanwhile runs in the namespace of `node`."""
        _set_namespace(self._namespaces[node])
        try:
            yield
        finally:
            _set_namespace(self._own)

    def cut(self, left: Collection[int], right: Collection[int]) -> None:
        """Let nothing pass between the two sides."""
        self._sides = (frozenset(left), frozenset(right))

    def heal(self) -> None:
        """Let everything pass again, and in good order."""
        self._sides = (frozenset(), frozenset())
        self.loss = self.duplication = self.reordering = self.delay = 0.0
        self.slow = {}
        self.silent = None

    def close(self) -> None:
        """End it; the namespaces go with their last process."""
        self._closing = True
        os.write(self._wake_write, b".")
        self._thread.join()
        for descriptor in (
            *self._devices.values(),
            *self._namespaces.values(),
            *(self._own, self._wake_read, self._wake_write),
        ):
            os.close(descriptor)

    def _make_namespace(self, node: int, problem: list[OSError]) -> None:
        try:
            _libc("unshare", _CLONE_NEWNET)
            namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
            device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", _DEVICE, _IFF_TUN | _IFF_NO_PI))
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
                for request, value in (
                    (_SIOCSIFADDR, address_of(node)),
                    (_SIOCSIFNETMASK, "255.255.255.0"),
                ):
                    packed = struct.pack("16sHH4s16x", _DEVICE, 2, 0, socket.inet_aton(value))
                    fcntl.ioctl(control, request, packed)
                fcntl.ioctl(
                    control, _SIOCSIFFLAGS, struct.pack("16sH22x", _DEVICE, _UP_AND_RUNNING)
                )
            # Else the kernel drops packets with a loopback address that come from outside.
            Path("/proc/sys/net/ipv4/conf/tun0/route_localnet").write_text("1")
        except OSError as error:
            problem.append(error)
            return
        self._namespaces[node] = namespace
        self._nodes[device] = node
        self._devices[node] = device

    # The thread

    def _switch(self) -> None:
        while not self._closing:
            wait = 1.0
            if self._late:
                wait = max(0.0, self._late[0][0] - time.monotonic())
            ready, _, _ = select.select([self._wake_read, *self._nodes], [], [], wait)
            for descriptor in ready:
                if descriptor == self._wake_read:
                    os.read(self._wake_read, 4096)
                else:
                    self._read_all(descriptor)
            now = time.monotonic()
            while self._late and self._late[0][0] <= now:
                _, _, device, packet = heapq.heappop(self._late)
                self._write(device, packet)

    def _read_all(self, device: int) -> None:
        for _ in range(64):  # then let the others have their turn
            try:
                packet = os.read(device, _LONGEST)
            except OSError:
                return
            # Of IPv4: its destination; other packets are of no use to anybody here.
            if len(packet) >= 20 and packet[0] >> 4 == 4:
                self._pass_on(self._nodes[device], packet[19], packet)

    def _pass_on(self, sender: int, receiver: int, packet: bytes) -> None:
        device = self._devices.get(receiver)
        if device is None:
            return
        left, right = self._sides
        if (sender in left and receiver in right) or (sender in right and receiver in left):
            self.fired["packets cut off"] += 1
            return
        if sender == self.silent:
            self.fired["packets lost one way"] += 1
            return
        if self._hits(self.loss, "packets lost"):
            return
        at = 0.0
        slow = self.slow.get(sender, 0.0)
        if self.delay or slow:
            # Not before those in front of it: being overtaken is a fault of its own.
            at = time.monotonic() + slow + self._dice.uniform(0, self.delay)
            at = max(at, self._last_at.get((sender, receiver), 0.0))
            self._last_at[(sender, receiver)] = at
            self.fired["packets on a slow route" if slow else "packets delayed"] += 1
        if self._hits(self.reordering, "packets overtaken"):
            at = max(at, time.monotonic()) + self._dice.uniform(*_HOLD_BACK)
        self._send(device, packet, at)
        if self._hits(self.duplication, "packets doubled"):
            self._send(device, packet, time.monotonic() + self._dice.uniform(*_HOLD_BACK))

    def _hits(self, share: float, fault: str) -> bool:
        hit = share > 0 and self._dice.random() < share
        if hit:
            self.fired[fault] += 1
        return hit

    def _send(self, device: int, packet: bytes, at: float) -> None:
        if at:
            self._order += 1
            heapq.heappush(self._late, (at, self._order, device, packet))
        else:
            self._write(device, packet)

    def _write(self, device: int, packet: bytes) -> None:
        with contextlib.suppress(OSError):  # its queue is full: lost, as in any network
            os.write(device, packet)


def command_with_rights() -> list[str]:
    """What to put in front of a command so that it may make such a network; empty if nothing is
    known that helps."""
    unshare = shutil.which("unshare")
    if unshare is None or os.geteuid() == 0:
        return []
    command = [unshare, "--user", "--map-root-user", "--net"]
    worked = subprocess.run([*command, "true"], capture_output=True).returncode == 0
    return command if worked else []


def address_of(node: int) -> str:
    """The address of a node in its network."""
    return f"127.77.0.{node}"


def _set_namespace(descriptor: int) -> None:
    _libc("setns", descriptor, _CLONE_NEWNET)


def _libc(name: str, *arguments: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
