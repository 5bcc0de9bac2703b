"""From counted violations to what is likely behind them: whose messages come too early where, on
which topics, when, and by which mechanism.

Nothing here changes a verdict. A mechanism is a guess that the counts support, in a sentence that
says what to look at.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from causalcast.pipeline.check.patterns import Pattern, Patterns
from causalcast.pipeline.verdicts.names import Names

ROUTES_TOLD = 5
BUCKETS = 20
ALMOST_NEVER = 0.05  # of a kind, beside another kind: it needs no mechanism of its own
STANDS_OUT = 0.4  # a route with this share of what happens between processes
SUDDEN = 0.8  # share of violations in one tenth of the time


@dataclass
class Route:
    """Early deliveries at `to`, before messages of `origin`; `via` published most of them."""

    origin: str
    to: str
    via: str
    count: int


@dataclass
class Diagnosis:
    """What breaks causal order has in common."""

    total: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    same_topic: int = 0
    across_topics: int = 0
    same_sender: int = 0
    between_senders: int = 0
    routes: list[Route] = field(default_factory=list)
    """Most frequent first."""
    over_time: list[tuple[int, int]] = field(default_factory=list)
    """Second and count, in at most `BUCKETS` steps; the second is where a step begins."""
    mechanisms: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """For people: what is likely, then the counts."""
        if self.total == 0:
            return []
        said = [f"likely: {mechanism}" for mechanism in self.mechanisms]
        kinds = ", ".join(f"{count:,} × {kind}" for kind, count in self.kinds.items())
        said.append(
            f"{kinds}; {self.same_topic:,} on one topic, {self.across_topics:,} across topics;"
            f" {self.same_sender:,} of one sender, {self.between_senders:,} between senders"
        )
        if self.routes:
            shown = [f"{r.origin} → {r.to} {r.count:,}" for r in self.routes[:ROUTES_TOLD]]
            more = len(self.routes) - ROUTES_TOLD
            rest = f" and {more:,} more routes" if more > 0 else ""
            said.append(f"late, from → at: {', '.join(shown)}{rest}")
        if len(self.over_time) > 1:
            first = self.over_time[0][0]
            steps = [f"{second - first} s {count:,}" for second, count in self.over_time]
            said.append(f"over time: {', '.join(steps)}")
        return said

    def to_json(self) -> dict[str, Any]:
        """The same for scripts."""
        return {
            "mechanisms": self.mechanisms,
            "kinds": self.kinds,
            "same_topic": self.same_topic,
            "across_topics": self.across_topics,
            "same_sender": self.same_sender,
            "between_senders": self.between_senders,
            "routes": [vars(route) for route in self.routes],
            "over_time": [list(step) for step in self.over_time],
        }


def diagnose(patterns: Patterns, names: Names, log_is_trusted: bool = True) -> Diagnosis:
    """What the violations of causal order have in common; nothing if there are none."""
    if not patterns.counts or not log_is_trusted:
        return Diagnosis()
    count = _counter(patterns.counts)
    kinds: Counter[str] = Counter()
    for pattern, number in patterns.counts.items():
        kinds[pattern.kind] += number
    found = Diagnosis(
        total=patterns.counts.total(),
        kinds=dict(kinds.most_common()),
        same_topic=count(lambda p: p.same_group),
        across_topics=count(lambda p: not p.same_group),
        same_sender=count(lambda p: p.same_origin),
        between_senders=count(lambda p: not p.same_origin),
        routes=_routes(patterns.counts, names),
        over_time=_steps(patterns.seconds),
    )
    found.mechanisms = _mechanisms(patterns, names, found)
    return found


def _counter(counts: Counter[Pattern]) -> Callable[[Callable[[Pattern], bool]], int]:
    def count(wanted: Callable[[Pattern], bool]) -> int:
        return sum(number for pattern, number in counts.items() if wanted(pattern))

    return count


def _routes(counts: Counter[Pattern], names: Names) -> list[Route]:
    """By whose message came late, and where."""
    by_route: Counter[tuple[int, int]] = Counter()
    via: dict[tuple[int, int], Counter[int]] = {}
    for pattern, number in counts.items():
        route = (pattern.cause_origin, pattern.node)
        by_route[route] += number
        via.setdefault(route, Counter())[pattern.origin] += number
    return [
        Route(names.node(a), names.node(b), names.node(via[a, b].most_common(1)[0][0]), number)
        for (a, b), number in by_route.most_common()
    ]


def _steps(seconds: Counter[int]) -> list[tuple[int, int]]:
    if not seconds:
        return []
    first, last = min(seconds), max(seconds)
    width = (last - first) // BUCKETS + 1
    steps: Counter[int] = Counter()
    for second, number in seconds.items():
        steps[first + (second - first) // width * width] += number
    return sorted(steps.items())


def _mechanisms(patterns: Patterns, names: Names, found: Diagnosis) -> list[str]:
    count = _counter(patterns.counts)
    across = count(lambda p: p.same_origin and not p.same_group)
    same = count(lambda p: p.same_origin and p.same_group)
    said = []
    queues = across > 0 and same <= ALMOST_NEVER * across
    if queues:
        said.append(
            f"two subscriptions of one client are handled by two queues: messages of one sender"
            f" overtake each other across topics ({across:,}), and on one topic"
            f" {'never' if same == 0 else f'hardly ever ({same:,})'}"
        )
    elif same + across:
        said.append(
            f"several workers handle one subscription, or messages are sent again: messages of one"
            f" sender overtake each other, also on one topic ({same:,} of {same + across:,})"
        )
    between = Counter({p: n for p, n in patterns.counts.items() if not p.same_origin})
    if between:
        said += _between_senders(between, names, queues)
    if found.kinds.get("gap", 0):
        said.append(
            f"messages are lost, or somebody subscribed later than its log says: of"
            f" {found.kinds['gap']:,} deliveries a cause never came"
        )
    return said + _sudden(patterns.seconds)


def _between_senders(between: Counter[Pattern], names: Names, queues: bool) -> list[str]:
    """A slow route, if one stands out; else the queues, if those explain it."""
    total = between.total()
    routes = _routes(between, names)
    fair = 1 / max(1, len(names.nodes) * (len(names.nodes) - 1))
    slow = [r for r in routes if r.count >= max(STANDS_OUT, 1.5 * fair) * total]
    if slow and len(names.nodes) > 2:
        return [
            f"route {r.origin} → {r.to} is slower than {r.origin} → {r.via} → {r.to}:"
            f" {r.count:,} of {total:,} between senders"
            for r in slow
        ]
    across = sum(number for p, number in between.items() if not p.same_group)
    if queues and across >= (1 - ALMOST_NEVER) * total:
        return []  # the same queues
    return [
        f"each link keeps its own order, and nothing orders messages of different senders: no route"
        f" stands out among {total:,} between senders"
    ]


def _sudden(seconds: Counter[int]) -> list[str]:
    if not seconds:
        return []
    first, last = min(seconds), max(seconds)
    length = last - first + 1
    if length < BUCKETS:
        return []
    width = length // 10
    best = max(
        range(first, last + 1, max(1, width // 2)),
        key=lambda start: sum(seconds[s] for s in range(start, start + width)),
    )
    within = sum(seconds[second] for second in range(best, best + width))
    if within < SUDDEN * seconds.total():
        return []
    return [
        f"something happened {best - first} s after the first one (a restart, a reconnection):"
        f" {within:,} of {seconds.total():,} lie within {width} s"
    ]
