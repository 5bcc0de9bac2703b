"""The inner loops: compiled by numba where it is installed, the same loops in plain Python if not.

Sets of publications are bits in 64-bit words. Words are signed: mixing unsigned words with other
integers would turn them into floats, and no operation here cares about the sign. Everything is in
one file because numba's cache on disk does not notice changes in other files.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from causalcast.pipeline.logs import DELIVER, PUBLISH

try:
    from numba import njit

    _compile: Any = njit(cache=True)
except ImportError:

    def _compile(function: Callable[..., Any]) -> Callable[..., Any]:
        return function


_ONE = np.int64(1)
_TRIES = (
    12  # how many causes are asked for what they imply: fewer give longer lists, not wrong ones
)


@_compile  # type: ignore[untyped-decorator,unused-ignore]
def first_rows(kind: Any, dense: Any, got: Any, delivered: Any) -> None:
    """For each publication the first row that has it (published or delivered), or delivers it."""
    for row in range(len(kind)):
        m = dense[row]
        if m >= 0 and (kind[row] == DELIVER or kind[row] == PUBLISH):
            if got[m] > row:
                got[m] = row
            if kind[row] == DELIVER and delivered[m] > row:
                delivered[m] = row


@_compile  # type: ignore[untyped-decorator,unused-ignore]
def _sort(values: Any, size: int) -> None:
    """Insertion sort of the first `size` values, which are nearly in order already."""
    for i in range(1, size):
        value = values[i]
        j = i
        while j > 0 and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value


@_compile  # type: ignore[untyped-decorator,unused-ignore]
def direct_causes(
    kind: Any, dense: Any, words: Any, masks: Any, sizes: Any, scratch: Any, touched: Any
) -> int:
    """Direct causes of each publication of one log, as pairs of word and mask.

    They are what the node delivered since its previous publication, and that publication; words
    ascend. `sizes` gets the number of pairs of each publish row in turn. `scratch` is all zero
    before and after.
    """
    pairs = 0
    publishes = 0
    open_words = 0
    for row in range(len(kind)):
        m = dense[row]
        if m < 0 or (kind[row] != DELIVER and kind[row] != PUBLISH):
            continue
        if kind[row] == PUBLISH:
            scratch[m >> 6] &= ~(_ONE << np.int64(m & 63))  # nothing is its own cause
            before = pairs
            _sort(touched, open_words)
            for place in range(open_words):
                word = touched[place]
                if scratch[word] != 0:
                    words[pairs] = word
                    masks[pairs] = scratch[word]
                    pairs += 1
                scratch[word] = 0
            open_words = 0
            sizes[publishes] = pairs - before
            publishes += 1
        word = m >> 6
        if scratch[word] == 0:
            touched[open_words] = word
            open_words += 1
        scratch[word] |= _ONE << np.int64(m & 63)
    for place in range(open_words):
        scratch[touched[place]] = 0
    return pairs


@_compile  # type: ignore[untyped-decorator,unused-ignore]
def any_cause_is_later(offsets: Any, words: Any, masks: Any) -> bool:
    """Whether a direct cause has a higher number than its effect (clocks that disagree)."""
    for m in range(len(offsets) - 1):
        for pair in range(offsets[m], offsets[m + 1]):
            if words[pair] > m >> 6:
                return True
            if words[pair] == m >> 6 and masks[pair] >> np.int64(m & 63) != 0:
                return True
    return False


@_compile  # type: ignore[untyped-decorator,unused-ignore]
def components(offsets: Any, words: Any, masks: Any, order: Any, component: Any) -> int:
    """Tarjan's strongly connected components; `order` gets causes before effects.

    Members of one component stand next to each other in `order`. Returns how many there are.
    """
    size = len(offsets) - 1
    found_at = np.full(size, -1, np.int64)
    low = np.zeros(size, np.int64)
    on_stack = np.zeros(size, np.bool_)
    stack = np.zeros(size, np.int64)
    path = np.zeros(size, np.int64)
    next_pair = np.zeros(size, np.int64)
    next_bit = np.zeros(size, np.int64)
    clock = stacked = placed = count = 0
    for root in range(size):
        if found_at[root] >= 0:
            continue
        depth = 1
        path[0] = root
        next_pair[root] = offsets[root]
        found_at[root] = low[root] = clock
        clock += 1
        stack[stacked] = root
        stacked += 1
        on_stack[root] = True
        while depth > 0:
            m = path[depth - 1]
            cause = -1
            while next_pair[m] < offsets[m + 1]:
                pair = next_pair[m]
                bit = next_bit[m]
                if bit == 64:
                    next_bit[m] = 0
                    next_pair[m] += 1
                    continue
                next_bit[m] += 1
                if (masks[pair] >> np.int64(bit)) & _ONE:
                    cause = words[pair] * 64 + bit
                    break
            if cause >= 0:
                if found_at[cause] < 0:
                    found_at[cause] = low[cause] = clock
                    clock += 1
                    next_pair[cause] = offsets[cause]
                    stack[stacked] = cause
                    stacked += 1
                    on_stack[cause] = True
                    path[depth] = cause
                    depth += 1
                elif on_stack[cause] and found_at[cause] < low[m]:
                    low[m] = found_at[cause]
                continue
            depth -= 1
            if depth > 0 and low[m] < low[path[depth - 1]]:
                low[path[depth - 1]] = low[m]
            if low[m] == found_at[m]:
                member = -1
                while member != m:
                    stacked -= 1
                    member = stack[stacked]
                    on_stack[member] = False
                    component[member] = count
                    order[placed] = member
                    placed += 1
                count += 1
    return count


@_compile  # type: ignore[untyped-decorator,unused-ignore]
def past_vectors(
    offsets: Any, words: Any, masks: Any, order: Any, component: Any, origin: Any, number: Any,
    vectors: Any,
) -> None:  # fmt: skip
    """vectors[m][q] = how many publications of origin q precede m: its past is a prefix of each."""
    origins = vectors.shape[1]
    place = 0
    while place < len(order):
        end = place + 1
        while end < len(order) and component[order[end]] == component[order[place]]:
            end += 1
        past = vectors[order[place]]
        for at in range(place, end):
            m = order[at]
            if end - place > 1 and number[m] > past[origin[m]]:
                past[origin[m]] = number[m]
            for pair in range(offsets[m], offsets[m + 1]):
                mask = masks[pair]
                bit = 63
                while bit >= 0:
                    if (mask >> np.int64(bit)) & _ONE:
                        cause = words[pair] * 64 + bit
                        if past[origin[cause]] < number[cause]:
                            past[origin[cause]] = number[cause]
                            for q in range(origins):
                                if vectors[cause, q] > past[q]:
                                    past[q] = vectors[cause, q]
                    bit -= 1
        for at in range(place + 1, end):
            vectors[order[at]] = past
        place = end


@_compile  # type: ignore[untyped-decorator,unused-ignore]
def requirement_lists(
    offsets: Any, words: Any, masks: Any, new_offsets: Any, new_words: Any, new_masks: Any,
    scratch: Any,
) -> int:  # fmt: skip
    """Direct causes without those that another direct cause implies, for one group of everybody.

    Enough there: whoever delivers m is owed x as well, and x requires z; so the first delivery of a
    log that breaks anything breaks a requirement of its own.
    """
    pairs = 0
    for m in range(len(offsets) - 1):
        for pair in range(offsets[m], offsets[m + 1]):
            scratch[words[pair]] = masks[pair]
        tries = 0
        place = offsets[m + 1] - 1  # words ascend: begin with the latest causes
        while place >= offsets[m] and tries < _TRIES:
            word = words[place]
            bit = 63
            while bit >= 0 and tries < _TRIES:
                if (scratch[word] >> np.int64(bit)) & _ONE:
                    tries += 1
                    x = word * 64 + bit
                    for pair in range(offsets[x], offsets[x + 1]):
                        implied = masks[pair]
                        if words[pair] == word:
                            implied &= (_ONE << np.int64(bit)) - _ONE
                        if words[pair] <= word:
                            scratch[words[pair]] &= ~implied
                bit -= 1
            place -= 1
        for pair in range(offsets[m], offsets[m + 1]):
            if scratch[words[pair]] != 0:
                new_words[pairs] = words[pair]
                new_masks[pairs] = scratch[words[pair]]
                pairs += 1
            scratch[words[pair]] = 0
        new_offsets[m + 1] = pairs
    return pairs


@_compile  # type: ignore[untyped-decorator,unused-ignore]
def _next_outstanding(
    q: int, row: int, upto: int, next_number: Any, base: Any, rank: Any, got: Any, exempt: Any
) -> int:
    """The first publication of `q`, if not beyond `upto`, that is owed and not there yet."""
    while next_number[q] <= upto:
        z = rank[base[q] + next_number[q] - 1]
        if got[z] >= row and not exempt[z]:
            return int(z)
        next_number[q] += 1
    return -1


@_compile  # type: ignore[untyped-decorator,unused-ignore]
def early_deliveries_by_vector(
    kind: Any, dense: Any, first: int, end: int, got: Any, delivered: Any, exempt: Any,
    cyclic: Any, vectors: Any, origin: Any, number: Any, base: Any, rank: Any,
    found: Any, counts: Any,
) -> None:  # fmt: skip
    """Exact for any groups: deliveries in rows first..end-1 that come before a cause they follow.

    Per origin a pointer to its first publication that is owed here and not there yet: m is in
    order iff no pointer lies within m's past. `exempt` says what is not owed in these rows.
    `found[0]`, `found[1]`: (row, cause) of what breaks FIFO and causal order, `counts` how many.
    """
    next_number = np.ones(len(base), np.int64)
    for row in range(first, end):
        m = dense[row]
        if kind[row] != DELIVER or m < 0 or delivered[m] != row or cyclic[m]:
            continue
        q = origin[m]
        cause = -1
        if next_number[q] < number[m]:
            cause = _next_outstanding(q, row, number[m] - 1, next_number, base, rank, got, exempt)
            _note(0, row, cause, found, counts)
        for q in range(vectors.shape[1]):
            if cause < 0 and next_number[q] <= vectors[m, q]:
                cause = _next_outstanding(
                    q, row, vectors[m, q], next_number, base, rank, got, exempt
                )
        _note(1, row, cause, found, counts)


@_compile  # type: ignore[untyped-decorator,unused-ignore]
def early_deliveries_by_list(
    kind: Any, dense: Any, offsets: Any, words: Any, masks: Any,
    origin: Any, number: Any, base: Any, rank: Any, has: Any, seen: Any, found: Any, counts: Any,
) -> None:  # fmt: skip
    """For one group of everybody: a whole log against the lists. `has` and `seen` begin as 0."""
    next_number = np.ones(len(base), np.int64)
    for row in range(len(kind)):
        m = dense[row]
        if m < 0 or (kind[row] != DELIVER and kind[row] != PUBLISH):
            continue
        word = m >> 6
        bit = _ONE << np.int64(m & 63)
        if kind[row] == DELIVER and seen[word] & bit == 0:
            seen[word] |= bit
            q = origin[m]
            while next_number[q] < number[m]:
                z = rank[base[q] + next_number[q] - 1]
                if has[z >> 6] & (_ONE << np.int64(z & 63)) == 0:
                    _note(0, row, z, found, counts)
                    break
                next_number[q] += 1
            for pair in range(offsets[m], offsets[m + 1]):
                missing = masks[pair] & ~has[words[pair]]
                if missing != 0:
                    lowest = 0
                    while (missing >> np.int64(lowest)) & _ONE == 0:
                        lowest += 1
                    _note(1, row, words[pair] * 64 + lowest, found, counts)
                    break
        has[word] |= bit


@_compile  # type: ignore[untyped-decorator,unused-ignore]
def _note(which: int, row: int, cause: int, found: Any, counts: Any) -> None:
    if cause >= 0:
        if counts[which] < found.shape[1]:
            found[which, counts[which], 0] = row
            found[which, counts[which], 1] = cause
        counts[which] += 1
