"""FIFO order: messages of one origin, across all its groups, in the order it published them."""

from causalcast.pipeline.check.checks.finding import Finding, first_few
from causalcast.pipeline.check.checks.order import EarlyDeliveries, kind_of
from causalcast.pipeline.check.log_view import LogView

NAME = "fifo_order"
WORDS = {
    "inversion": "delivered a message before an earlier one of the same origin",
    "gap": "delivered a message and never an earlier one of the same origin that it is owed",
}


def find(log: LogView, breaks: EarlyDeliveries) -> list[Finding]:
    """Deliveries of this log that skip an earlier message of their origin."""
    messages = log.graph.publications.message
    found = [
        Finding(
            NAME, kind_of(log, early, early.cause), log.node, int(messages[early.effect]),
            early.row, int(messages[early.cause]),
            (int(messages[early.cause]), int(messages[early.effect])),
        )
        for early in breaks.few(log, breaks.rows)
    ]  # fmt: skip
    return first_few(found, len(breaks))
