"""A log that cannot be true: something is delivered before it was published, or spans are their
own ancestors.

No system can do that, so whoever wrote the log did something wrong. What seems to follow what in
such a log proves nothing about the system; the verdict names the log instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from causalcast.pipeline.check.checks.finding import Finding
from causalcast.pipeline.verdicts.names import Names
from causalcast.trace.foreign_log import CIRCULAR_SPANS
from causalcast.trace.run_header import RunHeader

IMPOSSIBLE = ("before_publish", "cycle")
BY_TIME = (
    "rows are put in order by time, and times do not tell it: clocks were set, or cut to"
    " milliseconds; log a position (`pos`) per process"
)
LATE_ROW = "publications are logged after the send; write the row before the message leaves"
SEVERAL_THREADS = (
    "publications are logged after the send, or several threads write under one name in another"
    " order than they act; write the row before the message leaves, and name threads as processes"
)
SAME_IDS = "ids are given twice: random numbers with one seed, or a process that was copied"
SHOWN = 3


@dataclass
class LogFault:
    """What is wrong with a log itself."""

    count: int
    """Publications that were delivered before."""
    nodes: list[int]
    """Whose logs have them."""
    reason: str
    examples: list[Finding]
    others: list[Finding]
    """All findings that are no fault of the log."""
    circular_spans: int = 0
    """Spans that are their own ancestors."""

    def sentence(self, names: Names) -> str:
        """What is wrong and why, for people."""
        said = [self._publications(names)] if self.count else []
        if self.circular_spans:
            said.append(
                f"{self.circular_spans:,} spans are their own ancestors. Likely reason: {SAME_IDS}"
            )
        return ". ".join(said)

    def _publications(self, names: Names) -> str:
        who = ", ".join(names.node(node) for node in self.nodes[:SHOWN])
        more = len(self.nodes) - SHOWN
        who += f" and {more} more" if more > 0 else ""
        were = "publication is" if self.count == 1 else "publications are"
        return (
            f"{self.count:,} {were} delivered before they stand in the log of their publisher"
            f" ({who}). Likely reason: {self.reason}"
        )

    def to_json(self, names: Names) -> dict[str, Any]:
        """The same for scripts."""
        return {
            "publications": self.count,
            "circular_spans": self.circular_spans,
            "nodes": [names.node(node) for node in self.nodes],
            "reason": self.reason,
            "examples": [
                {"kind": one.kind, "node": one.node, "message": one.message, "pos": one.pos}
                for one in self.examples
            ],
        }


def find_fault(header: RunHeader, findings: Sequence[Finding]) -> LogFault | None:
    """What is wrong with another system's log; our own logs are judged by `no_creation`."""
    faults = [f for f in findings if f.kind in IMPOSSIBLE]
    circular = header.options.get(CIRCULAR_SPANS, 0)
    if header.world != "imported" or not (faults or circular):
        return None
    count = sum(1 + finding.further for finding in faults)
    if not faults:
        reason = SAME_IDS
    elif header.options.get("order") == "time":
        reason = BY_TIME
    elif any(finding.kind == "before_publish" for finding in faults):
        reason = LATE_ROW
    else:
        reason = SEVERAL_THREADS
    nodes = sorted({finding.node for finding in faults})
    others = [finding for finding in findings if finding.kind not in IMPOSSIBLE]
    return LogFault(count, nodes, reason, faults[:SHOWN], others, circular)
