"""Causal order: when a node delivers m, it has every message it is owed that precedes m.

z precedes m iff the publisher of m had published or delivered z before, or something lies between
them. A crash excuses what is missing at the end of a log, never the order of what was delivered.
"""

import numpy as np

from causalcast.pipeline.checks.finding import Finding, first_few
from causalcast.pipeline.checks.order import EarlyDelivery, OrderBreaks, kind_of, missing_causes
from causalcast.pipeline.log_view import LogView

NAME = "causal_order"
WORDS = {
    "inversion": "delivered a message before one of its causes",
    "gap": "delivered a message and never one of its causes",
}
CHAINS_PER_LOG = 2  # a chain is a walk over the publish graph; people read the first


def find(log: LogView, breaks: OrderBreaks) -> list[Finding]:
    """Deliveries of this log that come too early; the first ones with the shortest chain."""
    found = [_finding(log, early, n < CHAINS_PER_LOG) for n, early in enumerate(breaks.causal)]
    return first_few(found, breaks.causal_total)


def _finding(log: LogView, early: EarlyDelivery, with_chain: bool) -> Finding:
    messages = log.graph.publications.message
    chain: list[int] = []
    cause = early.cause
    if with_chain:
        wanted = np.asarray(missing_causes(log, early.row))
        chain = log.graph.direct.shortest_chain(early.effect, wanted)
        cause = chain[0]
    return Finding(
        NAME, kind_of(log, early, cause), log.node, int(messages[early.effect]), early.row,
        int(messages[cause]), tuple(int(messages[m]) for m in chain),
    )  # fmt: skip
