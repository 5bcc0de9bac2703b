"""Makes a run of what another system logged: names become numbers, log by log.

A publication is a message in a group: the same id in another group is another publication, and
follows the first if its publisher had delivered that (a dead letter). The same id again in the same
group is a retry: no publication of its own, but deliveries may repeat.

A `join` line before the node's first publish or deliver line makes it a founding member, owed
everything; a later one, or one with `"late": true`, makes it a late member; `leave` ends it. In a
group without `join` lines the members are the nodes that deliver in it.

A log is *partial* if it says so, or if it shows: positions that skip, deliveries of what nobody
published. What is missing then proves nothing, and the checks say so.
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
from causalcast.trace.foreign_line import (
    FIGURES,
    ONLY_GROUP,
    HeaderLine,
    Line,
    Record,
    line_of,
)
from causalcast.trace.kinds import NONE
from causalcast.trace.log_files import LogFiles, files_at
from causalcast.trace.recorder import Recorder
from causalcast.trace.run_folder import Run
from causalcast.trace.run_header import RunHeader
from causalcast.trace.schema import (
    FOREIGN_EVENTS,
    FOREIGN_MEMBERS,
    FOREIGN_VERSION,
    GROUPS,
    GUARANTEES,
    KIND_CODE,
    MEMBERS,
    NODES,
    REPLY_ORDER,
    SCHEMA_VERSION,
)
from causalcast.version import VERSION

__all__ = ["ONLY_GROUP", "Record", "import_log", "import_records", "records_of"]

ORIGIN_SHIFT = 32
UNKNOWN_FROM = 1 << 31  # numbers of messages that nobody published
SAFETY = ("no_creation", "no_duplication", "fifo_order", "causal_order")
CIRCULAR_SPANS = "circular_spans"  # an option of a header: how many, if there are any
PUBLISHED_AGAIN = "published again"  # the note of a retry
NAMES_TOLD = 3

Published = tuple[str, int]  # message and group


@dataclass
class _Members:
    """Memberships as they are read: [group, node, from_pos, to_pos]."""

    rows: list[list[int | None]] = field(default_factory=list)
    groups_with_joins: set[int] = field(default_factory=set)

    def current(self, group: int, node: int) -> list[int | None] | None:
        open_ones = [r for r in self.rows if r[0] == group and r[1] == node and r[3] is None]
        return open_ones[-1] if open_ones else None


def import_log(path: Path, redelivery: str | None = None, whole: bool | None = None) -> Run:
    """The run that one foreign log describes, or an error that names the line."""
    files = LogFiles(files_at(path))
    return import_records(records_of(files), files.title, redelivery, whole)


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


def import_records(
    records: Iterable[Record],
    title: str,
    redelivery: str | None = None,
    whole: bool | None = None,
    circular_spans: int = 0,
) -> Run:
    """The run that some records describe, or an error that names the first wrong one.

    What is not said (`redelivery`, `whole`) is taken from header lines, or found out. If the
    records were made of spans, `circular_spans` of these are their own ancestors.
    """
    events: list[Line] = []
    headers: list[HeaderLine] = []
    for number, record in enumerate(records, 1):
        line = line_of(record, number)
        if isinstance(line, Line):
            events.append(line)
        else:
            headers.append(line)
    said = [header.whole for header in headers if header.whole is not None]
    if whole is None and said:
        whole = all(said)
    if redelivery is None:
        redelivery = next((h.redelivery for h in headers if h.redelivery is not None), None)
    if not events:
        raise TraceError(f"{title}: no events")
    run = _Import(title, events, whole).run(redelivery)
    if circular_spans:
        run.header.options[CIRCULAR_SPANS] = circular_spans
    return run


class _Import:
    """Gives numbers to everything that has a name, log by log."""

    def __init__(self, run_id: str, lines: list[Line], whole: bool | None) -> None:
        self.run_id = run_id
        self.nodes = _numbered([line.node for line in lines])
        self.groups = _numbered([line.group for line in lines if line.group is not None])
        self.logs: dict[int, list[Line]] = {node: [] for node in sorted(self.nodes.values())}
        for line in lines:
            self.logs[self.nodes[line.node]].append(line)
        self.by_pos: set[int] = set()
        for node, log in self.logs.items():
            self._sort(node, log)
        self.found_out: list[str] = [] if whole is not None else self._signs_of_missing_rows()
        self.whole = not self.found_out if whole is None else whole
        self.members = _Members()
        self.shares = self._read_shares()
        self.messages: dict[Published, int] = {}
        self.names: dict[str, list[int]] = {}
        self.again: set[int] = set()
        """Publish lines, by number, that repeat an earlier one."""
        self.published: dict[int, int] = {}
        self._number_messages()
        self.ghosts: dict[str, int] = {}
        self.unknown = UNKNOWN_FROM
        self.foreign: dict[str, list[Any]] = {column.name: [] for column in FOREIGN_EVENTS}

    def run(self, redelivery: str | None) -> Run:
        """The run; what nobody said about repeated deliveries is found out."""
        if redelivery is None:
            redelivery = self._redelivery()
        recorder = Recorder("full")
        for node, log in self.logs.items():
            self._record(recorder, node, log)
        self._add_members_without_joins()
        events = self._with_foreign_columns(recorder.table())
        members = self._members_table()
        has_causes = "causes" in events.column_names
        logged = self.members.groups_with_joins >= set(self.groups.values())
        promised = [g for g in GUARANTEES if (logged and self.whole) or g in SAFETY]
        header = RunHeader(
            run_id=self.run_id,
            world="imported",
            version=VERSION,
            guarantees=promised + [REPLY_ORDER] * has_causes,
            redelivery=redelivery,
            options={} if len(self.by_pos) == len(self.logs) else {"order": "time"},
            whole=self.whole,
            timed=all(line.instant is not None for log in self.logs.values() for line in log),
            found_out=self.found_out,
        )
        header.schema = version_of(header, events.column_names, members.column_names)
        nodes, groups = names_table(self.nodes, NODES), names_table(self.groups, GROUPS)
        return Run(header, nodes, groups, members, events)

    def _sort(self, node: int, log: list[Line]) -> None:
        """Into the order of `pos` if every line has one, else of time."""
        if all(line.raw.get("pos") is not None for line in log):
            self.by_pos.add(node)
            log.sort(key=lambda line: line.raw["pos"])
            for one, other in itertools.pairwise(log):
                if one.raw["pos"] == other.raw["pos"]:
                    raise _error(other, f"pos {other.raw['pos']} of {other.node!r} repeated")
        elif all(line.instant is not None for line in log):
            log.sort(key=lambda line: line.instant or 0)
        else:
            lacking = next(line for line in log if line.raw.get("pos") is None)
            raise _error(lacking, f"some lines of {lacking.node!r} have 'pos', this has none")

    def _signs_of_missing_rows(self) -> list[str]:
        """Why the log cannot be whole, in words; nothing if it may be."""
        skipped: dict[str, int] = {}
        for node in sorted(self.by_pos):
            positions = [line.raw["pos"] for line in self.logs[node] if line.raw["pos"] >= 0]
            missing = missing_positions(positions)
            if missing:
                skipped[str(self.logs[node][0].node)] = missing
        published = {line.message for log in self.logs.values() for line in log
                     if line.kind == "publish"}  # fmt: skip
        unseen: dict[str, None] = {}
        for line in itertools.chain.from_iterable(self.logs.values()):
            spoken_of = (line.message,) if line.kind == "deliver" else line.causes
            unseen.update((name, None) for name in spoken_of if name not in published and name)
        return signs_in_words(skipped, list(unseen))

    def _redelivery(self) -> str:
        """`any` if attempts are numbered, messages published again, or (partial) repeated."""
        lines = list(itertools.chain.from_iterable(self.logs.values()))
        if any(line.attempt is not None for line in lines):
            return "any"
        if self.again:
            self.found_out.append(RETRIES)
            return "any"
        delivered = [(x.node, x.message, x.group) for x in lines if x.kind == "deliver"]
        if not self.whole and len(set(delivered)) < len(delivered):
            self.found_out.append(REPEATS)
            return "any"
        return "none"

    def _read_shares(self) -> dict[tuple[int, int], str | None]:
        """By group and node: the name under which it shares the messages, none if it gets all."""
        shares: dict[tuple[int, int], str | None] = {}
        for node, log in self.logs.items():
            for line in log:
                if line.kind == "deliver" or (line.kind == "join" and line.share is not None):
                    assert line.group is not None
                    known = shares.setdefault((self.groups[line.group], node), line.share)
                    if known != line.share:
                        raise _error(line, TWO_SHARES.format(line.node, line.group))
        return shares

    def _number_messages(self) -> None:
        first: dict[Published, Line] = {}
        publications = [
            line for log in self.logs.values() for line in log if line.kind == "publish"
        ]
        for line in sorted(publications, key=lambda line: (line.at_us, line.number)):
            if first.setdefault(self._published(line), line) is not line:
                self.again.add(line.number)
        for node, log in self.logs.items():
            delivered: set[str | None] = set()
            for line in log:
                if line.kind == "deliver":
                    delivered.add(line.message)
                if line.kind != "publish":
                    continue
                published = self._published(line)
                if line.number in self.again:
                    passed_on = line.message in delivered or not self.whole
                    if first[published].node != line.node and not passed_on:
                        raise _error(line, f"message {line.message!r} is published twice")
                    continue
                self.published[node] = self.published.get(node, 0) + 1
                self.messages[published] = node << ORIGIN_SHIFT | self.published[node]
                self.names.setdefault(published[0], []).append(self.messages[published])

    def _published(self, line: Line) -> Published:
        assert line.message is not None and line.group is not None
        return line.message, self.groups[line.group]

    def _record(self, recorder: Recorder, node: int, log: list[Line]) -> None:
        spoke = False
        pos = 0
        before: Line | None = None
        delivered: dict[str, int] = {}  # the last publication of that name that came here
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
            message = self._message_id(line, node)
            repeats = line.number in self.again
            recorder.add(
                node,
                line.at_us,
                KIND_CODE["note" if repeats else line.kind],
                message,
                NONE if line.group is None else self.groups[line.group],
                note=PUBLISHED_AGAIN
                if repeats
                else line.raw.get("note") or self._name_to_keep(line, message),
                **figures,
            )
            self._add_foreign(line, node, message, repeats, delivered)
            tied = before is not None and self._is_tied(node, before, line)
            self.foreign["tied"].append(True if tied else None)
            before = line
            if line.kind == "deliver" and line.message is not None:
                delivered[line.message] = message
            pos += 1

    def _is_tied(self, node: int, before: Line, line: Line) -> bool:
        """Whether two lines that follow one another are not ordered: it is said, or their times are
        equal and nothing else orders them."""
        if node in self.by_pos:
            return bool(line.raw.get("tied"))
        return before.instant == line.instant

    def _add_foreign(
        self, line: Line, node: int, message: int, repeats: bool, delivered: dict[str, int]
    ) -> None:
        pos = line.raw["pos"] if node in self.by_pos else None
        self.foreign["source"].append(int(pos) if pos is not None and pos == int(pos) else None)
        self.foreign["key"].append(None if repeats else line.key)
        self.foreign["attempt"].append(line.attempt)
        causes: list[int] = []
        if line.kind == "publish" and not repeats:
            assert line.message is not None
            came_from = delivered.get(line.message)
            if came_from is not None and came_from != message:
                causes.append(came_from)  # the same id goes on in another group
            causes += [
                cause
                for name in line.causes
                if (cause := self._cause(name, message, delivered)) is not None
            ]
        self.foreign["causes"].append(list(dict.fromkeys(causes)) or None)

    def _cause(self, name: str, effect: int, delivered: dict[str, int]) -> int | None:
        """The publication that a declared cause names: the one that came here, if several have the
        name; none if nobody published it."""
        known = [message for message in self.names.get(name, []) if message != effect]
        if not known:
            return None
        return delivered[name] if delivered.get(name) in known else known[0]

    def _with_foreign_columns(self, events: pa.Table) -> pa.Table:
        """Rows were added in the order of the table; columns without a value are left out."""
        for column in FOREIGN_EVENTS:
            values = self.foreign[column.name]
            if column.name == "source" and values == events["pos"].to_pylist():
                continue
            if any(value is not None for value in values):
                plain = pa.string() if column.name == "key" else column.type
                array = pa.array(values, plain).cast(column.type)
                events = events.append_column(column, array)
        return events

    def _first_join(self, line: Line, node: int) -> bool:
        assert line.group is not None
        group = self.groups[line.group]
        if any(row[:2] == [group, node] for row in self.members.rows):
            return False
        self.members.rows.append([group, node, 0, None])
        self.members.groups_with_joins.add(group)
        return True

    def _open(self, line: Line, node: int, pos: int) -> None:
        assert line.group is not None
        group = self.groups[line.group]
        current = self.members.current(group, node)
        if current is not None and self.whole:
            raise _error(line, f"{line.node!r} joins {line.group!r} and is a member already")
        if current is not None:
            current[3] = pos  # the row that left it is missing
        self.members.rows.append([group, node, pos, None])
        self.members.groups_with_joins.add(group)

    def _close(self, line: Line, node: int, pos: int) -> None:
        """A `leave` without a group ends every membership of the node."""
        groups = list(self.groups.values()) if line.group is None else [self.groups[line.group]]
        for group in groups:
            current = self.members.current(group, node)
            if current is not None:
                current[3] = pos
            elif line.group is not None and self.whole:
                raise _error(line, f"{line.node!r} leaves {line.group!r} and is no member")
            elif line.group is not None:
                self.members.rows.append([group, node, 0, pos])  # the row that joined is missing

    def _add_members_without_joins(self) -> None:
        """Who delivers in a group is a member of it; if the log is whole, its joins say so."""
        members = {(row[0], row[1]) for row in self.members.rows}
        for group, node in self.shares:
            logs_joins = group in self.members.groups_with_joins and self.whole
            if (group, node) not in members and not logs_joins:
                self.members.rows.append([group, node, 0, None])

    def _members_table(self) -> pa.Table:
        rows = [dict(zip(MEMBERS.names, row, strict=True)) for row in self.members.rows]
        table = pa.Table.from_pylist(rows, schema=MEMBERS)
        shares = [self.shares.get((row["group"], row["node"])) for row in rows]
        if any(share is not None for share in shares):
            table = table.append_column(FOREIGN_MEMBERS[0], pa.array(shares, pa.string()))
        return table

    def _message_id(self, line: Line, node: int) -> int:
        """The id of a message; one that nobody published gets a number nobody has."""
        if line.message is None:
            return NONE
        if line.group is not None and (line.message, self.groups[line.group]) in self.messages:
            return self.messages[line.message, self.groups[line.group]]
        if line.message in self.names:
            return self.names[line.message][0]
        if line.message not in self.ghosts:
            self.ghosts[line.message] = self._unpublished_id(line.message, node)
        return self.ghosts[line.message]

    def _name_to_keep(self, line: Line, message: int) -> str | None:
        """The system's own name of a message, noted once, so that people meet it again."""
        if line.message is None or line.kind not in ("publish", "deliver"):
            return None
        published = line.message not in self.ghosts
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


RETRIES = "messages are published again under the same id: deliveries may repeat"
REPEATS = "messages are delivered again without attempt numbers: taken for redeliveries"
TWO_SHARES = (
    "{0!r} delivers {1!r} under two names of a share, or with and without one;"
    " name each subscription as a process of its own"
)


def missing_positions(positions: list[Any]) -> int:
    """How many places a log skips, its beginning included; sorted whole numbers from 0 on."""
    if not positions or any(pos != int(pos) for pos in positions):
        return 0
    return int(positions[-1]) + 1 - len(positions)


def signs_in_words(
    skipped: dict[str, int], unseen: list[str], unseen_count: int | None = None
) -> list[str]:
    """Why a log is taken for a partial one; nothing if it may be whole."""
    count = len(unseen) if unseen_count is None else unseen_count
    signs = []
    if skipped:
        total = sum(skipped.values())
        signs.append(f"'pos' skips {total:,} rows, at {_some(list(skipped), len(skipped))}")
    if unseen:
        were = "message was" if count == 1 else "messages were"
        signs.append(f"{count:,} {were} published by nobody in this log: {_some(unseen, count)}")
    return signs


def _some(names: list[str], count: int) -> str:
    more = count - NAMES_TOLD
    return ", ".join(names[:NAMES_TOLD]) + (f" and {more:,} more" if more > 0 else "")


def version_of(header: RunHeader, events: list[str], members: list[str]) -> int:
    """The version of a run: the second if a reader of the first would judge it wrongly."""
    columns = {*events, *members} & {"key", "causes", "attempt", "tied", "share"}
    second = columns or not header.whole or header.redelivery == "any"
    return FOREIGN_VERSION if second else SCHEMA_VERSION


def _error(line: Line, what: str) -> TraceError:
    return TraceError(f"{line.where}: {what}")


def _numbered(names: list[str | int]) -> dict[str | int, int]:
    """Small numbers stay; if there is any other name, all are counted as they appear."""
    distinct = list(dict.fromkeys(names))
    if all(isinstance(name, int) and 0 <= name < 1 << 31 for name in distinct):
        return {name: int(name) for name in distinct}
    return {name: number for number, name in enumerate(distinct)}


def names_table(numbers: dict[str | int, int], schema: pa.Schema) -> pa.Table:
    """Nodes or groups, in the order of their numbers, with what people call them."""
    ordered = sorted((number, str(name)) for name, number in numbers.items())
    columns = {
        schema.names[0]: [number for number, _ in ordered],
        "name": [name for _, name in ordered],
    }
    nothing = [None] * len(ordered)
    return pa.table([columns.get(name, nothing) for name in schema.names], schema=schema)
