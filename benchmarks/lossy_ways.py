"""Ways between two processes for benchmarks: loopback, an Ethernet of 1,500 bytes, a long one.

The last two need root: each process runs in a network namespace of its own. `ethernet` is a pair of
virtual devices with segmentation by the kernel turned off, so that TCP and UDP lose packets of the
same size; packets are thrown away at the receiving sockets, by a filter in the kernel. `distant` is
a pair of tunnel devices with a process between them that delays each packet and throws some away
(for kernels without netem, which would do the same).
"""

import collections
import contextlib
import ctypes
import fcntl
import multiprocessing
import os
import random
import select
import socket
import struct
import subprocess
import time
from typing import Any

CLONE_NEWNET = 0x40000000
ATTACH_FILTER = 26  # SO_ATTACH_FILTER of Linux
RANDOM_NUMBER = 0xFFFFF000 + 56  # SKF_AD_OFF + SKF_AD_RANDOM
SET_TUNNEL = 0x400454CA  # TUNSETIFF
TUNNEL, NO_HEADER = 0x0001, 0x1000
NAMES = ("causalcast-a", "causalcast-b")
WAYS = ("loopback", "ethernet", "distant")


class Way:
    """How two processes reach each other; loopback as it stands."""

    hosts = ("127.0.0.1", "127.0.0.1")

    def enter(self, end: int) -> None:
        """Called first in the process at this end."""

    def lose(self, receiver: socket.socket, percent: float) -> None:
        """Let so many of a hundred packets be lost before this socket gets them."""
        if percent:
            lose_at_socket(receiver, percent)

    def close(self) -> None:
        """Leave nothing behind."""


class Ethernet(Way):
    """Two namespaces, two virtual devices, packets of at most 1,500 bytes."""

    hosts = ("10.213.0.1", "10.213.0.2")

    def __init__(self) -> None:
        _make_namespaces()
        _ip(f"link add causalcast0 netns {NAMES[0]} type veth peer causalcast0 netns {NAMES[1]}")
        for name, host in zip(NAMES, self.hosts, strict=True):
            _ip(f"-n {name} link set causalcast0 gso_max_segs 1")
            _ip(f"-n {name} address add {host}/24 dev causalcast0")
            _ip(f"-n {name} link set causalcast0 up")

    def enter(self, end: int) -> None:
        _enter(NAMES[end])

    def close(self) -> None:
        _drop_namespaces()


class Distant(Way):
    """Two namespaces, and a process that carries packets from one to the other, late or never."""

    hosts = ("10.213.0.1", "10.213.0.2")

    def __init__(self, milliseconds: float) -> None:
        _make_namespaces()
        self._percent = multiprocessing.Value("d", 0.0)
        ready = multiprocessing.Event()
        self._relay = multiprocessing.Process(
            target=_carry, args=(milliseconds / 1000, self._percent, ready), daemon=True
        )
        self._relay.start()
        assert ready.wait(10)

    def enter(self, end: int) -> None:
        _enter(NAMES[end])

    def lose(self, receiver: socket.socket, percent: float) -> None:
        self._percent.value = percent

    def close(self) -> None:
        self._relay.kill()
        self._relay.join()
        _drop_namespaces()


def make_way(name: str, milliseconds: float) -> Way:
    """The way of this name; `milliseconds` each way for the distant one."""
    if name == "loopback":
        return Way()
    return Ethernet() if name == "ethernet" else Distant(milliseconds)


def lose_at_socket(receiver: socket.socket, percent: float) -> None:
    """Classic BPF with the kernel's random numbers: keep a packet, or throw it away."""
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


def _carry(delay: float, percent: Any, ready: Any) -> None:
    """Carry packets between the tunnels of the two namespaces, for ever."""
    tunnels = []
    for name, host in zip(NAMES, Distant.hosts, strict=True):
        _enter(name)
        tunnel = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(tunnel, SET_TUNNEL, struct.pack("16sH22x", b"causalcast0", TUNNEL | NO_HEADER))
        _ip(f"address add {host}/24 dev causalcast0")
        _ip("link set causalcast0 mtu 1500 txqueuelen 10000 up")
        tunnels.append(tunnel)
    draw = random.Random(os.getpid())
    late: collections.deque[tuple[float, int, bytes]] = collections.deque()
    ready.set()
    while True:
        wait = max(0.0, late[0][0] - time.monotonic()) if late else None
        readable, _, _ = select.select(tunnels, [], [], wait)
        due = time.monotonic() + delay
        for tunnel in readable:
            other = tunnels[1] if tunnel == tunnels[0] else tunnels[0]
            for _ in range(64):
                try:
                    packet = os.read(tunnel, 2048)
                except BlockingIOError:
                    break
                if draw.random() * 100 >= percent.value:
                    late.append((due, other, packet))
        now = time.monotonic()
        while late and late[0][0] <= now:
            _, tunnel, packet = late.popleft()
            with contextlib.suppress(OSError):  # else lost after all: the other end is gone
                os.write(tunnel, packet)


def _make_namespaces() -> None:
    _drop_namespaces()
    for name in NAMES:
        _ip(f"netns add {name}")
        _ip(f"-n {name} link set lo up")


def _drop_namespaces() -> None:
    for name in NAMES:
        subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)


def _enter(name: str) -> None:
    namespace = os.open(f"/run/netns/{name}", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), f"cannot enter the network namespace {name}")
    os.close(namespace)


def _ip(command: str) -> None:
    subprocess.run(["ip", *command.split()], check=True)
