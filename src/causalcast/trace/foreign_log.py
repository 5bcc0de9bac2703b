"""Reads logs that other systems wrote: one JSON object per line, the plainest form there is.

    {"node": "a", "pos": 0, "kind": "publish", "message": "hello", "group": "chat"}
    {"node": "b", "time": 1.25, "kind": "deliver", "message": "hello", "group": "chat"}

Each line has `node` and `kind`, and `pos` (its place in the node's log) or `time` (seconds) or
`at_us` (microseconds); lines with equal times keep the order of the file. `message` is any string,
published once; it is kept as the note of the publish row. `group` may be left out if there is
only one.

A `join` line before the node's first publish or deliver line makes it a founding member, owed
everything; a later one, or one with `"late": true`, makes it a late member; `leave` ends it. In a
group without `join` lines the members are the nodes that publish or deliver in it.
"""

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from causalcast.errors import TraceError
from causalcast.trace.export import message_name
from causalcast.trace.log_files import LogFiles, files_at
from causalcast.trace.recorder import NONE, Recorder
from causalcast.trace.run_folder import Run
from causalcast.trace.run_header import RunHeader
from causalcast.trace.schema import GROUPS, GUARANTEES, KIND_CODE, MEMBERS, NODES
from causalcast.version import VERSION

ONLY_GROUP = "all"
ORIGIN_SHIFT = 32
UNKNOWN_FROM = 1 << 31  # numbers of messages that nobody published
FIGURES = ("peer", "payload_bytes", "metadata_bytes", "value")
SAFETY = ("no_creation", "no_duplication", "fifo_order", "causal_order")


@dataclass(frozen=True)
class Record:
    """What one line says, before it is checked, and where it stands."""

    where: str
    raw: Any


@dataclass
class _Line:
    where: str
    number: int
    node: str | int
    kind: str
    raw: dict[str, Any]
    group: str | int | None
    message: str | None


@dataclass
class _Members:
    """Memberships as they are read: (group, node, from_pos, to_pos)."""

    rows: list[list[int | None]] = field(default_factory=list)
    groups_with_joins: set[int] = field(default_factory=set)

    def current(self, group: int, node: int) -> list[int | None] | None:
        open_ones = [r for r in self.rows if r[0] == group and r[1] == node and r[3] is None]
        return open_ones[-1] if open_ones else None


def import_log(path: Path, redelivery: str = "none") -> Run:
    """The run that one foreign log describes, or an error that names the line."""
    files = LogFiles(files_at(path))
    return import_records(records_of(files), files.title, redelivery)


def records_of(files: LogFiles) -> Iterator[Record]:
    """What the lines of some files say; a torn last line is left out."""
    for line in files.lines():
        try:
            raw = json.loads(line.text)
        except json.JSONDecodeError as error:
            if line.ends:
                raise TraceError(f"{line.where}: not JSON ({error.msg})") from None
            files.leave_out(line)
        else:
            yield Record(line.where, raw)


def import_records(records: Iterable[Record], title: str, redelivery: str = "none") -> Run:
    """The run that some records describe, or an error that names the first wrong one."""
    lines = [_checked(number, record) for number, record in enumerate(records, 1)]
    if not lines:
        raise TraceError(f"{title}: no events")
    return _Import(title, lines).run(redelivery)


def _checked(number: int, record: Record) -> _Line:
    where, raw = record.where, record.raw
    if not isinstance(raw, dict):
        raise TraceError(f"{where}: expected an object, found {type(raw).__name__}")
    for key in ("node", "kind"):
        if key not in raw:
            raise TraceError(f"{where}: {key!r} is missing")
    kind, message, group = raw["kind"], raw.get("message"), raw.get("group")
    if kind not in KIND_CODE:
        raise TraceError(f"{where}: unknown kind {kind!r}")
    for key in ("node", "group"):
        if not isinstance(raw.get(key, ""), str | int | None) or isinstance(raw.get(key), bool):
            raise TraceError(f"{where}: {key!r} must be a name or a number")
    if kind in ("publish", "deliver") and message is None:
        raise TraceError(f"{where}: a {kind} without 'message'")
    if not any(key in raw for key in ("pos", "time", "at_us")):
        raise TraceError(f"{where}: neither 'pos' nor 'time'")
    for key in ("pos", "time", "at_us", *FIGURES):
        if not isinstance(raw.get(key, 0), int | float | None) or isinstance(raw.get(key), bool):
            raise TraceError(f"{where}: {key!r} must be a number")
    if kind in ("publish", "deliver", "join") and group is None:
        group = ONLY_GROUP
    name = None if message is None else str(message)
    return _Line(where, number, raw["node"], kind, raw, group, name)


class _Import:
    """Gives numbers to everything that has a name, log by log."""

    def __init__(self, title: str, lines: list[_Line]) -> None:
        self.title = title
        self.nodes = _numbered([line.node for line in lines])
        self.groups = _numbered([line.group for line in lines if line.group is not None])
        self.logs: dict[int, list[_Line]] = {node: [] for node in sorted(self.nodes.values())}
        for line in lines:
            self.logs[self.nodes[line.node]].append(line)
        for log in self.logs.values():
            self._sort(log)
        self.members = _Members()
        self.messages: dict[str, int] = {}
        self.published: dict[int, int] = {}
        self._number_messages()
        self.unknown = UNKNOWN_FROM

    def run(self, redelivery: str) -> Run:
        recorder = Recorder("full")
        for node, log in self.logs.items():
            self._record(recorder, node, log)
        self._add_members_without_joins()
        logged = self.members.groups_with_joins >= set(self.groups.values())
        header = RunHeader(
            run_id=self.title,
            world="imported",
            version=VERSION,
            guarantees=[g for g in GUARANTEES if logged or g in SAFETY],
            redelivery=redelivery,
        )
        return Run(
            header, names_table(self.nodes, NODES), names_table(self.groups, GROUPS),
            pa.Table.from_pylist(
                [dict(zip(MEMBERS.names, row, strict=True)) for row in self.members.rows],
                schema=MEMBERS,
            ),
            recorder.table(),
        )  # fmt: skip

    def _sort(self, log: list[_Line]) -> None:
        """Into the order of `pos` if every line has one, else of time."""
        if all("pos" in line.raw for line in log):
            log.sort(key=lambda line: line.raw["pos"])
            for one, other in itertools.pairwise(log):
                if one.raw["pos"] == other.raw["pos"]:
                    raise self._error(other, f"pos {other.raw['pos']} of {other.node!r} repeated")
        elif all("time" in line.raw or "at_us" in line.raw for line in log):
            log.sort(key=_microseconds)
        else:
            lacking = next(line for line in log if "pos" not in line.raw)
            raise self._error(lacking, f"some lines of {lacking.node!r} have 'pos', this has none")

    def _number_messages(self) -> None:
        for node, log in self.logs.items():
            for line in log:
                if line.kind == "publish":
                    assert line.message is not None
                    if line.message in self.messages:
                        raise self._error(line, f"message {line.message!r} is published twice")
                    self.published[node] = self.published.get(node, 0) + 1
                    self.messages[line.message] = node << ORIGIN_SHIFT | self.published[node]

    def _record(self, recorder: Recorder, node: int, log: list[_Line]) -> None:
        spoke = False
        pos = 0
        for line in log:
            spoke = spoke or line.kind in ("publish", "deliver")
            founding = line.kind == "join" and not spoke and not line.raw.get("late")
            if founding and self._first_join(line, node):
                continue  # a founding member writes no row
            if line.kind == "join":
                self._open(line, node, pos)
            elif line.kind == "leave":
                self._close(line, node, pos)
            figures = {key: int(line.raw[key]) for key in FIGURES if line.raw.get(key) is not None}
            recorder.add(
                node,
                _microseconds(line),
                KIND_CODE[line.kind],
                self._message_id(line, node),
                NONE if line.group is None else self.groups[line.group],
                note=line.raw.get("note", self._name_to_keep(line, node)),
                **figures,
            )
            pos += 1

    def _first_join(self, line: _Line, node: int) -> bool:
        assert line.group is not None
        group = self.groups[line.group]
        if any(row[:2] == [group, node] for row in self.members.rows):
            return False
        self.members.rows.append([group, node, 0, None])
        self.members.groups_with_joins.add(group)
        return True

    def _open(self, line: _Line, node: int, pos: int) -> None:
        assert line.group is not None
        group = self.groups[line.group]
        if self.members.current(group, node) is not None:
            raise self._error(line, f"{line.node!r} joins {line.group!r} and is a member already")
        self.members.rows.append([group, node, pos, None])
        self.members.groups_with_joins.add(group)

    def _close(self, line: _Line, node: int, pos: int) -> None:
        """A `leave` without a group ends every membership of the node."""
        groups = list(self.groups.values()) if line.group is None else [self.groups[line.group]]
        for group in groups:
            current = self.members.current(group, node)
            if current is not None:
                current[3] = pos
            elif line.group is not None:
                raise self._error(line, f"{line.node!r} leaves {line.group!r} and is no member")

    def _add_members_without_joins(self) -> None:
        seen: dict[tuple[int, int], None] = {}
        for node, log in self.logs.items():
            for line in log:
                if line.kind in ("publish", "deliver") and line.group is not None:
                    seen[self.groups[line.group], node] = None
        for group, node in seen:
            if group not in self.members.groups_with_joins:
                self.members.rows.append([group, node, 0, None])

    def _message_id(self, line: _Line, node: int) -> int:
        """The id of a message; one that nobody published gets a number nobody has."""
        if line.message is None:
            return NONE
        if line.message not in self.messages:
            self.messages[line.message] = self._unpublished_id(line.message, node)
        return self.messages[line.message]

    def _name_to_keep(self, line: _Line, node: int) -> str | None:
        """The system's own name of a message, noted once, so that people meet it again."""
        if line.message is None or line.kind not in ("publish", "deliver"):
            return None
        message = self._message_id(line, node)
        origin, number = message >> ORIGIN_SHIFT, message & 0xFFFFFFFF
        published = number <= self.published.get(origin, 0)
        if line.message == message_name(message) or (line.kind == "deliver" and published):
            return None
        return line.message

    def _unpublished_id(self, name: str, node: int) -> int:
        origin, _, number = name.partition(".")
        if origin.isdecimal() and number.isdecimal() and int(number) < UNKNOWN_FROM:
            of_known_node = int(origin) in self.logs
            if of_known_node and int(number) > self.published.get(int(origin), 0):
                return int(origin) << ORIGIN_SHIFT | int(number)
        self.unknown += 1
        return node << ORIGIN_SHIFT | self.unknown

    def _error(self, line: _Line, what: str) -> TraceError:
        return TraceError(f"{line.where}: {what}")


def _microseconds(line: _Line) -> int:
    if "at_us" in line.raw:
        return int(line.raw["at_us"])
    if "time" in line.raw:
        seconds: float = line.raw["time"]
        return round(seconds * 1_000_000)
    return line.number  # no clock at all: the order of the file is good enough for people


def _numbered(names: list[str | int]) -> dict[str | int, int]:
    """Small numbers stay; if there is any other name, all are counted as they appear."""
    distinct = list(dict.fromkeys(names))
    if all(isinstance(name, int) and 0 <= name < 1 << 31 for name in distinct):
        return {name: int(name) for name in distinct}
    return {name: number for number, name in enumerate(distinct)}


def names_table(numbers: dict[str | int, int], schema: pa.Schema) -> pa.Table:
    ordered = sorted((number, str(name)) for name, number in numbers.items())
    columns = {
        schema.names[0]: [number for number, _ in ordered],
        "name": [name for _, name in ordered],
    }
    nothing = [None] * len(ordered)
    return pa.table([columns.get(name, nothing) for name in schema.names], schema=schema)
