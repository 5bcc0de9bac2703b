"""Reply order: when a node delivers m, it has every message it is owed that m declares to follow,
or that what it follows declares.

People ask for this one first: an answer before its question. Causal order asks for more, for all
that the publisher had seen. Keys do not matter here, for the publisher named its causes itself.
"""

from causalcast.pipeline.check.checks.causal_order import early_findings
from causalcast.pipeline.check.checks.finding import Finding
from causalcast.pipeline.check.checks.order import EarlyDeliveries
from causalcast.pipeline.check.log_view import LogView
from causalcast.pipeline.logs.publish_graph import PublishGraph

NAME = "reply_order"
WORDS = {
    "inversion": "delivered a message before one that it answers",
    "gap": "delivered a message and never one that it answers",
}


def find(
    log: LogView, breaks: EarlyDeliveries, of_origin: EarlyDeliveries, replies: PublishGraph
) -> list[Finding]:
    """Deliveries of this log that come before something they declare to follow."""
    return early_findings(NAME, log, breaks.few(log, of_origin.rows), len(breaks), replies)
