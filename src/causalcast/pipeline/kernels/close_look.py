"""One log in detail: first rows, deliveries that come too early, and who follows whom.

`order` lists publications with causes before effects; those on one cycle of happens-before stand
next to each other in it and have the same number in `component`.
"""

from typing import Any

import numpy as np

from causalcast.pipeline.kernels.compiled import compiled
from causalcast.pipeline.kernels.kinds import DELIVER, PUBLISH

_ONE = np.int64(1)
_BYTE = np.int64(0xFF)


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def first_rows(kind: Any, dense: Any, got: Any, delivered: Any) -> None:
    """For each publication the first row that has it (published or delivered), or delivers it."""
    for row in range(len(kind)):
        m = dense[row]
        if m >= 0 and (kind[row] == DELIVER or kind[row] == PUBLISH):
            if got[m] > row:
                got[m] = row
            if kind[row] == DELIVER and delivered[m] > row:
                delivered[m] = row


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def latest_causes(
    offsets: Any, words: Any, masks: Any, order: Any, component: Any, got: Any, exempt: Any,
    latest: Any, witness: Any,
) -> None:  # fmt: skip
    """latest[m] = the instant at which the last cause of m arrives here, witness[m] = that cause.

    -1 where there is none. Causes that are `exempt` do not count, but what precedes them does; so
    it is exact also where a node never sees the middle of a chain.
    """
    place = 0
    while place < len(order):
        end = place + 1
        while end < len(order) and component[order[end]] == component[order[place]]:
            end += 1
        last = np.int64(-1)
        cause = np.int64(-1)
        for at in range(place, end):
            m = order[at]
            for pair in range(offsets[m], offsets[m + 1]):
                for byte in range(0, 64, 8):  # most bytes are empty
                    bits = (masks[pair] >> np.int64(byte)) & _BYTE
                    x = np.int64(words[pair]) * 64 + byte
                    while bits != 0:
                        if bits & _ONE:
                            if component[x] != component[m] and latest[x] > last:
                                last = latest[x]
                                cause = witness[x]
                            if not exempt[x] and got[x] > last:
                                last = got[x]
                                cause = x
                        bits >>= _ONE
                        x += 1
        for at in range(place, end):
            latest[order[at]] = last
            witness[order[at]] = cause
        place = end


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def nearest_causes(
    offsets: Any, words: Any, masks: Any, order: Any, component: Any, got: Any, exempt: Any,
    latest: Any,
) -> None:  # fmt: skip
    """latest[m] = the instant at which the last of m's nearest causes arrives here.

    What lies behind a cause that is owed here does not count: that is the cause's own affair.
    """
    for place in range(len(order)):
        m = order[place]
        last = np.int64(-1)
        for pair in range(offsets[m], offsets[m + 1]):
            for byte in range(0, 64, 8):
                bits = (masks[pair] >> np.int64(byte)) & _BYTE
                x = np.int64(words[pair]) * 64 + byte
                while bits != 0:
                    if bits & _ONE:
                        if not exempt[x]:
                            last = max(last, got[x])
                        elif component[x] != component[m]:
                            last = max(last, latest[x])
                    bits >>= _ONE
                    x += 1
        latest[m] = last


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def unaccounted_deliveries(
    kind: Any, dense: Any, instant: Any, first: int, end: int, got: Any, delivered: Any,
    exempt: Any, cyclic: Any, latest: Any, origin: Any, before: Any, base: Any, rank: Any,
    found: Any, counts: Any,
) -> None:  # fmt: skip
    """Deliveries in rows first..end-1 one of whose nearest causes is not there yet.

    `found[0]`: whose origin's last message before it, of those owed, is not; `found[1]`: any.
    """
    for row in range(first, end):
        m = dense[row]
        if kind[row] != DELIVER or m < 0 or delivered[m] != row or cyclic[m]:
            continue
        q = origin[m]
        number = before[m] - 1
        while number > 0 and exempt[rank[base[q] + number - 1]]:
            number -= 1
        if number > 0 and got[rank[base[q] + number - 1]] > instant[row]:
            _note(0, row, -1, found, counts)
        if latest[m] > instant[row]:
            _note(1, row, -1, found, counts)


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def early_deliveries(
    kind: Any, dense: Any, instant: Any, first: int, end: int, got: Any, delivered: Any,
    exempt: Any, cyclic: Any, latest: Any, witness: Any, origin: Any, before: Any, base: Any,
    rank: Any, found: Any, counts: Any,
) -> None:  # fmt: skip
    """Deliveries in rows first..end-1 that come before a cause they follow; `got` has instants.

    `found[0]`, `found[1]`: (row, cause) of what breaks FIFO and causal order, `counts` how many.
    FIFO order keeps, per origin, a pointer to its first publication that is owed and not there.
    """
    next_number = np.ones(len(base), np.int64)
    for row in range(first, end):
        m = dense[row]
        if kind[row] != DELIVER or m < 0 or delivered[m] != row or cyclic[m]:
            continue
        q = origin[m]
        now = instant[row]
        while next_number[q] < before[m]:
            z = rank[base[q] + next_number[q] - 1]
            if got[z] > now and not exempt[z]:
                _note(0, row, z, found, counts)
                break
            next_number[q] += 1
        if latest[m] > now:
            _note(1, row, witness[m], found, counts)


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def _note(which: int, row: int, cause: int, found: Any, counts: Any) -> None:
    if counts[which] < found.shape[1]:
        found[which, counts[which], 0] = row
        found[which, counts[which], 1] = cause
    counts[which] += 1


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def followers(
    offsets: Any, words: Any, masks: Any, order: Any, component: Any, starts: Any, follows: Any
) -> None:
    """follows[m] becomes true iff one of `starts` precedes m."""
    place = 0
    while place < len(order):
        end = place + 1
        while end < len(order) and component[order[end]] == component[order[place]]:
            end += 1
        found = False
        for at in range(place, end):
            m = order[at]
            for pair in range(offsets[m], offsets[m + 1]):
                for byte in range(0, 64, 8):
                    bits = (masks[pair] >> np.int64(byte)) & _BYTE
                    x = np.int64(words[pair]) * 64 + byte
                    while bits != 0 and not found:
                        if bits & _ONE and (starts[x] or follows[x]):
                            found = True
                        bits >>= _ONE
                        x += 1
        if found:
            for at in range(place, end):
                follows[order[at]] = True
        place = end
