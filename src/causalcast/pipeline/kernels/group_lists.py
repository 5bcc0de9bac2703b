"""Requirement lists for overlapping groups: what to test when a member delivers m.

The past of m restricted to one origin is a prefix of what it published, so a vector of numbers
holds it. Vectors of messages that no later publication names as a direct cause are forgotten, and
their place is used again.
"""

from typing import Any

import numpy as np

from causalcast.pipeline.kernels.compiled import compiled

_ONE = np.int64(1)
_BYTE = np.int64(0xFF)
_HIGHEST_BIT = np.array([max(byte.bit_length() - 1, 0) for byte in range(256)], np.int64)


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def last_uses(offsets: Any, words: Any, masks: Any, order: Any, last_use: Any) -> None:
    """last_use[x] = the last place in `order` that names x as a direct cause."""
    for place in range(len(order)):
        last_use[order[place]] = place
        for pair in range(offsets[order[place]], offsets[order[place] + 1]):
            first = np.int64(words[pair]) * 64
            for byte in range(0, 64, 8):  # most bytes are empty
                bits = (masks[pair] >> np.int64(byte)) & _BYTE
                while bits != 0:
                    bit = _HIGHEST_BIT[bits]
                    bits ^= _ONE << bit
                    last_use[first + byte + bit] = place


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def last_uses_of_words(offsets: Any, words: Any, order: Any, last_use: Any) -> None:
    """The same as if whole words were named: later, and found in a tenth of the time."""
    of_word = np.zeros(len(order) // 64 + 1, np.int64)
    for place in range(len(order)):
        m = order[place]
        of_word[m >> 6] = place
        for pair in range(offsets[m], offsets[m + 1]):
            of_word[words[pair]] = place
    for m in range(len(order)):
        last_use[m] = of_word[m >> 6]


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def alive_at_once(last_use: Any) -> int:
    """How many are alive at once if each place of an order adds one, and those end whose last use
    it is."""
    ending = np.zeros(len(last_use), np.int64)
    for m in range(len(last_use)):
        ending[last_use[m]] += 1
    alive = most = 0
    for place in range(len(last_use)):
        alive += 1
        most = max(most, alive)
        alive -= ending[place]
    return most


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def _raise_to(vector: Any, other: Any) -> None:
    for q in range(len(vector)):
        vector[q] = max(vector[q], other[q])


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def open_origins(
    offsets: Any, words: Any, masks: Any, order: Any, last_use: Any, by_last_use: Any,
    origin: Any, number: Any, group: Any, vectors: Any, slot: Any, free: Any, counters: Any,
    first: int, end: int, opens: Any, open_origin: Any, open_from: Any, open_to: Any,
) -> None:  # fmt: skip
    """Per m at a place from `first` to `end`, the origins of which something precedes m that no
    direct cause in m's own group implies: its numbers, after `open_from` and up to `open_to`.

    Places must be walked in order: `vectors`, `slot`, `free` and `counters` (free slots, messages
    forgotten) go on from the places before. `opens` gets how many origins each place has.
    """
    origins = vectors.shape[1]
    free_count, forgotten = counters
    implied = np.zeros(origins, np.int32)
    same_group = np.empty(len(order) + 1, np.int64)
    count = 0
    for place in range(first, end):
        m = order[place]
        free_count -= 1
        slot[m] = free[free_count]
        past = vectors[slot[m]]
        past[:] = 0
        implied[:] = 0
        same = 0
        for pair in range(offsets[m + 1] - 1, offsets[m] - 1, -1):  # the latest causes first
            first_of_word = np.int64(words[pair]) * 64
            for byte in range(56, -1, -8):
                bits = (masks[pair] >> np.int64(byte)) & _BYTE
                while bits != 0:
                    bit = _HIGHEST_BIT[bits]
                    bits ^= _ONE << bit
                    x = first_of_word + byte + bit
                    if past[origin[x]] < number[x]:
                        _raise_to(past, vectors[slot[x]])
                        past[origin[x]] = number[x]
                    same_group[same] = x  # without a branch: most would be guessed wrong
                    same += group[x] == group[m]
        for at in range(same):
            x = same_group[at]
            if implied[origin[x]] < number[x]:
                _raise_to(implied, vectors[slot[x]])
        before = count
        for q in range(origins):  # again without a branch
            open_origin[count] = q
            count += past[q] > implied[q]
        for at in range(before, count):
            open_from[at] = implied[open_origin[at]]
            open_to[at] = past[open_origin[at]]
        opens[place - first] = count - before
        while forgotten < len(order) and last_use[by_last_use[forgotten]] == place:
            free[free_count] = slot[by_last_use[forgotten]]
            free_count += 1
            forgotten += 1
    counters[0] = free_count
    counters[1] = forgotten


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def requirement_lists(
    order: Any, kind: Any, base: Any, published: Any, may_share: Any, groups_of: Any,
    scratch: Any, touched: Any, opens: Any, open_origin: Any, open_from: Any, open_to: Any,
    sizes: Any,
) -> Any:  # fmt: skip
    """Per m of `order`, for each open origin q and each group h that shares a member with m's
    group: the last open publication of q to h.

    Enough for whoever is in all its groups from start to end: it is owed the direct causes in m's
    group, and they require what lies in their own past; of one origin and one group the last
    implies the earlier ones. `may_share` says which kinds of groups may share a member, `groups_of`
    to how many groups an origin publishes. Of the n-th publication of q, at `base[q] + n - 1`,
    `published` has the dense number, the kind of its group, and the number of q's next one to the
    same group. `scratch` is all zero before and after. Lists come in the order of `order`: `sizes`,
    words and masks.
    """
    new_words = np.empty(16 * len(order) + len(touched), np.int32)
    new_masks = np.empty(16 * len(order) + len(touched), np.int64)
    required = np.empty(len(published) + 1, np.int64)
    pairs = 0
    first = 0
    for place in range(len(order)):
        shares = may_share[kind[order[place]]]
        requires = 0
        for at_open in range(first, first + opens[place]):
            q = open_origin[at_open]
            last = open_to[at_open]
            at = base[q] + last - 1
            end = base[q] + open_from[at_open]
            groups_left = groups_of[q]
            while at >= end and groups_left > 0:
                if published[at, 2] > last:
                    groups_left -= 1
                    required[requires] = published[at, 0]
                    requires += shares[published[at, 1]]
                at -= 1
        first += opens[place]
        open_words = 0
        for at in range(requires):
            z = required[at]
            if scratch[z >> 6] == 0:
                touched[open_words] = z >> 6
                open_words += 1
            scratch[z >> 6] |= _ONE << (z & 63)
        if pairs + open_words > len(new_words):
            new_words = np.concatenate((new_words, np.empty_like(new_words)))
            new_masks = np.concatenate((new_masks, np.empty_like(new_masks)))
        sizes[place] = open_words
        for at in range(open_words):
            new_words[pairs] = touched[at]
            new_masks[pairs] = scratch[touched[at]]
            scratch[touched[at]] = 0
            pairs += 1
    return new_words[:pairs].copy(), new_masks[:pairs].copy()
