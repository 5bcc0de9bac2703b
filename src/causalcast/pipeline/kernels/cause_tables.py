"""Direct causes of publications, as words and masks; cycles among them; lists made shorter."""

from typing import Any

import numpy as np

from causalcast.pipeline.kernels.compiled import compiled
from causalcast.pipeline.kernels.kinds import DELIVER, PUBLISH

_ONE = np.int64(1)
_TRIES = 12  # causes that are asked for what they imply: fewer give longer lists, not wrong ones
_INSERTED_UP_TO = 64


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def _sort(values: Any, size: int) -> None:
    """Sort the first `size` values: by insertion while they are few and nearly in order."""
    if size > _INSERTED_UP_TO:
        values[:size].sort()
        return
    for i in range(1, size):
        value = values[i]
        j = i
        while j > 0 and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value


@compiled  # type: ignore[untyped-decorator,unused-ignore]
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


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def any_cause_is_later(offsets: Any, words: Any, masks: Any) -> bool:
    """Whether a direct cause has a higher number than its effect (clocks that disagree)."""
    for m in range(len(offsets) - 1):
        for pair in range(offsets[m], offsets[m + 1]):
            if words[pair] > m >> 6:
                return True
            if words[pair] == m >> 6 and masks[pair] >> np.int64(m & 63) != 0:
                return True
    return False


@compiled  # type: ignore[untyped-decorator,unused-ignore]
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


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def shortened(
    offsets: Any, words: Any, masks: Any, new_offsets: Any, new_words: Any, new_masks: Any,
    scratch: Any,
) -> int:  # fmt: skip
    """Direct causes without those that another direct cause implies; what precedes what stays.

    Only for tables without cycles: on a cycle two effects could leave a cause to each other. Words
    of each list ascend. `scratch` is all zero before and after.
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
