"""Who belongs to which group, from which of its rows to which."""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from causalcast.errors import TraceError
from causalcast.pipeline.kernels.kinds import JOIN
from causalcast.pipeline.logs.logs import NONE

TO_THE_END = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Membership:
    """A node belongs to `group` while `start <= pos < end`; `share` is the name under which each
    message goes to one of several, none if it gets all."""

    group: int
    start: int
    end: int
    share: str | None = None


@dataclass
class Memberships:
    """The memberships of every node of a run, and the nodes themselves."""

    by_node: dict[int, list[Membership]] = field(default_factory=dict)

    @property
    def has_shares(self) -> bool:
        """Whether any group is shared by some."""
        return any(m.share is not None for of_node in self.by_node.values() for m in of_node)

    def of(self, node: int) -> list[Membership]:
        """The memberships of `node`; a node that nobody listed is an error."""
        if node not in self.by_node:
            raise TraceError(f"node {node} has a log but does not stand in nodes.parquet")
        return self.by_node[node]


def read_memberships(nodes: pa.Table, members: pa.Table) -> Memberships:
    """Memberships from the two small tables of a run; overlapping ones are refused."""
    result = Memberships({node: [] for node in nodes["node"].to_pylist()})
    columns = [members[name].to_pylist() for name in ("group", "node", "from_pos", "to_pos")]
    has_shares = "share" in members.column_names
    columns.append(members["share"].to_pylist() if has_shares else [None] * members.num_rows)
    for group, node, start, end, share in zip(*columns, strict=True):
        if node not in result.by_node:
            raise TraceError(f"members.parquet: node {node} does not stand in nodes.parquet")
        new = Membership(group, start, TO_THE_END if end is None else end, share)
        for other in result.by_node[node]:
            if other.group == group and other.start < new.end and new.start < other.end:
                raise TraceError(
                    f"members.parquet: two memberships of node {node} in group {group} overlap"
                )
        result.by_node[node].append(new)
    return result


def is_late(membership: Membership, kinds: np.ndarray, groups: np.ndarray) -> bool:
    """Whether the member came during the run: not from row 0, or that row is its `join`."""
    start = membership.start
    if start > 0:
        return True
    joined = len(kinds) > 0 and kinds[0] == JOIN
    return bool(joined and groups[0] in (membership.group, NONE))


def always_there(memberships: list[Membership], kinds: np.ndarray, groups: np.ndarray) -> bool:
    """Whether all memberships of a log last from its start to its end, and bring everything."""
    return all(
        m.start == 0 and m.end == TO_THE_END and m.share is None and not is_late(m, kinds, groups)
        for m in memberships
    )
