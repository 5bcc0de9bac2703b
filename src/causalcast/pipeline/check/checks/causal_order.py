"""Causal order: when a node delivers m, it has every message it is owed that precedes m.

z precedes m iff the publisher of m had published or delivered z before, or something lies between
them. A crash excuses what is missing at the end of a log, never the order of what was delivered.
"""

from causalcast.pipeline.check.checks.finding import Finding, first_few
from causalcast.pipeline.check.checks.order import (
    EarlyDeliveries,
    EarlyDelivery,
    kind_of,
    missing_causes,
)
from causalcast.pipeline.check.log_view import LogView
from causalcast.pipeline.logs.publish_graph import PublishGraph

NAME = "causal_order"
WORDS = {
    "inversion": "delivered a message before one of its causes",
    "gap": "delivered a message and never one of its causes",
}


CHAINS_PER_LOG = 4  # a chain is a walk over the publish graph; people read one per mechanism


def find(log: LogView, breaks: EarlyDeliveries, of_origin: EarlyDeliveries) -> list[Finding]:
    """Deliveries of this log that come too early; the first ones with the shortest chain."""
    return early_findings(NAME, log, breaks.few(log, of_origin.rows), len(breaks), log.graph)


def early_findings(
    name: str, log: LogView, few: list[EarlyDelivery], total: int, graph: PublishGraph
) -> list[Finding]:
    """Early deliveries, each with the chain of causes from what should have come first."""
    found = [_finding(name, log, early, graph, n < CHAINS_PER_LOG) for n, early in enumerate(few)]
    return first_few(found, total)


def _finding(
    name: str, log: LogView, early: EarlyDelivery, graph: PublishGraph, with_chain: bool
) -> Finding:
    messages = log.graph.publications.message
    chain: list[int] = []
    cause = early.cause
    if with_chain:
        wanted = missing_causes(log, early, by_key=graph is log.graph)
        chain = graph.direct.shortest_chain(early.effect, wanted)
        cause = chain[0]
    return Finding(
        name, kind_of(log, early, cause), log.node, int(messages[early.effect]), early.row,
        int(messages[cause]), tuple(int(messages[m]) for m in chain),
    )  # fmt: skip
