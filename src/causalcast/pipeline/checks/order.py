"""Both order properties in one walk over a log: deliveries that come before something they follow.

They share the walk because FIFO order is causal order between messages of one origin.
"""

from dataclasses import dataclass

import numpy as np

from causalcast.pipeline.checks.finding import EXAMPLES_PER_LOG
from causalcast.pipeline.kernels import close_look
from causalcast.pipeline.log_view import LogView
from causalcast.pipeline.logs import Bools, Ints


@dataclass
class EarlyDelivery:
    """A delivery (its row and dense number) and one cause that should have come first."""

    row: int
    effect: int
    cause: int


@dataclass
class OrderBreaks:
    """The first few early deliveries of a log, and how many there are."""

    fifo: list[EarlyDelivery]
    fifo_total: int
    causal: list[EarlyDelivery]
    causal_total: int


def find_early_deliveries(log: LogView) -> OrderBreaks:
    """Walk the log once."""
    found = np.zeros((2, EXAMPLES_PER_LOG, 2), np.int64)
    counts = np.zeros(2, np.int64)
    for first, end, owed in log.stretches():
        _walk_stretch(log, first, end, ~owed | log.graph.cyclic, found, counts)
    fifo, causal = (
        [EarlyDelivery(int(row), int(log.dense[row]), int(cause)) for row, cause in rows[:count]]
        for rows, count in zip(found, counts, strict=True)
    )
    return OrderBreaks(fifo, int(counts[0]), causal, int(counts[1]))


def _walk_stretch(
    log: LogView, first: int, end: int, exempt: Bools, found: Ints, counts: Ints
) -> None:
    graph = log.graph
    p, table = graph.publications, graph.short
    latest, witness = np.full((2, len(p)), -1, np.int64)
    close_look.latest_causes(
        table.offsets, table.words, table.masks, graph.order, graph.component, log.got, exempt,
        latest, witness,
    )  # fmt: skip
    close_look.early_deliveries(
        log.kind, log.dense, first, end, log.got, log.delivered, exempt, graph.cyclic, latest,
        witness, p.origin, p.number, p.base, p.rank, found, counts,
    )  # fmt: skip


def kind_of(log: LogView, early: EarlyDelivery, cause: int) -> str:
    """`inversion` if the cause came later, `gap` if it never came."""
    return "inversion" if early.row <= log.got[cause] < log.rows else "gap"


def missing_causes(log: LogView, row: int) -> np.ndarray:
    """Everything that was owed at `row` and not there yet, whether it is a cause or not."""
    for first, end, owed in log.stretches():
        if first <= row < end:
            missing: np.ndarray = owed & ~log.graph.cyclic & (log.got >= row)
            return missing
    raise AssertionError("every row lies in a stretch")
