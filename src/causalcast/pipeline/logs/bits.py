"""Sets of publications as 64-bit words, and back to one boolean each."""

import numpy as np

from causalcast.pipeline.logs.logs import Bools, Ints

WORD = 64


def words_for(publications: int) -> int:
    """How many words hold a set of so many publications."""
    return publications // WORD + 1


def packed(members: Bools) -> Ints:
    """A set given as one boolean per publication, as words."""
    padded = np.zeros(words_for(len(members)) * WORD, np.bool_)
    padded[: len(members)] = members
    words: Ints = np.packbits(padded, bitorder="little").view(np.int64)
    return words


def unpacked(words: Ints, publications: int) -> Bools:
    """A set given as words, as one boolean per publication."""
    bits = np.unpackbits(words.view(np.uint8), bitorder="little")
    return bits[:publications].astype(np.bool_)
