"""Draws worse scenarios: each is about one thing that went wrong on real clusters.

Random faults seldom meet. Here they are placed: joins, leaves and publications around slow links
and cuts, crashes of those who have just asked, answered or vouched, several lives within one
handshake. Latencies have heavy tails, or are longer than every timer; there are long quiet times,
publishers outside their groups, bodies at the limits, and thousands of publications to one group
while another sleeps. All of it stays within what the protocol promises to survive.
"""

import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from causalcast.core.message import SHORT_BODY
from causalcast.core.spec import ProtocolSpec
from causalcast.swarm.generate import (
    OPEN,
    OPEN_SETTLES_MS,
    Draw,
    may_join,
    promises_without_the_dead,
)
from causalcast.swarm.real_worlds import DRAWN, drawn_facts, expected_facts

SIZES: Final = (2, 3, 4, 5, 6)
PIECES: Final = (2, 7)  # events of a scenario
HANDSHAKE_MS: Final = (0, 1, 2, 3, 5, 10, 50, 200)  # after something began, something else does
SLOWER_THAN_TIMERS_MS: Final = (700, 2500, 9000)
QUIET_MS: Final = (8_000, 30_000)
MANY: Final = (300, 1000)
LONGEST_SHUFFLING_MS: Final = 150_000
ONE_AFTER_ANOTHER_MS: Final = 300  # there and back, for protocols that send one at a time
LARGE_BODIES: Final = (0, 1, SHORT_BODY.default, SHORT_BODY.default + 1, 60_000)

Entry = dict[str, Any]


def expected_worse(spec: ProtocolSpec, facts: str) -> list[str]:
    """What a campaign of many such seeds must have seen."""
    kinds = ["delay", "suspect", "leave_group", *(["join_group"] if may_join(spec) else [])]
    if spec.tolerates is not None:
        kinds += ["crash", "crash_in_step", "recover", "cut", "compact"]
    return kinds + (expected_facts(spec) if facts == DRAWN else [])


def worse_scenario(
    spec: ProtocolSpec,
    seed: int,
    options: Mapping[str, Any],
    overlay: str = "",
    for_good: bool = False,
    facts: str = DRAWN,
) -> str:
    """The text of a scenario for `spec`; the same seed gives the same text."""
    draw = WorseDraw(spec, seed, options, overlay, SIZES)
    draw.for_good = for_good or promises_without_the_dead(spec)
    draw.facts = drawn_facts(spec, seed) if facts == DRAWN else {}
    draw.choose_theme()
    return draw.scenario()


class WorseDraw(Draw):
    """A scenario with a theme, while it is drawn."""

    def choose_theme(self) -> None:
        """What this one is about. Graph and groups are those of the seed, all else is not."""
        self.rng = random.Random(f"worse/{self.spec.name}/{self.seed}")
        self._themes: dict[str, Callable[[list[str]], list[Entry]]] = {
            "slow_link": self._around_a_slow_link,
            "cut": self._around_a_cut,
            "handshake": self._lives_in_a_handshake,
            "answer": self._falls_after_answering,
            "quiet": self._after_a_quiet_time,
            "sleeper": self._one_group_sleeps,
        }
        if self.spec.tolerates is None:
            for needs_crashes in ("cut", "handshake", "answer"):
                del self._themes[needs_crashes]
        self.theme = self.rng.choice(list(self._themes))
        self.latency = self.rng.choice(["short", "short", "tail", "tail", "slow"])
        if self.theme == "quiet":
            self.latency = self.rng.choice(["short", "tail"])
        elif self.theme == "sleeper":
            self.latency = "short"
        self.until_ms = 3000 + (self.rng.choice(QUIET_MS) if self.theme == "quiet" else 0)
        # The slowest message there and back on the longest line, one publication after the other.
        self.calm_ms = {"short": 40_000, "tail": 120_000, "slow": 600_000}[self.latency]
        if self.theme == "sleeper":
            self.calm_ms += ONE_AFTER_ANOTHER_MS * max(MANY)

    def _overlay_table(self) -> dict[str, Any]:
        """One that changes shuffles all the time: not for ten minutes, and founders need time."""
        table = super()._overlay_table()
        if table["kind"] == "hyparview":
            self.calm_ms = min(self.calm_ms, LONGEST_SHUFFLING_MS)
            table["shuffle_every"] = 1000
            table["settle_ms"] = 4000 if self.latency == "short" else 60_000
        elif table["kind"] == OPEN and self.latency != "short":
            table["settle_ms"] = 10 * OPEN_SETTLES_MS
        return table

    def _network(self) -> dict[str, Any]:
        latency: Any = {
            "short": self.rng.choice([1.0, {"kind": "uniform", "low": 1, "high": 20}]),
            "tail": {"kind": "pareto", "low": 1, "high": self.rng.choice([500, 4000])},
            "slow": {"kind": "per_link", "low": 1, "high": self.rng.choice([400, 3000])},
        }[self.latency]
        network: dict[str, Any] = {"latency_ms": latency, "exchange": "wire"}
        network["fifo"] = self.links == "fifo" or self.rng.random() < 0.6
        if self.links == "any" and self.latency == "short":
            network["loss"] = self.rng.choice([0.0, 0.0, 0.1])
        return network

    def _streams(self, groups: dict[str, Any]) -> list[dict[str, Any]]:
        """A few before anything goes wrong; the theme places the others around its events."""
        self.placed: list[Entry] = []
        self._events = self._themes[self.theme](list(groups))
        first = self._stream(self.rng.randrange(300), self._somebody(), groups)
        return [first, *self.placed]

    def _faults(self, groups: dict[str, Any]) -> list[dict[str, Any]]:
        last = self.until_ms - 1  # whoever fell before that is back before the calm
        return [{**event, "at_ms": max(0, min(event["at_ms"], last))} for event in self._events]

    # Themes

    def _around_a_slow_link(self, groups: list[str]) -> list[Entry]:
        """Links become slower than every timer, one after the other, and are quick again."""
        events: list[Entry] = []
        for _ in range(self.rng.randint(1, 3)):
            link, at = self.rng.choice(self.edges), self.rng.randrange(1500)
            extra = self.rng.choice(SLOWER_THAN_TIMERS_MS)
            slow: Entry = {"kind": "delay", "link": link}
            events.append({"at_ms": at, **slow, "extra_ms": extra})
            again = at + self.rng.choice([100, 800, 1400])
            events.append({"at_ms": again, **slow, "extra_ms": 0})
            events += self._pieces(link, [at, again], groups)
        return events

    def _around_a_cut(self, groups: list[str]) -> list[Entry]:
        """Links break and come back, several times within what a timer waits."""
        link, at = self.rng.choice(self.edges), self.rng.randrange(800)
        events: list[Entry] = []
        times = []
        for _ in range(self.rng.randint(1, 4)):
            healed = at + self.rng.choice([1, 5, 60, 300])
            loud = self.links != "any" or self.rng.random() < 0.7
            events.append({"at_ms": at, "kind": "cut", "link": link, "loud": loud})
            events.append({"at_ms": healed, "kind": "heal", "link": link})
            times += [at, healed]
            at = healed + self.rng.choice(HANDSHAKE_MS) + 1
        return events + self._pieces(link, times, groups)

    def _lives_in_a_handshake(self, groups: list[str]) -> list[Entry]:
        """A node falls and returns again and again, before its neighbours have answered it."""
        link, at = self.rng.choice(self.edges), self.rng.randrange(800)
        events: list[Entry] = []
        times = []
        for _ in range(self.rng.randint(2, 5)):
            fall: Entry = {"at_ms": at, "kind": "crash", "node": link[0]}
            back = at + self.rng.choice(HANDSHAKE_MS)
            if self.rng.random() < 0.4:
                fall["after_effects"] = self.rng.randrange(6)
            else:
                fall["keep"] = self.rng.choice([0.0, 0.5, 1.0])
            events += [fall, {"at_ms": back, "kind": "recover", "node": link[0]}]
            if self.rng.random() < 0.3:
                events.append({"at_ms": max(0, at - 1), "kind": "compact", "node": link[0]})
            times += [at, back]
            at = back + self.rng.choice(HANDSHAKE_MS) + 1
        return events + self._pieces(link, times, groups)

    def _falls_after_answering(self, groups: list[str]) -> list[Entry]:
        """Somebody asks: it comes back, joins, or a link of it does. Whoever answered falls."""
        asker, answerer = self.rng.choice(self.edges)
        at = self.rng.randrange(300, 1200)
        events = self._pieces([asker, answerer], [at, at + 30], groups)
        if self.rng.random() < 0.5:
            events.append({"at_ms": at - 100, "kind": "crash", "node": asker, "keep": 0.5})
            events.append({"at_ms": at, "kind": "recover", "node": asker})
        elif may_join(self.spec):
            events.append(self._change(at, "join", asker, self.rng.choice(groups)))
        falls = [answerer, *([asker] if self.rng.random() < 0.3 else [])]
        for node in falls:
            when = at + self.rng.choice(HANDSHAKE_MS)
            fall: Entry = {"at_ms": when, "kind": "crash", "node": node}
            fall["after_effects"] = self.rng.randrange(5)
            back = when + self.rng.choice([5, 100, 900])
            events += [fall, {"at_ms": back, "kind": "recover", "node": node}]
        return events

    def _after_a_quiet_time(self, groups: list[str]) -> list[Entry]:
        """Nothing happens for so long that all has been forgotten that may be; then all at once."""
        at = self.until_ms - 1500
        link = self.rng.choice(self.edges)
        events = self._pieces(link, [at, at + 200], groups)
        for node in link:
            self.placed.append(self._stream(at + self.rng.randrange(300), node, groups))
        return events

    def _one_group_sleeps(self, groups: list[str]) -> list[Entry]:
        """Thousands of publications to one group, and a few to another before and after."""
        busy, node = self.rng.choice(groups), self._somebody()
        stream = self._stream(100, node, [busy])
        self.placed.append({**stream, "count": self.rng.choice(MANY), "interval_ms": 1})
        self.placed[-1]["payload_bytes"] = self.rng.choice([0, 8])
        self.placed.append(self._stream(self.until_ms - 500, self._somebody(), groups))
        return self._pieces(self.rng.choice(self.edges), [500, 1500, 2300], groups)

    # Pieces

    def _pieces(self, link: list[int], times: list[int], groups: list[str]) -> list[Entry]:
        """Small things at both ends of a link, just before, at and after these times."""
        events: list[Entry] = []
        for _ in range(self.rng.randint(*PIECES)):
            near = self.rng.choice(times) + self.rng.choice([-20, -1, *HANDSHAKE_MS])
            at, node = max(0, near), self.rng.choice([*link, self._somebody()])
            kind = self.rng.choice(["publish", "publish", "publish", "join", "leave", "suspect"])
            if kind == "publish":
                self.placed.append(self._stream(at, node, groups))
            elif kind == "suspect":
                events.append({"at_ms": at, "kind": "suspect", "node": node})
                events.append({"at_ms": at + 100, "kind": "trust", "node": node})
            elif kind == "leave" or may_join(self.spec):
                events.append(self._change(at, kind, node, self.rng.choice(groups)))
        return events

    def _stream(self, at: int, node: int, groups: Any) -> Entry:
        """Publications of anybody to any group: it need not be a member."""
        slow = self.latency == "slow"
        large = self.rng.random() < 0.15
        return {
            "at_ms": at,
            "node": node,
            "group": self.rng.choice(list(groups)),
            "count": 1 if large else self.rng.choice([1, 1, 3] if slow else [1, 3, 20]),
            "interval_ms": self.rng.choice([1, 5, 40]),
            "payload_bytes": self.rng.choice(LARGE_BODIES) if large else 8,
        }

    def _somebody(self) -> int:
        return self.rng.randrange(self.nodes)
