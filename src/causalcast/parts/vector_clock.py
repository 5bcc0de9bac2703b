"""Vector clocks: how many publications of each origin are known. Absent means none.

A clock is a plain `dict` from node to count, so that it can be put on the wire as it is.
"""

from causalcast.core.ids import NodeId

VectorClock = dict[NodeId, int]


def precedes(earlier: VectorClock, later: VectorClock) -> bool:
    """Whether everything in `earlier` is in `later`, and something more."""
    return covers(later, earlier) and not covers(earlier, later)


def covers(clock: VectorClock, other: VectorClock) -> bool:
    """Whether everything in `other` is in `clock`."""
    return all(count <= clock.get(node, 0) for node, count in other.items())


def concurrent(one: VectorClock, other: VectorClock) -> bool:
    """Whether neither knows all of the other."""
    return not covers(one, other) and not covers(other, one)


def merge(clock: VectorClock, other: VectorClock) -> None:
    """Let `clock` know everything in `other` too."""
    for node, count in other.items():
        if count > clock.get(node, 0):
            clock[node] = count


def advance(clock: VectorClock, node: NodeId) -> int:
    """Count one more publication of `node`; its new number comes back."""
    number = clock.get(node, 0) + 1
    clock[node] = number
    return number
