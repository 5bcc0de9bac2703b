"""What early deliveries have in common, counted: from whom to whom, of which groups, and when.

A verdict names a few of them; a diagnosis needs all.
"""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from causalcast.pipeline.check.checks.order import OrderBreaks
from causalcast.pipeline.check.log_view import LogView

MOST_PATTERNS = 10_000  # of one log; the rarest are counted together with nobody
SECOND = 1_000_000


@dataclass(frozen=True)
class Pattern:
    """Early deliveries at one node of one origin's messages, before those of one origin."""

    node: int
    origin: int
    """Who published what came too early."""
    cause_origin: int
    """Who published what it came before: the same one, if order per origin is broken."""
    group: int
    cause_group: int
    kind: str

    @property
    def same_origin(self) -> bool:
        """Whether the order of one origin's messages is broken."""
        return self.origin == self.cause_origin

    @property
    def same_group(self) -> bool:
        """Whether both messages are of one group."""
        return self.group == self.cause_group


@dataclass
class Patterns:
    """Deliveries that break causal order, counted."""

    counts: Counter[Pattern] = field(default_factory=Counter)
    seconds: Counter[int] = field(default_factory=Counter)
    """By the second of the delivery."""

    def add(self, other: "Patterns") -> None:
        """Count what others counted."""
        self.counts.update(other.counts)
        self.seconds.update(other.seconds)


def patterns_of(log: LogView, breaks: OrderBreaks) -> Patterns:
    """Every early delivery of a log once: before a message of its own origin, if there is one."""
    found = Patterns()
    causal, fifo = breaks.causal, breaks.fifo
    if len(causal) == 0:
        return found
    causes = causal.causes.copy()
    if len(fifo):
        place = np.searchsorted(causal.rows, fifo.rows)
        place = np.minimum(place, len(causal) - 1)
        there = causal.rows[place] == fifo.rows
        causes[place[there]] = fifo.causes[there]
    p = log.graph.publications
    effects = log.dense[causal.rows]
    came = log.got[causes] < log.rows
    columns = np.column_stack(
        (p.origins[p.origin[effects]], p.origins[p.origin[causes]], p.group[effects],
         p.group[causes], came)
    )  # fmt: skip
    each, counts = np.unique(columns, axis=0, return_counts=True)
    for place in np.argsort(-counts, kind="stable")[:MOST_PATTERNS].tolist():
        origin, cause_origin, group, cause_group, inversion = each[place].tolist()
        kind = "inversion" if inversion else "gap"
        pattern = Pattern(log.node, origin, cause_origin, group, cause_group, kind)
        found.counts[pattern] = int(counts[place])
    if log.at_us is not None and len(log.at_us):
        seconds, of_second = np.unique(log.at_us[causal.rows] // SECOND, return_counts=True)
        found.seconds.update(dict(zip(seconds.tolist(), of_second.tolist(), strict=True)))
    return found
