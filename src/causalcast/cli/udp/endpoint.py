"""Point-to-point layers on real sockets: one for sending, one for receiving, as the report has it.

The report runs a thread for first transmissions, one for repetitions and one for reception, with a
lock around each queue. Here one event loop does all three, so there is nothing to lock.
"""

import asyncio
import random
import socket
from typing import Final, Protocol

from causalcast.core.duration import SECOND
from causalcast.datagrams.plain_bytes import LARGEST, Sender, decode, encode
from causalcast.datagrams.point_to_point import (
    NEVER,
    Datagram,
    Effect,
    Effects,
    PointToPoint,
    PointToPointOptions,
    Transmit,
)
from causalcast.errors import NodeError, WireError

DATAGRAMS_PER_TURN: Final = 64


class EndpointWatcher(Protocol):
    """What an endpoint tells its owner."""

    def may_leave(self, peer: int, datagram: Datagram) -> bool:
        """Whether this datagram is to leave now."""

    def happened(self, peer: int, effect: Effect) -> None:
        """Anything else that a point-to-point layer asks for or tells."""


class UdpEndpoint:
    """The sockets of one process, and a point-to-point layer for each of its peers."""

    def __init__(
        self,
        listen: Sender,
        peers: list[Sender],
        options: PointToPointOptions,
        watcher: EndpointWatcher,
    ) -> None:
        """Peers are called by their place in `peers`; NodeError if the port cannot be had."""
        self.counts = {"no_datagram": 0, "stranger": 0, "not_sent": 0}
        self.layers = [PointToPoint(options, random.SystemRandom()) for _ in peers]
        self._loop = asyncio.get_running_loop()
        self._listen = listen
        self._peers = peers
        self._indices = {sender: index for index, sender in enumerate(peers)}
        self._watcher = watcher
        self._timers: list[asyncio.TimerHandle | None] = [None] * len(peers)
        family = socket.AF_INET6 if ":" in listen[0] else socket.AF_INET
        self._receiving = socket.socket(family, socket.SOCK_DGRAM)
        self._sending = socket.socket(family, socket.SOCK_DGRAM)
        for one in (self._receiving, self._sending):
            one.setblocking(False)
        try:
            self._receiving.bind(listen)
        except OSError as error:
            self._receiving.close()
            self._sending.close()
            where = f"{listen[0]}:{listen[1]}"
            raise NodeError(f"cannot listen at {where}: {error.strerror}") from None
        self._loop.add_reader(self._receiving, self._read)
        for peer, sender in enumerate(peers):
            if sender != listen:  # a member is in its own list
                self.layers[peer].watch(self._now())
                self._set_timer(peer)

    def send(self, peer: int, body: bytes) -> bool:
        """Accept a message for a peer; False if its queue is full."""
        out: Effects = []
        accepted = self.layers[peer].send(body, self._now(), out)
        self._perform(peer, out)
        return accepted

    def make_room(self, peer: int, room: bool) -> None:
        """Whether a peer may send more; it keeps what it may not send."""
        layer = self.layers[peer]
        layer.room = layer.options.first_room if room else 0
        out: Effects = []
        layer.tell_room(self._now(), out)
        self._perform(peer, out)

    def transmit(self, peer: int, datagram: Datagram) -> None:
        """Send a datagram without asking the watcher."""
        try:
            self._sending.sendto(encode(datagram, self._listen), self._peers[peer])
        except OSError:
            self.counts["not_sent"] += 1  # as if it were lost on the way

    def forget(self, peer: int) -> None:
        """Stop listening to this peer and sending to it."""
        self._indices.pop(self._peers[peer], None)
        self._cancel(peer)

    def close(self) -> None:
        """Let go of the sockets."""
        for peer in range(len(self._peers)):
            self._cancel(peer)
        self._loop.remove_reader(self._receiving)
        self._receiving.close()
        self._sending.close()

    def _read(self) -> None:
        for _ in range(DATAGRAMS_PER_TURN):
            try:
                data = self._receiving.recv(LARGEST + 1)
            except BlockingIOError:
                return
            except OSError:
                continue  # an answer of the network to something that was sent
            self._take(data)

    def _take(self, data: bytes) -> None:
        try:
            sender, datagram = decode(data)
        except WireError:
            self.counts["no_datagram"] += 1
            return
        peer = self._indices.get(sender)
        if peer is None:
            self.counts["stranger"] += 1
            return
        out: Effects = []
        layer = self.layers[peer]
        layer.receive(datagram, self._now(), out)
        layer.poll(self._now(), out)
        self._perform(peer, out)

    def _poll(self, peer: int) -> None:
        self._timers[peer] = None
        out: Effects = []
        self.layers[peer].poll(self._now(), out)
        self._perform(peer, out)

    def _perform(self, peer: int, out: Effects) -> None:
        for effect in out:
            if not isinstance(effect, Transmit):
                self._watcher.happened(peer, effect)
            elif self._watcher.may_leave(peer, effect.datagram):
                self.transmit(peer, effect.datagram)
        self._set_timer(peer)

    def _set_timer(self, peer: int) -> None:
        self._cancel(peer)
        due = self.layers[peer].deadline()
        if due < NEVER and self._peers[peer] in self._indices:
            self._timers[peer] = self._loop.call_at(due / SECOND, self._poll, peer)

    def _cancel(self, peer: int) -> None:
        timer = self._timers[peer]
        if timer is not None:
            timer.cancel()
            self._timers[peer] = None

    def _now(self) -> int:
        return int(self._loop.time() * SECOND) + 1  # never before a timer that has run out
