"""A published checker of causal order, kept as a baseline; it is not enough.

Algorithm 16 of P. Dias, "Tree-based Decentralized and Robust Causal Dissemination", 2020, remembers
for each broadcast what its origin delivered since its previous one, and asks of every log that all
of it stands before the broadcast. It trusts every node to deliver everything, its own messages at
once, so it misses what was published and not delivered, and what runs through other groups; it
takes a message that was not addressed to a node for one that is missing there.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from causalcast.pipeline.kernels.compiled import compiled
from causalcast.trace.run_folder import Run

ORIGIN_SHIFT = 32
Deliveries = dict[int, npt.NDArray[np.int64]]
Pairs = list[tuple[int, int]]


def deliveries_of(run: Run) -> Deliveries:
    """The input of the algorithm: per node the messages it delivered, in order."""
    logs: dict[int, list[int]] = {node: [] for node in run.nodes["node"].to_pylist()}
    columns = [run.events[name].to_pylist() for name in ("node", "kind", "message")]
    for node, kind, message in zip(*columns, strict=True):
        if kind == "deliver":
            logs[node].append(message)
    return {node: np.array(log, np.int64) for node, log in logs.items()}


def says_in_order(logs: Deliveries) -> bool:
    """Algorithm 16 as printed: true if it sees no violation."""
    pairs = _histories(logs)  # lines 1 to 9
    return not _any_inverted(*_as_arrays(pairs), *_joined(logs))  # lines 10 to 18


def says_in_order_for_members(logs: Deliveries, run: Run) -> bool:
    """The same rule, asked only of nodes that are members of both messages' groups."""
    groups: dict[int, int] = {}
    columns = [run.events[name].to_pylist() for name in ("kind", "message", "group")]
    for kind, message, group in zip(*columns, strict=True):
        if kind == "publish":
            groups[message] = group
    members = set(zip(run.members["group"].to_pylist(), run.members["node"].to_pylist(),
                      strict=True))  # fmt: skip
    for effect, cause in _histories(logs):
        for node, log in logs.items():
            owed = {(groups.get(m, -1), node) for m in (effect, cause)}
            if owed <= members:
                pair = _as_arrays([(effect, cause)])
                if _any_inverted(*pair, *_joined({node: log})):
                    return False
    return True


def _histories(logs: Deliveries) -> Pairs:
    """(m1, m2) for every m2 in the causal history of m1: lines 1 to 9."""
    pairs: Pairs = []
    for node, log in logs.items():
        since_last: list[int] = []
        for message in log.tolist():
            if message >> ORIGIN_SHIFT == node:
                pairs += [(message, earlier) for earlier in dict.fromkeys(since_last)]
                since_last = []
            since_last.append(message)
    return pairs


def _as_arrays(pairs: Sequence[tuple[int, int]]) -> tuple[npt.NDArray[np.int64], ...]:
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return table[:, 0].copy(), table[:, 1].copy()


def _joined(logs: Deliveries) -> tuple[npt.NDArray[np.int64], ...]:
    nodes = np.array(list(logs), np.int64)
    ends = np.cumsum([0, *(len(log) for log in logs.values())]).astype(np.int64)
    return nodes, ends, np.concatenate([np.zeros(0, np.int64), *logs.values()])


@compiled  # type: ignore[untyped-decorator,unused-ignore]
def _any_inverted(
    effects: npt.NDArray[np.int64], causes: npt.NDArray[np.int64],
    nodes: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], messages: npt.NDArray[np.int64],
) -> bool:  # fmt: skip
    """Lines 10 to 17: whether some log has the effect before, or without, the cause."""
    for pair in range(len(effects)):
        for log in range(len(nodes)):
            if nodes[log] == effects[pair] >> ORIGIN_SHIFT:
                continue
            for row in range(ends[log], ends[log + 1]):
                if messages[row] == causes[pair]:
                    break
                if messages[row] == effects[pair]:
                    return True
    return False
