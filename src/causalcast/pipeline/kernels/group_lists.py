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
def last_uses(offsets: Any, words: Any, masks: Any, order: Any, last_use: Any) -> int:
    """last_use[x] = the last place in `order` that names x as a direct cause.

    Returns how many vectors are alive at once.
    """
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
    ending = np.zeros(len(order), np.int64)
    for m in range(len(order)):
        ending[last_use[m]] += 1
    alive = most = 0
    for place in range(len(order)):
        alive += 1
        most = max(most, alive)
        alive -= ending[place]
    return most


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def _raise_to(vector: Any, other: Any) -> None:
    for q in range(len(vector)):
        vector[q] = max(vector[q], other[q])


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def requirement_lists(
    offsets: Any, words: Any, masks: Any, order: Any, last_use: Any, origin: Any, number: Any,
    group: Any, kind: Any, base: Any, rank: Any, kind_at: Any, next_at: Any, may_share: Any,
    groups_of: Any, vectors: Any, sizes: Any,
) -> Any:  # fmt: skip
    """Per m, for each origin q and each group h that shares a member with m's group: the last
    publication of q to h that precedes m, unless a direct cause in m's own group implies it.

    Enough for whoever is in all its groups from start to end: it is owed those direct causes, and
    they require what lies in their own past; of one origin and one group the last implies the
    earlier ones. `may_share` says which kinds of groups may share a member, `groups_of` to how many
    groups an origin publishes. Of the n-th publication of q, at `base[q] + n - 1`: `rank` is its
    dense number, `kind_at` the kind of its group, `next_at` the number of q's next one to the same
    group. Lists come in the order of `order`: `sizes`, words and masks.
    """
    size, origins = len(order), vectors.shape[1]
    slot = np.full(size, -1, np.int64)
    free = np.arange(vectors.shape[0])
    free_count = len(free)
    # Who gives back its slot when: a list per place in `order`, linked through `next_ending`.
    first_ending = np.full(size, -1, np.int64)
    next_ending = np.full(size, -1, np.int64)
    implied = np.zeros(origins, np.int32)
    open_origins = np.zeros(origins + 1, np.int64)
    required = np.zeros(size + 1, np.int64)
    scratch = np.zeros(size // 64 + 1, np.int64)
    touched = np.zeros(size // 64 + 1, np.int64)
    new_words = np.empty(16 * size + 64, np.int32)
    new_masks = np.empty(16 * size + 64, np.int64)
    pairs = 0
    for place in range(size):
        m = order[place]
        free_count -= 1
        slot[m] = free[free_count]
        next_ending[m] = first_ending[last_use[m]]
        first_ending[last_use[m]] = m
        past = vectors[slot[m]]
        past[:] = 0
        implied[:] = 0
        for pair in range(offsets[m + 1] - 1, offsets[m] - 1, -1):  # the latest causes first
            first = np.int64(words[pair]) * 64
            for byte in range(56, -1, -8):
                bits = (masks[pair] >> np.int64(byte)) & _BYTE
                while bits != 0:
                    bit = _HIGHEST_BIT[bits]
                    bits ^= _ONE << bit
                    x = first + byte + bit
                    q = origin[x]
                    if past[q] < number[x]:
                        _raise_to(past, vectors[slot[x]])
                        past[q] = number[x]
                    if group[x] == group[m] and implied[q] < number[x]:
                        _raise_to(implied, vectors[slot[x]])
        # Chosen without a branch, here and below: half of them would be guessed wrong.
        count = 0
        for q in range(origins):
            open_origins[count] = q
            count += past[q] > implied[q]
        shares = may_share[kind[m]]
        requires = 0
        for place_of_q in range(count):
            q = open_origins[place_of_q]
            at = base[q] + past[q] - 1
            end = base[q] + implied[q]
            groups_left = groups_of[q]
            while at >= end and groups_left > 0:
                if next_at[at] > past[q]:
                    groups_left -= 1
                    required[requires] = rank[at]
                    requires += shares[kind_at[at]]
                at -= 1
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
        m = first_ending[place]
        while m >= 0:
            free[free_count] = slot[m]
            free_count += 1
            m = next_ending[m]
    return new_words[:pairs], new_masks[:pairs]
