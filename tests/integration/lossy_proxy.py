"""A network that loses datagrams: every node advertises a proxy, which drops some of what passes.

It runs in a thread of its own, with sockets of its own towards each pair of nodes, so that answers
find their way back as through a router that translates addresses.
"""

import random
import selectors
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

Place = tuple[str, int]


class LossyProxies:
    """One proxy before each node. While it is cut, nothing passes."""

    def __init__(self, loss: float, seed: int = 0) -> None:
        self.loss = loss
        self.cut = False
        self.fired: Counter[str] = Counter()
        self.recorded: list[tuple[socket.socket, bytes, Place]] = []  # some of what passed
        self._draw = random.Random(seed)
        self._selector = selectors.DefaultSelector()
        self._behind: dict[socket.socket, Place] = {}  # the node behind a proxy's socket
        self._ways: dict[tuple[socket.socket, Place], socket.socket] = {}
        self._back: dict[socket.socket, tuple[socket.socket, Place]] = {}
        self._stop = threading.Event()

    def before(self, node: Place) -> Place:
        """Open a proxy for the node that listens there; the proxy's own place."""
        opened = self._open()
        self._behind[opened] = node
        place: Place = opened.getsockname()
        return place

    @contextmanager
    def running(self) -> Iterator[None]:
        """Datagrams pass while this lasts."""
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()
            for key in list(self._selector.get_map().values()):
                key.fileobj.close()  # type: ignore[union-attr]
            self._selector.close()

    def move(self) -> None:
        """Give everybody a new address, as a router does that was switched off and on."""
        ways, self._ways = self._ways, {}
        for way in ways.values():
            self._back.pop(way)
            self._selector.unregister(way)
            way.close()
        self.fired["moved"] += len(ways)

    def _open(self) -> socket.socket:
        opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        opened.bind(("127.0.0.1", 0))
        opened.setblocking(False)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self._selector.register(opened, selectors.EVENT_READ)
        return opened

    def _run(self) -> None:
        while not self._stop.is_set():
            for key, _ in self._selector.select(0.05):
                came = key.fileobj
                assert isinstance(came, socket.socket)
                try:
                    data, sender = came.recvfrom(1 << 16)
                except OSError:
                    continue
                self._pass_on(came, data, sender)

    def _pass_on(self, came: socket.socket, data: bytes, sender: Place) -> None:
        self.fired["passed"] += 1
        if self.cut:
            self.fired["cut"] += 1
        elif self._draw.random() < self.loss:
            self.fired["lost"] += 1
        elif came in self._back:
            caller, place = self._back[came]
            self._send(caller, data, place)
        else:
            way = self._ways.get((came, sender))
            if way is None:
                way = self._ways[came, sender] = self._open()
                self._back[way] = (came, sender)
            self._send(way, data, self._behind[came])

    def _send(self, out: socket.socket, data: bytes, place: Place) -> None:
        if len(self.recorded) < 1000:
            self.recorded.append((out, data, place))
        try:
            out.sendto(data, place)
        except OSError:
            self.fired["not sent"] += 1
