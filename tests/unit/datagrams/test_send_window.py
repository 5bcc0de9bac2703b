"""The window over ways that lose, are long, or are shared: in virtual time, on both layers' code.

A way has a length, a share of loss, and may end in a bottleneck with a queue, as a router has.
"""

import heapq
import random

import pytest

from causalcast.core.duration import MILLISECOND, SECOND
from causalcast.datagrams import point_to_point as ptp
from causalcast.datagrams.point_to_point import PointToPoint
from causalcast.datagrams.sealed_bytes import pack_content, read_content
from causalcast.runtime.links.udp.session import OPTIONS

TURN = 200  # microseconds from a datagram to the acknowledgement of what came with it


class Way:
    """What flows share: each sends as much as it may, in one direction."""

    def __init__(
        self,
        delay: int,
        loss: float = 0.0,
        per_datagram: int = 0,  # microseconds the bottleneck needs
        queue: int = 1 << 30,  # datagrams that may wait there
    ) -> None:
        self.delay, self.loss, self.per_datagram, self.queue = delay, loss, per_datagram, queue
        self.now = SECOND
        self.free_at = self.now  # when the bottleneck has nothing to do
        self.draw = random.Random(7)
        self.copies = self.lost = self.longest_queue = 0
        self.flows: list[tuple[PointToPoint, PointToPoint]] = []
        self.delivered: list[int] = []
        self._left: list[int] = []
        self._heap: list[tuple[int, int, int, int, bytes]] = []
        self._planned = 0
        self._polls: dict[tuple[int, int], int] = {}

    def add(self, messages: int) -> None:
        """One more flow, with so much to send."""
        flow = len(self.flows)
        drawn = random.Random(flow)
        ends = (PointToPoint(OPTIONS, drawn), PointToPoint(OPTIONS, drawn))
        for end in ends:
            end.room = OPTIONS.window  # nobody reads slowly here
        ends[0].begin(1 << 40, 2 << 40, self.now)
        ends[1].begin(2 << 40, 1 << 40, self.now)
        self.flows.append(ends)
        self.delivered.append(0)
        self._left.append(messages)
        self._feed(flow)

    def run(self, until: int) -> None:
        """Let time pass."""
        while self._heap and self._heap[0][0] <= until and any(self._unfinished()):
            self.now, _, flow, end, data = heapq.heappop(self._heap)
            self._step(flow, end, data)

    def _unfinished(self) -> list[bool]:
        return [left > 0 or ends[0].queued() > 0 for left, ends in self._pairs()]

    def _pairs(self) -> list[tuple[int, tuple[PointToPoint, PointToPoint]]]:
        return list(zip(self._left, self.flows, strict=True))

    def _step(self, flow: int, end: int, data: bytes) -> None:
        one = self.flows[flow][end]
        out: ptp.Effects = []
        if data:
            tokens = (2 << 40, 1 << 40) if end == 0 else (1 << 40, 2 << 40)
            one.receive(read_content(data, *tokens), self.now, out)
            self._wake(flow, end, self.now + TURN)
        else:
            if self._polls.get((flow, end)) != self.now:
                return
            del self._polls[flow, end]
            one.poll(self.now, out)
        self._perform(flow, end, out)
        if end == 0:
            self._feed(flow)
        due = one.deadline()
        if due < ptp.NEVER:
            self._wake(flow, end, max(due, self.now + TURN if data else self.now))

    def _feed(self, flow: int) -> None:
        out: ptp.Effects = []
        while self._left[flow] and self.flows[flow][0].may_send():
            self._left[flow] -= 1
            assert self.flows[flow][0].send(b"%d" % self._left[flow], self.now, out)
        self._perform(flow, 0, out)

    def _perform(self, flow: int, end: int, out: ptp.Effects) -> None:
        for effect in out:
            assert not isinstance(effect, ptp.Failed)
            if isinstance(effect, ptp.Deliver):
                self.delivered[flow] += 1
            elif isinstance(effect, ptp.Transmit):
                self._send(flow, end, pack_content(effect.datagram))

    def _send(self, flow: int, end: int, data: bytes) -> None:
        leaves = self.now
        if end == 0:
            self.copies += 1
            if self.per_datagram:
                waiting = max(0, self.free_at - self.now) // self.per_datagram
                if waiting >= self.queue:
                    self.lost += 1
                    return
                self.longest_queue = max(self.longest_queue, waiting)
                leaves = self.free_at = max(self.free_at, self.now) + self.per_datagram
        if self.draw.random() < self.loss:
            self.lost += end == 0
            return
        self._plan(leaves + self.delay, flow, 1 - end, data)

    def _wake(self, flow: int, end: int, at: int) -> None:
        if at < self._polls.get((flow, end), ptp.NEVER):
            self._polls[flow, end] = at
            self._plan(at, flow, end, b"")

    def _plan(self, at: int, flow: int, end: int, data: bytes) -> None:
        self._planned += 1
        heapq.heappush(self._heap, (at, self._planned, flow, end, data))


@pytest.mark.parametrize("loss", [0.0, 0.01, 0.05])
def test_random_loss_costs_its_share_and_little_more(loss: float) -> None:
    """10,000 datagrams over a bottleneck of 10,000 a second and 10 ms to and fro: one second if
    nothing were lost and the window had no beginning."""
    way = Way(5 * MILLISECOND, loss, per_datagram=100, queue=2000)
    way.add(10_000)
    way.run(60 * SECOND)
    assert way.delivered == [10_000]
    assert bool(loss) == bool(way.lost)
    assert way.now - SECOND < SECOND * (1 + 2 * loss) + 150 * MILLISECOND
    assert way.copies - 10_000 <= 1.1 * way.lost + 20  # what is repeated was lost


def test_gaps_beyond_the_first_64_are_named() -> None:
    """With 40 ms to and fro hundreds are under way; each loss is repaired once."""
    way = Way(20 * MILLISECOND, 0.03, per_datagram=50, queue=2000)
    way.add(10_000)
    way.run(60 * SECOND)
    (window,) = [sender.send_window for sender, _ in way.flows]
    assert way.delivered == [10_000] and window.allowed > 500
    assert way.copies - 10_000 <= 1.1 * way.lost + 20


def test_two_flows_keep_a_bottleneck_full() -> None:
    """The second comes when the first has filled the way. Who gets how much is not promised."""
    way = Way(5 * MILLISECOND, per_datagram=400, queue=150)
    way.add(1 << 30)
    way.run(2 * SECOND)
    way.add(1 << 30)
    before = sum(way.delivered)
    way.run(5 * SECOND)
    assert way.delivered[1] > 0
    assert sum(way.delivered) - before > 0.85 * 3 * SECOND / 400


def test_a_short_queue_is_not_flooded() -> None:
    """Four datagrams fit into the bottleneck's queue: heavy loss shrinks the window."""
    way = Way(5 * MILLISECOND, per_datagram=1000, queue=4)
    way.add(1 << 30)
    way.run(10 * SECOND)
    assert way.delivered[0] > 0.7 * 9 * SECOND / 1000
    assert way.lost < 0.25 * way.copies, (way.lost, way.copies)


def test_the_window_forgets_a_way_that_was_quicker() -> None:
    """The bottleneck slows down to a tenth: after some rounds so has the window."""
    way = Way(5 * MILLISECOND, per_datagram=100, queue=1000)
    way.add(1 << 30)
    way.run(2 * SECOND)
    (window,) = [sender.send_window for sender, _ in way.flows]
    quick = window.allowed
    way.per_datagram = 1000
    way.run(9 * SECOND)
    assert window.allowed < quick / 3, (quick, window.allowed)
