"""Every interleaving of a small scope of the point-to-point layer.

    python tests/simulation/point_to_point/every_interleaving.py

Two ends, two messages. At any time any datagram that is under way may arrive; one may be lost, one
may arrive twice, one end may restart. A timer runs out when nothing is under way; with `--late 1`
once also while something is: that datagram comes late. States seen before are not walked again.
"""

import argparse
import pickle
import sys
import time
from collections import Counter

from promises import Broken, Promises

from causalcast.datagrams import point_to_point as ptp
from causalcast.datagrams.plain_bytes import decode, encode
from causalcast.datagrams.point_to_point import PointToPoint, PointToPointOptions
from causalcast.errors import WireError

BUDGET = {"loss": 1, "duplication": 1, "restart": 1, "late": 0}
SENDERS = (("127.0.0.1", 1), ("127.0.0.1", 2))


class Counted:
    """Stands for randomness: tokens that tell who drew them, and no jitter."""

    def __init__(self, end: int, life: int) -> None:
        self.drawn = 0
        self.first = (end << 8 | life) << 40

    def getrandbits(self, bits: int) -> int:
        if bits != ptp.TOKENS:
            return 0
        self.drawn += 1
        return self.first | self.drawn << 32 | (ptp.NUMBERS - 1)  # the first number wraps around


class State:
    """Both ends, what is under way, and what may still go wrong."""

    def __init__(self, senders: tuple[int, ...], budget: dict[str, int]) -> None:
        self.budget = dict(budget)
        self.to_send = senders  # which end sends the next messages
        self.flying: list[tuple[int, bytes]] = []
        self.now = [0, 0]  # each end has a clock of its own
        self.promises = Promises()
        self.layers = [self._born(0), self._born(1)]

    def _born(self, end: int) -> PointToPoint:
        self.promises.begin_life(end)
        options = PointToPointOptions(retransmissions=1, keep_alive_every=0, window=2)
        drawn = Counted(end, self.promises.lives[end])
        return PointToPoint(options, drawn)  # type: ignore[arg-type]

    def choices(self) -> list[tuple[str, int]]:
        """What can happen next."""
        found = []
        if self.to_send:
            found.append(("send", 0))
        unequal = [i for i, one in enumerate(self.flying) if one not in self.flying[:i]]
        found += [("arrive", i) for i in unequal]
        for fault in ("loss", "duplication"):
            if self.budget[fault]:
                found += [(fault, i) for i in unequal]
        if self.budget["restart"]:
            found += [("restart", 0), ("restart", 1)]
        if not self.flying or self.budget["late"]:
            found += [("timer", end) for end in (0, 1) if self._has_timer(end)]
        return found

    def _has_timer(self, end: int) -> bool:
        return self.layers[end].deadline() < ptp.NEVER

    def happen(self, choice: str, place: int) -> None:
        """Let one of the choices happen."""
        if choice in self.budget:
            self.budget[choice] -= 1
        if choice == "send":
            self._send(self.to_send[0])
        elif choice == "arrive":
            self._arrive(*self.flying.pop(place))
        elif choice == "loss":
            del self.flying[place]
        elif choice == "duplication":
            self._arrive(*self.flying[place])
        elif choice == "restart":
            self.layers[place] = self._born(place)
        else:
            self.budget["late"] -= bool(self.flying)
            self.now[place] = max(self.now[place], self.layers[place].deadline())
            self._step(place)

    def _send(self, end: int) -> None:
        out: ptp.Effects = []
        body = self.promises.unique(end, b"%d" % len(self.to_send))
        assert self.layers[end].send(body, self.now[end], out)
        self.promises.accepted(end, body)
        self.to_send = self.to_send[1:]
        self._step(end, out)

    def _arrive(self, end: int, data: bytes) -> None:
        out: ptp.Effects = []
        try:
            _, datagram = decode(data)
        except WireError as error:
            raise AssertionError("nothing damages datagrams here") from error
        self.layers[end].receive(datagram, self.now[end], out)
        self._step(end, out)

    def _step(self, end: int, out: ptp.Effects | None = None) -> None:
        effects: ptp.Effects = out or []
        self.layers[end].poll(self.now[end], effects)
        for effect in effects:
            if isinstance(effect, ptp.Transmit):
                self.flying.append((1 - end, encode(effect.datagram, SENDERS[end])))
            elif isinstance(effect, ptp.Deliver):
                self.promises.delivered(end, effect.body)
            elif isinstance(effect, ptp.Arrived):
                self.promises.arrived(end, effect.count)
            elif isinstance(effect, ptp.Failed):
                self.promises.failed(end, effect.lost)

    def key(self) -> tuple[object, ...]:
        """Equal where the same can happen from now on."""
        ends = tuple(_key(layer, now) for layer, now in zip(self.layers, self.now, strict=True))
        budget = tuple(self.budget.values())
        return (self.to_send, budget, tuple(sorted(self.flying)), ends, self.promises.key())


def _key(layer: PointToPoint, now: int) -> tuple[object, ...]:
    """All that an end remembers; times count from now."""
    call = (layer.calling, layer.call.transmissions, layer.call.timeout, layer.call.due - now)
    trip = (layer.round_trip.smoothed, layer.round_trip.variation)
    drawn = layer.random.drawn  # type: ignore[attr-defined]
    known = (*call, trip, drawn, *layer.candidates.items(), *layer.waiting)
    one = layer.current
    if one is None:
        return known
    numbers = (one.mine, one.theirs, one.last_number, one.settled, one.taken, one.ack)
    answer = (one.early_map, one.ack_due, one.answers, one.answered_transmission)
    sent = [
        (
            m.number,
            m.body,
            m.transmissions,
            m.timeout,
            m.due - now,
            m.sent_at - now,
            m.number in one.flying,
        )
        for m in one.under_way.values()
    ]
    early = [(number, datagram.body) for number, datagram in sorted(one.early.items())]
    acks = [(a.number, a.transmissions, a.timeout, a.due - now) for a in one.unconfirmed]
    return (*known, numbers, answer, *sent, *early, *acks)


def explore(senders: tuple[int, ...], budget: dict[str, int]) -> Counter[str]:
    """Walk through every state; how many there were, and how many of them were ends."""
    counted: Counter[str] = Counter()
    first = State(senders, budget)
    seen = {hash(first.key())}
    stack = [pickle.dumps(first)]
    while stack:
        kept = stack.pop()
        state: State = pickle.loads(kept)
        choices = state.choices()
        counted["states"] += 1
        if all(choice in state.budget for choice, _ in choices):  # only further faults
            counted["ends"] += 1
            state.promises.check_settled()
        for choice, place in choices:
            after: State = pickle.loads(kept)
            after.happen(choice, place)
            counted[choice] += 1
            key = hash(after.key())
            if key not in seen:
                seen.add(key)
                stack.append(pickle.dumps(after))
    return counted


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for fault, times in BUDGET.items():
        parser.add_argument(f"--{fault}", type=int, default=times, metavar="TIMES")
    budget = vars(parser.parse_args())
    for senders in ((0, 0), (0, 1)):
        began = time.monotonic()
        try:
            counted = explore(senders, budget)
        except Broken as broken:
            print(f"messages of {senders}: {broken}")
            return 1
        took = time.monotonic() - began
        print(
            f"messages of ends {senders}: {counted['states']:,} states in {took:.0f} s; "
            f"{counted['ends']:,} ends; every promise held in all of them"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
