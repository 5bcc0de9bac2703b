"""A run as plain lists: what the judge reads, and what a simulation in memory leaves.

No pyarrow here, so that both work where there is none, as in a browser.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from causalcast.trace.kinds import KINDS, NONE
from causalcast.trace.recorder import RecordedRow
from causalcast.trace.run_header import RunHeader

if TYPE_CHECKING:
    from causalcast.trace.run_folder import Run


class PlainEvent(NamedTuple):
    """What a judge needs to know of one row."""

    node: int
    pos: int
    kind: str
    message: int | None
    group: int | None
    at_us: int
    attempt: int | None = None
    tied: bool | None = None
    key: str | None = None
    causes: list[int] | None = None


class PlainMember(NamedTuple):
    """`node` belongs to `group` from one position of its log to another."""

    group: int
    node: int
    from_pos: int
    to_pos: int | None
    share: str | None = None


@dataclass
class PlainRun:
    """A run in memory; the events of each node are in the order of its log."""

    header: RunHeader
    nodes: list[int]
    members: list[PlainMember]
    events: list[PlainEvent]


def plain_run(run: "Run | PlainRun") -> PlainRun:
    """The same run as plain lists."""
    if isinstance(run, PlainRun):
        return run
    return PlainRun(
        run.header,
        run.nodes["node"].to_pylist(),
        [PlainMember(*row) for row in _rows(run.members, PlainMember._fields)],
        [PlainEvent(*row) for row in _rows(run.events, PlainEvent._fields)],
    )


def _rows(table: Any, names: tuple[str, ...]) -> Iterable[tuple[Any, ...]]:
    nothing = [None] * table.num_rows
    columns = [table[name].to_pylist() if name in table.column_names else nothing for name in names]
    return zip(*columns, strict=True)


def plain_events(rows: Iterable[RecordedRow]) -> list[PlainEvent]:
    """Rows that a recorder collected, each with its place in the log of its node."""
    lengths: dict[int, int] = {}
    events: list[PlainEvent] = []
    for node, at_us, kind, message, group, *_ in rows:
        pos = lengths.get(node, 0)
        lengths[node] = pos + 1
        events.append(
            PlainEvent(
                node,
                pos,
                KINDS[kind],
                None if message == NONE else message,
                None if group == NONE else group,
                at_us,
            )
        )
    return events


def members_of(
    founders: Iterable[tuple[int, int]], changes: Iterable[tuple[int, int, str, int]]
) -> list[PlainMember]:
    """Founders (group, node) from the start, others by `changes`: node, pos, kind, group."""
    since = dict.fromkeys(founders, 0)
    found: list[PlainMember] = []
    for node, pos, kind, group in changes:
        if kind == "join":
            since[group, node] = pos
        elif (group, node) in since:
            found.append(PlainMember(group, node, since.pop((group, node)), pos))
    found += [PlainMember(group, node, pos, None) for (group, node), pos in since.items()]
    return sorted(found, key=lambda member: member[:3])
