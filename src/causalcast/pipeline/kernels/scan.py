"""One walk over a log that only asks whether anything is wrong with it.

Nearly all logs are clean. What is wrong with one that is not is found out by `close_look`, so this
walk has nothing to remember but the sets themselves.
"""

from typing import Any

import numpy as np

from causalcast.pipeline.kernels.compiled import compiled
from causalcast.pipeline.kernels.kinds import CRASH, DELIVER, PUBLISH, RECOVER

_ONE = np.int64(1)
CLEAN, CLEAN_BUT_DOWN, SUSPICIOUS = 0, 1, 2


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def dense_numbers(
    messages: Any, table: Any, origins: Any, base: Any, rank: Any, dense: Any
) -> None:
    """Dense numbers of message ids into `dense`; -1 for what nobody published.

    `table` has the place of each origin by node id; if it is empty, `origins` is searched.
    """
    for row in range(len(messages)):
        message = messages[row]
        dense[row] = -1
        if message < 0:
            continue
        node = message >> np.int64(32)
        if len(table) > 0:
            place = table[node] if node < len(table) else -1
        else:
            place = np.searchsorted(origins, node)
            if place == len(origins) or origins[place] != node:
                place = -1
        if place >= 0:
            slot = base[place] + (message & np.int64(0xFFFFFFFF)) - 1
            if base[place] <= slot < base[place + 1]:
                dense[row] = rank[slot]


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def add_to_set(words: Any, publications: Any) -> None:
    """Add publications to a set that is kept as words."""
    for m in publications:
        words[m >> 6] |= _ONE << np.int64(m & 63)


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def scan_log(
    kind: Any, dense: Any, group: Any, own: int, origin: Any, group_of: Any,
    offsets: Any, words: Any, masks: Any, owed: Any, has: Any, seen: Any,
) -> int:  # fmt: skip
    """Walk the log of a member from start to end; whether a closer look is needed.

    `has` begins with what is not owed here and gets what is published or delivered; `seen` begins
    empty and gets what is delivered. A skipped message of one origin is a missing cause as well, so
    FIFO order needs no test of its own.
    """
    down = False
    for row in range(len(kind)):
        if kind[row] == DELIVER:
            m = dense[row]
            if m < 0 or group[row] != group_of[m]:
                return SUSPICIOUS
            word = m >> 6
            bit = _ONE << np.int64(m & 63)
            if owed[word] & bit == 0 or seen[word] & bit != 0:
                return SUSPICIOUS
            if origin[m] == own and has[word] & bit == 0:  # delivered before it was published
                return SUSPICIOUS
            for pair in range(offsets[m], offsets[m + 1]):
                if masks[pair] & ~has[words[pair]] != 0:
                    return SUSPICIOUS
            seen[word] |= bit
            has[word] |= bit
        elif kind[row] == PUBLISH:
            m = dense[row]
            has[m >> 6] |= _ONE << np.int64(m & 63)
        elif kind[row] == CRASH:
            down = True
        elif kind[row] == RECOVER:
            down = False
    return CLEAN_BUT_DOWN if down else CLEAN


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def lacks_own(own: int, base: Any, rank: Any, owed: Any, seen: Any) -> bool:
    """Whether a publication of this node is owed to it and was never delivered."""
    for slot in range(base[own], base[own + 1]):
        m = rank[slot]
        if owed[m >> 6] & ~seen[m >> 6] & (_ONE << np.int64(m & 63)) != 0:
            return True
    return False
