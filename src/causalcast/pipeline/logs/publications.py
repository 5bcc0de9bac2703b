"""All publications of a run, with dense numbers in order of publishing time.

The causes of a message then lie close together, and few 64-bit words hold them. Any numbering gives
the same verdicts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from causalcast.errors import TraceError
from causalcast.pipeline.kernels import scan
from causalcast.pipeline.kernels.kinds import PUBLISH
from causalcast.pipeline.logs.logs import NONE, Ints, Logs

ORIGIN_SHIFT = 32
NUMBER_MASK = (1 << ORIGIN_SHIFT) - 1
TABLE_UP_TO = 1 << 22  # node ids below are looked up in a table, four times faster than a search

Int32s = npt.NDArray[np.int32]


@dataclass
class PublishRows:
    """The `publish` rows of some logs."""

    message: Ints
    group: Int32s
    pos: Ints
    at_us: Ints
    key: list[str | None] | None = None
    """What other systems say of each: the key it is ordered by; none if none has one."""
    declared: tuple[Ints, Ints] | None = None
    """And what it follows: pairs of effect and cause, as ids."""
    before: Int32s | None = None
    """The number of the first publication of the same instant; none if no rows are tied."""


@dataclass
class Publications:
    """Publications by dense number, and the way from an id to its number."""

    origin: Int32s
    """Place of the publisher in `origins`."""
    number: Int32s
    group: Int32s
    pos: Ints
    """The row of its publisher's log that has it."""
    origins: Ints
    base: Ints
    """Where the publications of each origin begin in `rank`; one more at the end."""
    rank: Int32s
    key: Int32s | None = None
    """A number for the key of each, -1 for none; none if no publication has one."""
    declared: tuple[Int32s, Int32s] | None = None
    """Effects and causes that were declared, as dense numbers; none if no causes were."""
    tied: Int32s | None = None

    @property
    def before(self) -> Int32s:
        """Per publication the number from which on its origin's publications do not precede it:
        its own, or that of the first one of the same instant."""
        return self.number if self.tied is None else self.tied

    def __len__(self) -> int:
        return len(self.origin)

    @cached_property
    def message(self) -> Ints:
        """The id of each publication."""
        ids: Ints = self.origins[self.origin] << ORIGIN_SHIFT | self.number
        return ids

    def dense(self, messages: Ints) -> Int32s:
        """Dense numbers of message ids; -1 for what nobody published."""
        dense = np.empty(len(messages), np.int32)
        scan.dense_numbers(messages, self._table, self.origins, self.base, self.rank, dense)
        return dense

    @cached_property
    def _table(self) -> Int32s:
        """Place in `origins` by node id; empty where ids are too large for a table."""
        if len(self) == 0 or self.origins[-1] >= TABLE_UP_TO:
            return np.zeros(0, np.int32)
        table = np.full(int(self.origins[-1]) + 1, NONE, np.int32)
        table[self.origins] = np.arange(len(self.origins))
        return table

    def place_of_origin(self, node: int) -> int:
        """Place of `node` in `origins`, -1 if it published nothing."""
        place = int(np.searchsorted(self.origins, node))
        return place if place < len(self.origins) and self.origins[place] == node else NONE


def publish_rows(logs: Logs) -> PublishRows:
    """The publications of some logs; each node numbers its own 1, 2, 3, … or the trace is wrong."""
    rows = np.flatnonzero(logs.kind == PUBLISH)
    log = np.searchsorted(logs.starts, rows, side="right") - 1
    message = logs.message[rows]
    first_of_log = np.searchsorted(log, np.arange(len(logs.nodes)))
    wanted = (logs.nodes[log] << ORIGIN_SHIFT) + np.arange(len(rows)) - first_of_log[log] + 1
    wrong = np.flatnonzero(message != wanted)
    if len(wrong):
        place = wrong[0]
        pos = rows[place] - logs.starts[log[place]]
        raise TraceError(
            f"{logs.where}: node {logs.nodes[log[place]]}, pos {pos}:"
            f" published message {message[place]} where {wanted[place]} was expected"
        )
    return PublishRows(
        message, logs.group[rows], rows - logs.starts[log], logs.at_us[rows],
        None if logs.key is None else logs.key.take(rows).to_pylist(), _declared(logs, rows),
        None if logs.instant is None else _first_of_instant(logs.instant[rows], log, message),
    )  # fmt: skip


def _first_of_instant(instant: Ints, log: Ints, message: Ints) -> Int32s:
    number = (message & NUMBER_MASK).astype(np.int32)
    begins = np.ones(len(number), np.bool_)
    begins[1:] = (instant[1:] != instant[:-1]) | (log[1:] != log[:-1])
    first: Int32s = number[np.flatnonzero(begins)][np.cumsum(begins) - 1]
    return first


def _declared(logs: Logs, rows: Ints) -> tuple[Ints, Ints] | None:
    if logs.causes is None:
        return None
    causes = logs.causes.take(rows).combine_chunks()
    count = np.array([0 if some is None else len(some) for some in causes.to_pylist()], np.int64)
    of = causes.flatten().to_numpy(zero_copy_only=False).astype(np.int64)
    return np.repeat(logs.message[rows], count), of


def number_publications(pieces: Sequence[PublishRows]) -> Publications:
    """Dense numbers for the publications of a whole run."""
    message = np.concatenate([piece.message for piece in pieces])
    by_id = np.argsort(message, kind="stable")
    message = message[by_id]
    at_us = np.concatenate([piece.at_us for piece in pieces])[by_id]
    group = np.concatenate([piece.group for piece in pieces])[by_id]
    pos = np.concatenate([piece.pos for piece in pieces])[by_id]
    if np.any(message[1:] == message[:-1]):
        raise TraceError(f"message {message[1:][message[1:] == message[:-1]][0]} published twice")
    by_time = np.argsort(at_us, kind="stable")
    rank = np.empty(len(message), np.int32)
    rank[by_time] = np.arange(len(message))
    origins, base = np.unique(message >> ORIGIN_SHIFT, return_index=True)
    origin = np.searchsorted(origins, message >> ORIGIN_SHIFT)
    numbered = Publications(
        origin=origin[by_time].astype(np.int32),
        number=(message & NUMBER_MASK)[by_time].astype(np.int32),
        group=group[by_time].astype(np.int32),
        pos=pos[by_time],
        origins=origins,
        base=np.append(base, len(message)).astype(np.int64),
        rank=rank,
    )
    _add_keys(numbered, pieces)
    _add_declared(numbered, pieces)
    if any(piece.before is not None for piece in pieces):
        numbered.tied = numbered.number.copy()
        for piece in pieces:
            if piece.before is not None:
                numbered.tied[numbered.dense(piece.message)] = piece.before
    return numbered


def _add_keys(numbered: Publications, pieces: Sequence[PublishRows]) -> None:
    if all(piece.key is None for piece in pieces):
        return
    codes: dict[str, int] = {}
    numbered.key = np.full(len(numbered), NONE, np.int32)
    for piece in pieces:
        for m, key in zip(numbered.dense(piece.message), piece.key or (), strict=False):
            if key is not None:
                numbered.key[m] = codes.setdefault(key, len(codes))


def _add_declared(numbered: Publications, pieces: Sequence[PublishRows]) -> None:
    """Causes that nobody published are no causes here, and nothing is its own."""
    pairs = [piece.declared for piece in pieces if piece.declared is not None]
    if not pairs:
        return
    effect, cause = (numbered.dense(np.concatenate(column)) for column in zip(*pairs, strict=True))
    real = (cause >= 0) & (cause != effect)
    numbered.declared = effect[real], cause[real]
