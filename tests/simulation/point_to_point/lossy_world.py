"""Two ends of the point-to-point layer, a network that does its worst, and an eye on both.

One seed is one schedule. Datagrams travel as bytes; the network loses, doubles, reorders and
replays them, cuts and damages them, and forges some; either end restarts, also between two effects
of one step. Then the network is calm, and both ends must be able to speak again.
"""

import heapq
import itertools
import random
from collections import Counter

from promises import Broken, Promises

from causalcast.core.duration import MILLISECOND, SECOND
from causalcast.datagrams import point_to_point as ptp
from causalcast.datagrams.plain_bytes import decode, encode
from causalcast.datagrams.point_to_point import PointToPoint, PointToPointOptions
from causalcast.datagrams.round_trip import LONGEST_TIMEOUT
from causalcast.errors import WireError

SENDERS = (("127.0.0.1", 7001), ("127.0.0.1", 7002))
CALM_AFTER = 20 * SECOND
# In the calm each end speaks three times. The first may still be given up for an earlier loss; the
# second comes after any such time and tells an end that the other had given it up; the third must
# come over.
PROBES = (CALM_AFTER + SECOND, 150 * SECOND, 200 * SECOND)
END = 300 * SECOND


class NearTheWrap(random.Random):
    """Draws tokens whose first sequence numbers often lie just before they wrap around."""

    def getrandbits(self, k: int) -> int:
        drawn = super().getrandbits(k)
        if k == ptp.TOKENS and drawn & 3:
            drawn |= ptp.NUMBERS - 8
        return drawn


class Settings:
    """What a seed decides before anything happens."""

    def __init__(self, draw: random.Random) -> None:
        self.friendly = draw.random() < 0.1  # nothing is lost, nobody restarts: nobody may fail
        self.loss = 0.0 if self.friendly else draw.choice([0.0, 0.05, 0.2, 0.4])
        self.duplication = draw.choice([0.0, 0.1, 0.3])
        self.replay = draw.choice([0.0, 0.0, 0.1, 0.3])
        self.forgery = draw.choice([0.0, 0.1, 0.3])
        self.restarts = 0 if self.friendly else draw.choice([0, 0, 1, 2, 4])
        self.torn = 0.0 if self.friendly else draw.choice([0.0, 0.0, 0.02])  # inside a step
        self.messages = draw.choice([1, 3, 10, 40])
        self.shortest_delay = draw.choice([1, 5, 40]) * MILLISECOND
        self.longest_delay = self.shortest_delay * draw.choice([1, 3, 10])
        self.bursts = draw.random() < 0.5  # messages that come close together
        window = draw.choice([1, 2, 4, 8, 16])
        ack_delay = draw.choice([0, 0, 0, 20, 150]) * MILLISECOND
        self.options = PointToPointOptions(
            retransmissions=draw.choice([2, 3, 5, 5]),
            ack_delay=ack_delay,
            keep_alive_every=draw.choice([0, 0, 2, 10]) * SECOND,
            shortest_timeout=draw.choice([50, 100]) * MILLISECOND,
            window=window,
            queue=draw.choice([window, 2 * window, 64]),
            ack_queue=draw.choice([1, 4, 64]),
            fast_repeat=draw.random() < 0.3,
            confirm_acks=draw.random() < 0.8,
        )
        if self.options.fast_repeat:  # as the UDP transport has it
            self.options.adapts = True
            self.options.ack_every = 3
        # An end that takes nothing for a while; its word that it does again may be lost, and then
        # only a keep-alive asks.
        self.closes = draw.choice([0, 0, 1, 3]) if self.options.keep_alive_every else 0
        if self.friendly:
            self.options.shortest_timeout = 3 * self.longest_delay + ack_delay


class End:
    """One process, over all its lives."""

    def __init__(self, me: int) -> None:
        self.me = me
        self.layer: PointToPoint | None = None
        self.sent: dict[tuple[int, int, int], list[int]] = {}  # when each copy left, this life
        self.confirmed_acks: dict[int, bool] = {}
        self.at_once: dict[int, int] = {}  # copies by number that left before a wait was over
        self.reach: dict[tuple[int, int], int] = {}  # by conversation: what it said it has room for
        self.tokens = (0, 0)  # of its conversation, after its last step: its own and the other's


class LossyWorld:
    """Plays one schedule; `Broken` is raised where a promise does not hold."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.settings = Settings(self.draw)
        self.now = 1 * SECOND
        self.ends = [End(0), End(1)]
        self.fired: Counter[str] = Counter()
        self._heap: list[tuple[int, int, str, int, bytes]] = []
        self._planned = 0
        self._recorded: list[tuple[int, bytes]] = []  # all that was ever sent, for replays
        self._promises = Promises()
        self._calm = False
        self._polls = [0, 0]  # when each end is to be polled next

    # The schedule

    def play(self) -> None:
        """From the first message to the end of the calm."""
        for end in self.ends:
            self._begin_life(end)
        for number in range(self.settings.messages):
            at = self.now + self.draw.randrange(CALM_AFTER - SECOND)
            if self.settings.bursts:
                at -= at % (4 * SECOND)
            self._plan(max(at, self.now), "publish", self.draw.randrange(2), b"%d" % number)
        for _ in range(self.settings.restarts):
            self._plan(self.now + self.draw.randrange(CALM_AFTER), "crash", self.draw.randrange(2))
        for _ in range(self.settings.closes):
            closed = self.draw.randrange(2)
            at = self.now + self.draw.randrange(CALM_AFTER)
            self._plan(at, "close", closed)
            self._plan(at + self.draw.randrange(3 * SECOND), "open", closed)
        self._plan(CALM_AFTER, "calm", 0)
        for end in (0, 1):
            for number, at in enumerate(PROBES):
                self._plan(at, "publish", end, b"probe %d" % number)
        while self._heap and self._heap[0][0] <= END:
            self.now, _, kind, end, data = heapq.heappop(self._heap)
            self._happen(kind, self.ends[end], data)
        self._check_the_end()

    def _happen(self, kind: str, end: End, data: bytes) -> None:
        layer = end.layer
        out: ptp.Effects = []
        if kind == "calm":
            self._calm = True
        elif kind == "begin":
            self._begin_life(end)
        elif layer is None:
            self.fired["to a dead end"] += 1
        elif kind == "crash":
            if not self._calm:
                self._crash(end)
        elif kind == "close":
            self.fired["no room"] += 1
            layer.room = 0
        elif kind == "open":
            layer.room = layer.options.window
            layer.tell_room(self.now, out)
            self._perform(end, out)
        elif kind == "publish":
            self._publish(end, layer, data, out)
        elif kind == "arrive":
            try:
                _, datagram = decode(data)
            except WireError:
                self.fired["no datagram"] += 1
                return
            layer.receive(datagram, self.now, out)
            self._perform(end, out)
        else:
            assert kind == "poll"
            if self._polls[end.me] != self.now:
                return  # an earlier deadline took its place
            self._polls[end.me] = 0
            layer.poll(self.now, out)
            self._perform(end, out)
        if end.layer is not None:
            self._after_step(end, end.layer)

    def _publish(self, end: End, layer: PointToPoint, data: bytes, out: ptp.Effects) -> None:
        body = self._promises.unique(end.me, data)
        body += bytes(self.draw.choice([0, 10, 1300]))
        room = layer.queued() < layer.options.queue
        if layer.send(body, self.now, out) != room:
            raise Broken("bounds", "a message was accepted without room, or refused with room")
        if room:
            self._promises.accepted(end.me, body)
            self.fired["accepted"] += 1
        else:
            self.fired["refused"] += 1
        self._perform(end, out)

    def _begin_life(self, end: End) -> None:
        self._promises.begin_life(end.me)
        end.sent = {}
        end.confirmed_acks = {}
        end.at_once = {}
        end.layer = PointToPoint(self.settings.options, NearTheWrap(self.draw.getrandbits(60)))

    def _crash(self, end: End) -> None:
        self.fired["restart"] += 1
        end.layer = None
        end.tokens = (0, 0)
        self._polls[end.me] = 0
        self._plan(self.now + self.draw.choice([1, 50, 3000]) * MILLISECOND, "begin", end.me)

    def _after_step(self, end: End, layer: PointToPoint) -> None:
        conversation = layer.current
        end.tokens = (conversation.mine, conversation.theirs) if conversation else (0, 0)
        self._check_bounds(layer)
        self._check_round_trip(layer)
        due = layer.deadline()
        planned = self._polls[end.me]
        if due < ptp.NEVER and (planned == 0 or due < planned):
            self._polls[end.me] = max(due, self.now)
            self._plan(max(due, self.now), "poll", end.me)

    # Effects

    def _perform(self, end: End, out: ptp.Effects) -> None:
        torn = not self._calm and self.draw.random() < self.settings.torn
        happens = self.draw.randrange(len(out) + 1) if torn else len(out)
        for effect in out[:happens]:
            if isinstance(effect, ptp.Transmit):
                self._check_transmission(end, effect.datagram)
                self._send(end, encode(effect.datagram, SENDERS[end.me]))
            elif isinstance(effect, ptp.Deliver):
                self.fired["delivered"] += 1
                self._promises.delivered(end.me, effect.body)
            elif isinstance(effect, ptp.Arrived):
                self._promises.arrived(end.me, effect.count)
            elif isinstance(effect, ptp.Failed):
                self._failed(end, effect)
            elif isinstance(effect, ptp.Note):
                self.fired[effect.what] += 1
                if effect.what in ("overtaken", "probe"):
                    end.at_once[effect.number] = end.at_once.get(effect.number, 0) + 1
                if effect.what == "ack of ack came":
                    end.confirmed_acks[effect.number] = True
        if torn:
            self.fired["torn step"] += 1
            self._crash(end)

    def _send(self, end: End, data: bytes) -> None:
        other = 1 - end.me
        self._recorded.append((other, data))
        if self._calm:
            self._travel(other, data)
            return
        if self._happens("loss", self.settings.loss):
            return
        self._travel(other, data)
        if self._happens("duplication", self.settings.duplication):
            self._travel(other, data)
        if self._happens("replay", self.settings.replay):
            victim, old = self.draw.choice(self._recorded)
            after = self.settings.shortest_delay + self.draw.randrange(8 * SECOND)
            self._plan(self.now + after, "arrive", victim, old)
        if self._happens("forgery", self.settings.forgery):
            victim, old = self.draw.choice(self._recorded)
            self._travel(victim, self._forged(old))

    def _happens(self, fault: str, likely: float) -> bool:
        happens = likely > 0 and self.draw.random() < likely
        self.fired[fault] += happens
        return happens

    def _forged(self, data: bytes) -> bytes:
        """Cut, damaged, noise, or well-formed by somebody who has to guess the tokens."""
        choice = self.draw.randrange(4)
        if choice == 0:
            return data[: self.draw.randrange(len(data))]
        if choice == 1:
            place = self.draw.randrange(len(data))
            changed = data[place] ^ (1 << self.draw.randrange(8))
            return data[:place] + bytes([changed]) + data[place + 1 :]
        if choice == 2:
            return self.draw.randbytes(self.draw.randrange(200))
        sender, datagram = decode(data)
        datagram.kind = self.draw.randrange(ptp.LAST_KIND + 1)
        if self.settings.friendly or self.draw.random() < 0.5:
            datagram.target = self.draw.getrandbits(64)
        else:  # who reads along can make ends give up, but not deliver what is false
            datagram.source = self.draw.getrandbits(64)
        datagram.number = (datagram.number + self.draw.randrange(-3, 4)) % ptp.NUMBERS
        datagram.ack = (datagram.ack + self.draw.randrange(-3, 4)) % ptp.NUMBERS
        datagram.early = self.draw.getrandbits(64)
        datagram.body = b"forged"
        return encode(datagram, sender)

    def _travel(self, to: int, data: bytes) -> None:
        shortest, longest = self.settings.shortest_delay, self.settings.longest_delay
        self._plan(self.now + self.draw.randint(shortest, longest), "arrive", to, data)

    def _plan(self, at: int, kind: str, end: int, data: bytes = b"") -> None:
        self._planned += 1
        heapq.heappush(self._heap, (at, self._planned, kind, end, data))

    # What must be so

    def _failed(self, end: End, failed: ptp.Failed) -> None:
        self.fired[failed.reason] += 1
        if self.settings.friendly:
            raise Broken("no false failure", failed.reason)
        if failed.reason.startswith("no a"):
            self._check_patience(end)
        elif self.ends[1 - end.me].tokens == end.tokens[::-1]:
            raise Broken("no false failure", "the other end still spoke in the same conversation")
        self._promises.failed(end.me, failed.lost)

    def _check_patience(self, end: End) -> None:
        copies = max((len(times) for times in end.sent.values()), default=0)
        if copies <= self.settings.options.retransmissions:
            raise Broken("no false failure", f"after {copies} copies")

    def _check_transmission(self, end: End, datagram: ptp.Datagram) -> None:
        self._check_room(end, datagram)
        if datagram.kind == ptp.ACK:
            if datagram.transmission > 1 and end.confirmed_acks.get(datagram.number):
                raise Broken("ack of ack", f"ack {datagram.number} repeated for nothing")
            end.confirmed_acks[datagram.number] = False
            return
        if datagram.kind not in (ptp.DATA, ptp.KEEP_ALIVE, ptp.HELLO):
            return
        key = (datagram.source, datagram.target, datagram.number)
        times = end.sent.setdefault(key, [])
        if datagram.transmission == 1:
            times.clear()
            end.at_once.pop(datagram.number, None)
        times.append(self.now)
        options = self.settings.options
        at_once = end.at_once.get(datagram.number, 0) if options.fast_repeat else 0
        if len(times) - at_once > options.retransmissions + 1:
            raise Broken("limit", f"{len(times)} copies, {at_once} without a wait")
        if options.fast_repeat or len(times) < 2:
            return
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        least = options.shortest_timeout + options.per_byte * len(datagram.body)
        if gaps[0] < least:
            raise Broken("timeout by size", f"{len(datagram.body)} bytes again after {gaps[0]} µs")
        if len(gaps) > 1 and gaps[-1] < min(1.8 * gaps[-2], LONGEST_TIMEOUT.value):
            raise Broken("backoff", f"copies after {gaps} µs")

    def _check_room(self, end: End, datagram: ptp.Datagram) -> None:
        """A first copy leaves only if the other end said that it has room for it."""
        first = datagram.target % ptp.NUMBERS
        reach = ptp._near(datagram.ack, first) + datagram.room
        here = (datagram.source, datagram.target)
        end.reach[here] = max(end.reach.get(here, 0), reach)
        if datagram.kind != ptp.DATA or datagram.transmission > 1:
            return
        began = datagram.source % ptp.NUMBERS
        allowed = self.ends[1 - end.me].reach.get(here[::-1], 0)
        allowed = max(allowed, began + self.settings.options.window)
        if ptp._near(datagram.number, began) > allowed:
            raise Broken("room", f"message {datagram.number}, room up to {allowed}")

    def _check_bounds(self, layer: PointToPoint) -> None:
        options = layer.options
        sizes = {"queue": (layer.queued(), options.queue)}
        sizes["candidates"] = (len(layer.candidates), ptp.MOST_CANDIDATES.value)
        if layer.current is not None:
            held = len(layer.waiting) + len(layer.current.under_way)
            sizes["held"] = (held, options.queue + 1)  # a keep-alive has room of its own
            sizes["under way"] = (len(layer.current.under_way), options.window)
            sizes["early"] = (len(layer.current.early), options.window)
            sizes["unconfirmed"] = (len(layer.current.unconfirmed), options.ack_queue)
        for name, (size, most) in sizes.items():
            if size > most:
                raise Broken("bounds", f"{name}: {size}, at most {most}")

    def _check_round_trip(self, layer: PointToPoint) -> None:
        smoothed = layer.round_trip.smoothed
        if smoothed == 0:
            return
        self.fired["round trip"] += 1
        if smoothed < 2 * self.settings.shortest_delay:
            raise Broken("round trip", f"{smoothed} µs, faster than any datagram")
        longest = 2 * self.settings.longest_delay + self.settings.options.ack_delay
        if self.settings.replay == 0 and smoothed > longest:
            raise Broken("round trip", f"{smoothed} µs, slower than any datagram")

    def _check_the_end(self) -> None:
        self._promises.check_settled()
        for end in self.ends:
            assert end.layer is not None
            accepted = self._promises.stream(end.me).accepted
            if not any(body.startswith(b"probe 2") for body in accepted):
                raise Broken("taken back", f"end {end.me} failed again when all was calm")
            if self.settings.options.keep_alive_every == 0 and end.layer.deadline() < ptp.NEVER:
                raise Broken("rest", f"end {end.me} has still something to do")
