"""Both order properties in one walk over a log: deliveries that come before something they follow.

They share the walk because FIFO order is causal order between messages of one origin.
"""

from dataclasses import dataclass

import numpy as np

from causalcast.pipeline import kernels
from causalcast.pipeline.checks.finding import EXAMPLES_PER_LOG
from causalcast.pipeline.log_view import LogView


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
    if log.graph.vectors is None:
        _walk_with_lists(log, found, counts)
    else:
        _walk_with_vectors(log, found, counts)
    fifo, causal = (
        [EarlyDelivery(int(row), int(log.dense[row]), int(cause)) for row, cause in rows[:count]]
        for rows, count in zip(found, counts, strict=True)
    )
    return OrderBreaks(fifo, int(counts[0]), causal, int(counts[1]))


def _walk_with_lists(log: LogView, found: np.ndarray, counts: np.ndarray) -> None:
    if not log.memberships:
        return  # nothing is owed to it
    graph = log.graph
    p = graph.publications
    has, seen = np.zeros((2, len(p) // 64 + 1), np.int64)
    kernels.early_deliveries_by_list(
        log.kind, log.dense, graph.offsets, graph.words, graph.masks,
        p.origin, p.number, p.base, p.rank, has, seen, found, counts,
    )  # fmt: skip


def _walk_with_vectors(log: LogView, found: np.ndarray, counts: np.ndarray) -> None:
    graph = log.graph
    p = graph.publications
    for first, end, owed in log.stretches():
        exempt = ~owed | graph.cyclic
        kernels.early_deliveries_by_vector(
            log.kind, log.dense, first, end, log.got, log.delivered, exempt, graph.cyclic,
            graph.vectors, p.origin, p.number, p.base, p.rank, found, counts,
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
