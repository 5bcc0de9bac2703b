"""The inner loops: compiled by numba where it is installed, the same loops in plain Python if not.

    cause_tables   direct causes of publications, cycles, lists made shorter
    group_lists    requirement lists for overlapping groups
    scan           one walk over a log: is anything wrong with it?
    close_look     the same log in detail: first rows, order, who follows whom

Sets of publications are bits in 64-bit words. Words are signed: mixing unsigned words with other
integers would turn them into floats, and no operation here cares about the sign. A kernel calls
only kernels of its own file, because numba's cache on disk does not notice changes in others.
"""
