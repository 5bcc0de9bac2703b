"""No duplication: a log delivers a message once.

Logs of at-least-once systems may repeat a message if the node recovered between the two deliveries
(`redelivery = after_recover`), or at any time (`any`). Where deliveries are numbered, a repetition
has a higher number than those before.
"""

import numpy as np

from causalcast.pipeline.check.checks.finding import Finding, first_few
from causalcast.pipeline.check.log_view import LogView
from causalcast.pipeline.kernels.kinds import DELIVER, RECOVER

NAME = "no_duplication"
WORDS = {
    "repeated": "delivered a message again",
    "shared_twice": "delivered a message that another one of its share delivered too",
}


def find(log: LogView) -> list[Finding]:
    """Repeated deliveries without an excuse."""
    again = _inexcusable(log)[0]
    found = [
        Finding(NAME, "repeated", log.node, int(log.message[row]), int(row)) for row in again[:64]
    ]
    return first_few(found, len(again))


def count_unknown(log: LogView) -> int:
    """Repeated deliveries of a partial log that a recovery may excuse, if its row is missing."""
    return len(_inexcusable(log)[1])


def _inexcusable(log: LogView) -> tuple[list[int], list[int]]:
    """Rows that repeat a delivery without an excuse, and those that may have one."""
    rows = np.flatnonzero((log.kind == DELIVER) & (log.dense >= 0))
    again = rows[log.delivered[log.dense[rows]] != rows]
    if len(again) == 0:
        return [], []
    if log.redelivery == "none" and log.attempt is None:
        return again.tolist(), []
    return _without_excused(log, rows, set(again.tolist()))


def _without_excused(
    log: LogView, rows: np.ndarray, repeated: set[int]
) -> tuple[list[int], list[int]]:
    recoveries = np.cumsum(log.kind == RECOVER)
    last: dict[int, int] = {}
    highest: dict[int, int] = {}
    wrong: list[int] = []
    perhaps: list[int] = []
    for row in rows.tolist():
        m = int(log.dense[row])
        attempt = -1 if log.attempt is None else int(log.attempt[row])
        if row in repeated and attempt > 0:
            if attempt <= highest[m]:
                wrong.append(row)
        elif row in repeated and log.redelivery == "none":
            wrong.append(row)
        elif row in repeated and log.redelivery == "after_recover" and (
            recoveries[last[m]] == recoveries[row]
        ):  # fmt: skip
            (wrong if log.whole else perhaps).append(row)
        last[m] = row
        highest[m] = max(attempt, highest.get(m, 0))
    return wrong, perhaps
