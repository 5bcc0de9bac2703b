"""A node's log in slices of time, each of which fits a worker's memory; slices in files."""

from bisect import bisect_right
from typing import Any

import numpy as np

from causalcast.trace.run_folder import ROWS_PER_FILE

ROWS_PER_SLICE = 200_000
Numbers = Any


class Slices:
    """Where nodes' logs are cut. Slices are numbered through; each file has whole nodes."""

    def __init__(self, rows_of: dict[int, int], times_of: dict[int, list[int]]) -> None:
        self.first: list[int] = []
        self.cuts: list[list[int]] = []
        self.files: list[int] = []
        """Of each slice."""
        file = size = slices = 0
        for node in range(len(rows_of)):
            if size and size + rows_of[node] > ROWS_PER_FILE:
                file, size = file + 1, 0
            size += rows_of[node]
            cuts = _cuts(sorted(times_of.get(node, [])), rows_of[node])
            self.first.append(slices)
            self.cuts.append(cuts)
            self.files += [file] * (len(cuts) + 1)
            slices += len(cuts) + 1
        self.file_count = file + 1

    def of(self, node: Numbers, at_ns: Numbers) -> Numbers:
        """The slice of each row. What has one time is in one slice."""
        found = np.array(self.first)[node]
        for number, cuts in enumerate(self.cuts):
            if cuts:
                here = node == number
                found[here] += np.searchsorted(np.array(cuts), at_ns[here], side="right")
        return found

    def node_of(self, piece: int) -> int:
        """Whose slice it is."""
        return bisect_right(self.first, piece) - 1


def _cuts(times: list[int], rows: int) -> list[int]:
    pieces = -(-rows // ROWS_PER_SLICE)
    return sorted({times[len(times) * n // pieces] for n in range(1, pieces)} if times else set())
