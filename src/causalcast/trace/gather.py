"""Makes a run from the logs of real nodes, of one host or of many."""

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from causalcast.core.ids import MessageId, number_of, origin_of
from causalcast.errors import TraceError
from causalcast.trace.kinds import KIND_CODE, NONE
from causalcast.trace.log_rows import Row
from causalcast.trace.node_log import SUFFIX, LogContent, NodeLogHeader, log_of, read_log
from causalcast.trace.recorder import Recorder
from causalcast.trace.run_folder import Run, write_run
from causalcast.trace.run_header import RunHeader
from causalcast.trace.schema import GROUPS, MEMBERS, NODES

_CRASH: Final = KIND_CODE["crash"]
_JOIN: Final = KIND_CODE["join"]
_LEAVE: Final = KIND_CODE["leave"]


def gather(folders: Sequence[Path], out: Path) -> Run:
    """Make the run folder `out` from all node logs in `folders`."""
    logs = [read_log(path) for path in _find_logs(folders)]
    logs.sort(key=lambda log: log.header.node)
    _check_together(logs)
    floor = floor_of(logs)
    for log in logs:
        log.rows = rows_above(log.rows, floor)
    run = _assemble(logs)
    write_run(out, run)
    return run


def _find_logs(folders: Sequence[Path]) -> list[Path]:
    found: dict[Path, None] = {}
    for folder in folders:
        inside = [folder] if folder.is_file() else sorted(folder.rglob(f"*{SUFFIX}"))
        if not inside:
            raise TraceError(f"{folder}: no node log (*{SUFFIX}) in there")
        found.update((log_of(path.resolve()), None) for path in inside)
    return list(found)


def floor_of(logs: Sequence[LogContent]) -> dict[int, int]:
    """Up to which number of each origin rows may be missing, because logs let old pieces go.

    Whatever a log says of such a message is left out of the run, at every node: what is said of the
    others can be judged as if they were all there are.
    """
    floor: dict[int, int] = {}
    for log in logs:
        if log.header.lost:
            raise TraceError(
                f"{log.path}: rows of node {log.header.node} were lost before the log begins (its "
                "trace was damaged, or taken away), so its run cannot be judged"
            )
        for origin, number in log.header.highest.items():
            floor[origin] = max(number, floor.get(origin, 0))
    return floor


def rows_above(rows: list[Row], floor: dict[int, int]) -> list[Row]:
    """The rows that are of no message up to `floor`."""
    if not floor:
        return rows
    return [row for row in rows if row[2] == NONE or _is_above(MessageId(row[2]), floor)]


def _is_above(message: MessageId, floor: dict[int, int]) -> bool:
    return number_of(message) > floor.get(origin_of(message), 0)


def _check_together(logs: list[LogContent]) -> None:
    """All logs must be of one run: one cluster, one protocol, the same groups, each node once.

    Where nodes come and go, each knows of itself only which groups it founded.
    """
    first = max(logs, key=lambda log: len(log.header.groups))  # others may not have heard of all
    for one, other in itertools.pairwise(logs):
        if one.header.node == other.header.node:
            raise TraceError(f"{one.path} and {other.path}: two logs of node {one.header.node}")
    for log in logs:
        for fact in ("cluster", "protocol", "options", "overlay", "groups"):
            here, there = getattr(log.header, fact), getattr(first.header, fact)
            if fact == "groups":
                there = dict(list(there.items())[: len(here)])
            if fact == "groups" and log.header.changing:
                here, there = list(here), list(there)
            if here != there:
                raise TraceError(
                    f"{log.path}: {fact} {here!r}, but {first.path} has {there!r}: not one run"
                )


def _assemble(logs: list[LogContent]) -> Run:
    recorder = Recorder("full")
    for log in logs:
        for row in log.rows:
            recorder.add(log.header.node, *row)
        if not log.ended_well():
            recorder.add(log.header.node, log.last_us(), _CRASH)
    groups = max((log.header.groups for log in logs), key=len)
    members = [member for log in logs for member in _memberships_of(log)]
    return Run(
        _run_header(logs),
        pa.Table.from_pylist([_node_row(log.header) for log in logs], schema=NODES),
        pa.Table.from_pylist(
            [{"group": number, "name": name} for number, name in enumerate(groups)],
            schema=GROUPS,
        ),
        pa.Table.from_pylist(sorted(members, key=_group_and_node), schema=MEMBERS),
        recorder.table(),
    )


def _run_header(logs: list[LogContent]) -> RunHeader:
    header = logs[0].header
    crashes = sum(row[1] == _CRASH for log in logs for row in log.rows)
    crashes += sum(not log.ended_well() for log in logs)
    present = {log.header.node for log in logs}
    origin = repr([(log.header.node, log.header.started_at) for log in logs])
    return RunHeader(
        run_id=hashlib.blake2b(origin.encode(), digest_size=8).hexdigest(),
        world="real",
        protocol=header.protocol,
        options=header.options,
        overlay=header.overlay,
        version=header.version,
        guarantees=header.guarantees,
        faults={"crash": crashes} if crashes else {},
        complete=founders_of(logs) <= present,
        started_at=min(log.header.started_at for log in logs),
    )


def founders_of(logs: Sequence[LogContent]) -> set[int]:
    """Whose logs must be there, or nobody can say what they delivered."""
    return {node for log in logs for nodes in log.header.groups.values() for node in nodes}


def _node_row(header: NodeLogHeader) -> dict[str, object]:
    return {
        "node": header.node,
        "name": header.name,
        "address": header.address,
        "zone": header.zone,
    }


def _memberships_of(log: LogContent) -> Iterator[dict[str, int | None]]:
    """From where to where this node was in each group, told by its joins and leaves."""
    node = log.header.node
    since = dict.fromkeys(log.header.groups_at_first(), 0)
    for pos, (_, kind, _, group, *_) in enumerate(log.rows):
        if kind == _JOIN and group != NONE:
            since[group] = pos
        elif kind == _LEAVE and group != NONE and group in since:
            yield {"group": group, "node": node, "from_pos": since.pop(group), "to_pos": pos}
    for group, from_pos in since.items():
        yield {"group": group, "node": node, "from_pos": from_pos, "to_pos": None}


def _group_and_node(member: dict[str, int | None]) -> tuple[int, int, int]:
    return member["group"] or 0, member["node"] or 0, member["from_pos"] or 0
