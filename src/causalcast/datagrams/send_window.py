"""How many datagrams may be under way: twice what the way holds, as far as that can be known.

Loss says little of a way that loses a share of all datagrams at random: fewer under way would lose
the same share and only cost time. So the window follows a model of the way, after Cardwell and
others, *BBR: Congestion-Based Congestion Control*, 2016: the best rate at which datagrams arrived
of late, times the shortest round trip, is what the way holds. Twice that keeps it full while losses
are repaired, and shows when it carries more. Where more than a sixth of a round is lost, the window
shrinks all the same: a queue that short says it no other way. Once in ten seconds it is half as
wide for two rounds, so that queues drain and the shortest round trip is seen anew.

It is not fair between flows that meet at a bottleneck, as the first BBR was not: who comes later
sees a round trip that others' queues have drawn out, and takes more; where the queue is short, who
came first keeps it full, and a newcomer may get nothing.
"""

from typing import Final, final

from causalcast.core.duration import MILLISECOND, SECOND
from causalcast.limits import Limit

FIRST: Final = Limit(
    "datagrams.send_window.first",
    10,
    least=1,
    most=64,
    unit="datagrams",
    about="datagrams under way at first, RFC 6928",
)
FLOOR: Final = Limit(
    "datagrams.send_window.floor",
    8,
    least=2,
    most=64,
    unit="datagrams",
    about="datagrams under way at least",
)
GAIN: Final = 2.0
# Programs in Python take and answer datagrams in turns of milliseconds, not one by one: what the
# turns of both ends hold counts to the way.
TURNS: Final = Limit(
    "datagrams.send_window.turns",
    10 * MILLISECOND,
    least=0,
    most=100 * MILLISECOND,
    unit="us",
    about="what the other end may take to answer, beside the way",
)
GROWTH: Final = 1.25  # of the rate in a round; three rounds with less, and the way is full
PATIENCE: Final = Limit(
    "datagrams.send_window.patience",
    3,
    least=1,
    most=64,
    unit="rounds",
    about="rounds without growth after which the way is full",
)
ROUNDS: Final = Limit(
    "datagrams.send_window.rounds",
    8,
    least=1,
    most=64,
    unit="rounds",
    about="rounds after which a rate is forgotten",
)
RENEW: Final = Limit(
    "datagrams.send_window.renew",
    10 * SECOND,
    least=1 * SECOND,
    most=600 * SECOND,
    unit="us",
    about="how long the shortest round trip is believed",
)
CONGESTED: Final = 1 / 6  # of a round's datagrams are lost
DECREASE: Final = 0.7


@final
class Moment:
    """What was known when a datagram left, for the rate that its answer shows."""

    __slots__ = ("arrived", "arrived_at", "first_left_at", "left_at")

    def __init__(self, arrived: int, arrived_at: int, first_left_at: int, left_at: int) -> None:
        self.arrived = arrived
        self.arrived_at = arrived_at
        self.first_left_at = first_left_at  # the copy whose arrival was the last known
        self.left_at = left_at


NO_MOMENT: Final = Moment(-1, 0, 0, 0)


@final
class SendWindow:
    """The window towards one peer; as wide as it can be where it does not adapt.

    Large because a window follows a rate, a round trip and losses over several rounds, and each of
    these is a few numbers.
    """

    def __init__(self, widest: int, adapts: bool) -> None:
        self.widest = widest
        self.adapts = adapts
        self.allowed = float(min(FIRST.value, widest)) if adapts else float(widest)
        self.rate = 0.0  # datagrams per microsecond, the best of late
        self.shortest = 0  # round trip, microseconds; 0 before the first
        self._arrived = 0  # datagrams, since the beginning
        self._arrived_at = 0
        self._first_left_at = 0
        self._full_at = -1  # how many had arrived when the window was full last
        self._filling = True  # the way is not known to be full
        self._silent = False  # a timeout ran out and nothing arrived since
        self._cap = float(widest)  # what heavy loss left of the window
        # A round ends when a datagram is answered that left after the round had begun.
        self._round_ends_at = 0
        self._rounds = 0
        self._lost = 0
        self._round_began_with = 0
        self._rate_then = 0.0
        self._slow_rounds = 0
        self._best_before, self._best_now = 0.0, 0.0
        self._shortest_at = 0
        self._seen_shortest = 0  # while it is measured anew
        self._measured_until = -1  # a round; -1: it is not

    def has_room(self, flying: int) -> bool:
        """Whether one more may leave while so many are under way."""
        if flying < self.allowed:
            return True
        self.note_full()
        return False

    def note_full(self) -> None:
        """There is more to send than may leave."""
        self._full_at = self._arrived

    def sent(self, flying: int, now: int) -> Moment:
        """A copy leaves while so many others are under way."""
        if not self.adapts:
            return NO_MOMENT
        if flying == 0:  # what was silence of ours says nothing of the way
            self._arrived_at = self._first_left_at = now
        return Moment(self._arrived, self._arrived_at, self._first_left_at, now)

    def took(self, trip: int, now: int) -> None:
        """A datagram and its answer took so long."""
        if self._measured_until >= 0:
            self._seen_shortest = min(self._seen_shortest, trip)
        if self.shortest == 0 or trip <= self.shortest:
            self.shortest, self._shortest_at = max(1, trip), now

    def lost(self) -> None:
        """A datagram seems to be lost."""
        self._lost += 1

    def timed_out(self, moment: Moment) -> None:
        """The answer to a copy that left at this moment did not come in time."""
        if self.adapts and moment.arrived == self._arrived:
            self._silent = True
            self.allowed = float(min(FLOOR.value, self.widest))

    def arrived(self, count: int, moment: Moment, now: int) -> None:
        """So many more arrived; `moment`: when the one left that was answered."""
        if not self.adapts:
            return
        self._arrived += count
        self._arrived_at = now
        if moment.arrived >= 0:
            self._first_left_at = moment.left_at
            self._see_rate(moment, now)
            if moment.arrived >= self._round_ends_at:
                self._end_round(now)
        self._adjust(count)

    def _see_rate(self, moment: Moment, now: int) -> None:
        took = max(moment.left_at - moment.first_left_at, now - moment.arrived_at)
        if took < max(1, self.shortest):
            return  # faster than any answer: several came together
        rate = (self._arrived - moment.arrived) / took
        if rate > self._best_now:
            self._best_now = rate
        self.rate = max(self._best_now, self._best_before)

    def _end_round(self, now: int) -> None:
        was_full = self._full_at >= self._round_began_with
        in_round = self._arrived - self._round_began_with
        if self._lost > CONGESTED * (in_round + self._lost) and self._lost > 2:
            self._cap = max(float(FLOOR.value), min(self._cap, self.allowed) * DECREASE)
            self._filling = False
        else:
            self._cap = min(float(self.widest), self._cap * GROWTH)
        self._lost = 0
        self._round_began_with = self._round_ends_at = self._arrived
        self._rounds += 1
        if was_full:  # else the rate shows how much there was to send
            self._slow_rounds = 0 if self.rate > GROWTH * self._rate_then else self._slow_rounds + 1
            if self._slow_rounds == 0:
                self._rate_then = self.rate
            if self._slow_rounds >= PATIENCE.value:
                self._filling = False
            if self._rounds % ROUNDS.value == 0:
                self._best_before, self._best_now = self._best_now, 0.0
        if self._measured_until >= 0 and self._rounds >= self._measured_until:
            self._measured_until = -1
            self.shortest, self._shortest_at = max(1, self._seen_shortest), now
        elif self._measured_until < 0 and now - self._shortest_at > RENEW.value:
            self._measured_until = self._rounds + 2
            self._seen_shortest = RENEW.value

    def _adjust(self, count: int) -> None:
        if self._filling:
            target = self.allowed + count
        else:
            target = GAIN * self.rate * (self.shortest + TURNS.value)
            if self._measured_until >= 0:
                target /= 2 * GAIN
        if self._silent:
            self._silent = self.allowed + count < target
            target = min(target, self.allowed + count)
        self.allowed = min(max(target, float(FLOOR.value)), self._cap, float(self.widest))
