"""Order per key: what matters to a message are those of its own key, and those without one.

What precedes a publication is, of each origin, its first so many publications: one number per
origin. Where several are published at one instant, none of them precedes the others; then the first
ones of all instants are a *chain*, the second ones another, and there is one number per chain. Of
one chain and one key the row at which the last of the first so many arrives is looked up, so a
message costs as many look-ups as there are chains, however many keys there are.
"""

from typing import Any

import numpy as np

from causalcast.pipeline.kernels.compiled import compiled
from causalcast.pipeline.kernels.kinds import DELIVER

_ONE = np.int64(1)
_BYTE = np.int64(0xFF)


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def pasts(
    offsets: Any, words: Any, masks: Any, order: Any, component: Any, origin: Any, before: Any,
    chain: Any, chains_of: Any, certain: Any, past: Any,
) -> None:  # fmt: skip
    """past[m, q] = the number of the last publication of chain q that precedes m, 0 for none.

    It begins with zeros. Whoever follows x follows its chain up to `certain[x]`: itself, unless the
    chain has several of its instant.
    """
    place = 0
    while place < len(order):
        end = place + 1
        while end < len(order) and component[order[end]] == component[order[place]]:
            end += 1
        whole = past[order[place]]
        for at in range(place, end):
            m = order[at]
            for q in range(chains_of[origin[m]], chains_of[origin[m] + 1]):
                whole[q] = max(whole[q], before[m] - 1)
            for pair in range(offsets[m], offsets[m + 1]):
                for byte in range(0, 64, 8):  # most bytes are empty
                    bits = (masks[pair] >> np.int64(byte)) & _BYTE
                    x = np.int64(words[pair]) * 64 + byte
                    while bits != 0:
                        if bits & _ONE:
                            if component[x] != component[m]:
                                for q in range(len(whole)):
                                    whole[q] = max(whole[q], past[x, q])
                            whole[chain[x]] = max(whole[chain[x]], certain[x])
                        bits >>= _ONE
                        x += 1
        for at in range(place + 1, end):
            past[order[at]] = whole
        place = end


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def last_arrivals(starts: Any, members: Any, got: Any, exempt: Any, last: Any, which: Any) -> None:
    """Within each list, for every place the row of the last arrival up to it, and whose it is."""
    for one in range(len(starts) - 1):
        row = np.int64(-1)
        cause = np.int64(-1)
        for place in range(starts[one], starts[one + 1]):
            m = members[place]
            if not exempt[m] and got[m] > row:
                row = got[m]
                cause = m
            last[place] = row
            which[place] = cause


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def _place_of(lists: Any, wanted: int) -> int:
    """The place of a value in a sorted array; -1 if it is not there."""
    low = 0
    high = len(lists)
    while low < high:
        middle = (low + high) // 2
        if lists[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < len(lists) and lists[low] == wanted else -1


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def _up_to(starts: Any, numbers: Any, one: int, most: int) -> int:
    """The last place of a list whose number is at most `most`; -1 if there is none."""
    low = starts[one]
    high = starts[one + 1]
    while low < high:
        middle = (low + high) // 2
        if numbers[middle] <= most:
            low = middle + 1
        else:
            high = middle
    return low - 1 if low > starts[one] else -1


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def early_keyed_deliveries(
    kind: Any, dense: Any, instant: Any, first: int, end: int, delivered: Any, cyclic: Any,
    past: Any, origin: Any, before: Any, chains_of: Any, key: Any, keys: int, lists: Any,
    starts: Any, numbers: Any, last: Any, which: Any, starts_of_all: Any, numbers_of_all: Any,
    last_of_all: Any, which_of_all: Any, found: Any, counts: Any,
) -> None:  # fmt: skip
    """Deliveries in rows first..end-1 that come before a cause of their key, or without one.

    `lists` names the lists, sorted: chain * keys + key + 1. A message without a key looks at all
    publications of each chain, `last_of_all`.
    """
    for row in range(first, end):
        m = dense[row]
        if kind[row] != DELIVER or m < 0 or delivered[m] != row or cyclic[m]:
            continue
        for order in range(2):  # 0: of its own origin, 1: of all
            latest = np.int64(-1)
            cause = np.int64(-1)
            for q in range(
                chains_of[origin[m]] if order == 0 else 0,
                chains_of[origin[m] + 1] if order == 0 else past.shape[1],
            ):
                most = past[m, q] if order == 1 else before[m] - 1
                if most <= 0:
                    continue
                if key[m] < 0:
                    place = _up_to(starts_of_all, numbers_of_all, q, most)
                    if place >= 0 and last_of_all[place] > latest:
                        latest = last_of_all[place]
                        cause = which_of_all[place]
                    continue
                for half in range(2):
                    of_key = key[m] + 1 if half == 0 else 0
                    one = _place_of(lists, q * keys + of_key)
                    if one < 0:
                        continue
                    place = _up_to(starts, numbers, one, most)
                    if place >= 0 and last[place] > latest:
                        latest = last[place]
                        cause = which[place]
            if latest > instant[row]:
                if counts[order] < found.shape[1]:
                    found[order, counts[order], 0] = row
                    found[order, counts[order], 1] = cause
                counts[order] += 1
