"""A run that is still being written: logs as lists of rows that tests can move about.

Memberships point at rows, not at positions, so that a row can be moved without breaking them.
"""

from dataclasses import dataclass, field

import pyarrow as pa

from causalcast.trace.run_folder import Run
from causalcast.trace.run_header import RunHeader
from causalcast.trace.schema import EVENTS, GROUPS, KIND_CODE, KINDS, MEMBERS, NODES


@dataclass(eq=False)
class DraftRow:
    """One event; `eq=False` because two equal rows are still two rows."""

    kind: str
    message: int | None = None
    group: int | None = None
    at_us: int = 0


@dataclass
class DraftMembership:
    """From the row `joined` (none: from the start) to the row `left` (none: to the end)."""

    group: int
    node: int
    joined: DraftRow | None = None
    left: DraftRow | None = None


@dataclass
class DraftRun:
    """Logs and memberships of a small run."""

    logs: dict[int, list[DraftRow]] = field(default_factory=dict)
    memberships: list[DraftMembership] = field(default_factory=list)
    header: RunHeader = field(default_factory=lambda: RunHeader("draft", "simulated"))

    def found(self, group: int, *nodes: int) -> None:
        """Make `nodes` members of `group` from the start."""
        for node in nodes:
            self.logs.setdefault(node, [])
            self.memberships.append(DraftMembership(group, node))

    def add(
        self, node: int, kind: str, message: int | None = None, group: int | None = None
    ) -> DraftRow:
        """Append a row to the log of `node`; time counts the rows of the whole run."""
        row = DraftRow(kind, message, group, 10 * sum(map(len, self.logs.values())))
        self.logs.setdefault(node, []).append(row)
        return row

    def join(self, node: int, group: int) -> None:
        """`node` becomes a late member of `group`."""
        row = self.add(node, "join", None, group)
        self.memberships.append(DraftMembership(group, node, joined=row))

    def leave(self, node: int, group: int) -> None:
        """The current membership of `node` in `group` ends."""
        row = self.add(node, "leave", None, group)
        current = [m for m in self.memberships if (m.group, m.node) == (group, node)]
        current[-1].left = row

    def run(self) -> Run:
        """The run as the rest of the package sees it."""
        nodes = sorted(self.logs)
        groups = sorted({m.group for m in self.memberships} | self._groups_published_to())
        place = {id(row): pos for log in self.logs.values() for pos, row in enumerate(log)}
        members = [
            (m.group, m.node, place[id(m.joined)] if m.joined else 0, m.left and place[id(m.left)])
            for m in self.memberships
        ]
        return Run(
            self.header,
            pa.table([nodes, [f"n{n}" for n in nodes], [None] * len(nodes), [None] * len(nodes)],
                     schema=NODES),
            pa.table([groups, [f"g{g}" for g in groups]], schema=GROUPS),
            pa.table([list(column) for column in zip(*members, strict=True)] or [[]] * 4,
                     schema=MEMBERS),
            self._events(nodes),
        )  # fmt: skip

    def _groups_published_to(self) -> set[int]:
        return {r.group for log in self.logs.values() for r in log if r.group is not None}

    def _events(self, nodes: list[int]) -> pa.Table:
        rows = [(node, pos, row) for node in nodes for pos, row in enumerate(self.logs[node])]
        codes = pa.array([KIND_CODE[row.kind] for _, _, row in rows], pa.int32())
        nothing = [None] * len(rows)
        columns = {
            "node": [node for node, _, _ in rows],
            "pos": [pos for _, pos, _ in rows],
            "at_us": [row.at_us for _, _, row in rows],
            "message": [row.message for _, _, row in rows],
            "group": [row.group for _, _, row in rows],
        }
        arrays = [pa.array(columns.get(f.name, nothing), f.type) for f in EVENTS]
        arrays[EVENTS.names.index("kind")] = pa.DictionaryArray.from_arrays(codes, pa.array(KINDS))
        return pa.Table.from_arrays(arrays, schema=EVENTS)


def message_id(origin: int, number: int) -> int:
    """The id of the `number`th publication of `origin`, counted from 1."""
    return origin << 32 | number
