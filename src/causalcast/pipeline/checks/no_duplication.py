"""No duplication: a log delivers a message once.

Logs of at-least-once systems (`redelivery = after_recover`) may repeat a message if the node
recovered between the two deliveries.
"""

import numpy as np

from causalcast.pipeline.checks.finding import Finding, first_few
from causalcast.pipeline.kinds import DELIVER, RECOVER
from causalcast.pipeline.log_view import LogView

NAME = "no_duplication"
WORDS = {"repeated": "delivered a message again"}


def find(log: LogView, redelivery: bool) -> list[Finding]:
    """Deliveries of what was delivered before; `redelivery` says whether a recovery excuses it."""
    rows = np.flatnonzero((log.kind == DELIVER) & (log.dense >= 0))
    again = rows[log.delivered[log.dense[rows]] != rows]
    if redelivery and len(again):
        again = _without_excused(log, rows, again)
    found = [
        Finding(NAME, "repeated", log.node, int(log.message[row]), int(row)) for row in again[:64]
    ]
    return first_few(found, len(again))


def _without_excused(log: LogView, rows: np.ndarray, again: np.ndarray) -> np.ndarray:
    recoveries = np.cumsum(log.kind == RECOVER)
    last: dict[int, int] = {}
    repeated = set(again.tolist())
    inexcusable = []
    for row in rows.tolist():
        m = int(log.dense[row])
        if row in repeated and recoveries[last[m]] == recoveries[row]:
            inexcusable.append(row)
        last[m] = row
    return np.array(inexcusable, np.int64)
