"""Follows the logs of real nodes while they are written, and makes a growing run of them.

Each step writes what is new as `events/part-NODE-POS.parquet`, under another name first, so that a
reader never sees half a file. While it grows, the run says `complete: false`. A follower that
starts again goes on where the files end.
"""

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from causalcast.errors import TraceError
from causalcast.trace.gather import floor_of, founders_of, rows_above
from causalcast.trace.kinds import KIND_CODE
from causalcast.trace.log_rows import NONE, Row
from causalcast.trace.node_log import (
    SUFFIX,
    LogContent,
    NodeLogHeader,
    begins_with,
    first_pos_of,
    header_of,
    log_of,
    pieces_of,
    read_rows_behind,
)
from causalcast.trace.recorder import Recorder
from causalcast.trace.run_folder import write_events
from causalcast.trace.run_header import RunHeader
from causalcast.trace.schema import GROUPS, MEMBERS, NODES

_CRASH: Final = KIND_CODE["crash"]
_JOIN: Final = KIND_CODE["join"]
_LEAVE: Final = KIND_CODE["leave"]


class _Reading:
    """How far a log was read, and what its rows say of the node."""

    def __init__(self, header: NodeLogHeader, written: int) -> None:
        self.header = header  # of the piece with which the run begins
        self.piece = header.first_pos  # which piece is read
        self.offset = 0  # in it
        self.next_pos = header.first_pos  # of the row that is read next
        self.count = 0  # rows that belong to the run
        self.written = written  # of those, by an earlier follower
        self.last: Row | None = None
        self.since = dict.fromkeys(header.groups_at_first(), 0)
        self.members: list[dict[str, int | None]] = []  # of groups that it left

    def take(self, row: Row) -> bool:
        """A further row of the run; whether it is to be written."""
        kind, group = row[1], row[3]
        if group != NONE and kind == _JOIN:
            self.since[group] = self.count
        elif group != NONE and kind == _LEAVE and group in self.since:
            self.members.append(self._member(group, self.since.pop(group), self.count))
        self.last = row
        self.count += 1
        return self.count > self.written

    def has_ended(self) -> bool:
        """Whether the node left the run, or was seen to crash."""
        if self.last is None:
            return False
        return self.last[1] == _CRASH or (self.last[1] == _LEAVE and self.last[3] == NONE)

    def memberships(self) -> list[dict[str, int | None]]:
        """From where to where the node was in each group."""
        still = [self._member(group, since, None) for group, since in self.since.items()]
        return [*self.members, *still]

    def _member(self, group: int, since: int, until: int | None) -> dict[str, int | None]:
        return {"group": group, "node": self.header.node, "from_pos": since, "to_pos": until}


class LogFollower:
    """All logs in some folders, followed piece by piece."""

    def __init__(self, folders: Sequence[Path], out: Path) -> None:
        self.folders = folders
        self.out = out
        self.headers: dict[Path, NodeLogHeader] = {}
        self.readings: dict[Path, _Reading] = {}
        (out / "events").mkdir(parents=True, exist_ok=True)
        self._beginning = out / ".followed.json"
        # With which piece of each log the run begins, and which messages it leaves out.
        self._first: dict[str, int] = {}
        self._floor: dict[int, int] | None = None
        if self._beginning.exists():
            known = json.loads(self._beginning.read_text())
            self._first = known["first"]
            self._floor = {int(origin): number for origin, number in known["floor"].items()}

    def step(self) -> int:
        """Write what is new since the last step; how many rows that was."""
        self._find_logs()
        written = 0
        for path, reading in self.readings.items():
            while (rows := self._read_on(path, reading)) is not None:
                written += self._write(reading, rows)
        return written

    def finish(self) -> None:
        """No more rows will come: write who was a member when, and whether the run has an end.

        It has one if the log of every founding member is there and all logs end with a `leave` or a
        `crash`; else somebody may still be at it.
        """
        if not self.headers:
            return
        self.step()
        readings = self.readings.values()
        logs = [LogContent(path, header) for path, header in self.headers.items()]
        ended = all(reading.has_ended() for reading in readings)
        self._write_small_tables(
            [member for reading in readings for member in reading.memberships()],
            complete=ended and founders_of(logs) <= {log.header.node for log in logs},
        )

    def _find_logs(self) -> None:
        found = [
            log_of(path) for folder in self.folders for path in sorted(folder.rglob(f"*{SUFFIX}"))
        ]
        new = {}
        for path in dict.fromkeys(found):
            if path not in self.headers:
                with contextlib.suppress(FileNotFoundError):  # a piece is being put aside
                    new[path] = self._first_header(path)
        if not new:
            return
        for path, header in new.items():
            self._check_one_run(path, header)
            self.headers[path] = header
            self.readings[path] = _Reading(header, self._rows_written(header.node))
        self._set_beginning(new)
        self._write_small_tables()

    def _first_header(self, path: Path) -> NodeLogHeader:
        """Of the piece with which the run begins."""
        pieces = [*pieces_of(path), path]
        header = header_of(pieces[0])
        first = self._first.get(str(header.node), header.first_pos)
        for piece in pieces:
            if first_pos_of(piece) == first:
                return header_of(piece)
        raise _let_go(path, first)

    def _set_beginning(self, new: Mapping[Path, NodeLogHeader]) -> None:
        """Remember where the run begins, for followers that go on with it."""
        floor = floor_of([LogContent(path, header) for path, header in new.items()])
        if self._floor is None:
            self._floor = floor
        for origin, number in floor.items():
            if number > self._floor.get(origin, 0):
                raise TraceError(
                    f"{', '.join(map(str, new))}: has let go what the run has of node {origin}; "
                    "begin a new run"
                )
        for header in new.values():
            self._first[str(header.node)] = header.first_pos
        hidden = self.out / ".followed.json.new"
        hidden.write_text(json.dumps({"first": self._first, "floor": self._floor}))
        hidden.rename(self._beginning)

    def _check_one_run(self, path: Path, new: NodeLogHeader) -> None:
        for other, header in self.headers.items():
            changing = header.changing or new.changing  # each names the founders it knows
            fewer, more = sorted((header.groups, new.groups), key=len)  # some may have been added
            same = [*more][: len(fewer)] == [*fewer] if changing else begins_with(more, fewer)
            if header.cluster != new.cluster or not same:
                raise TraceError(f"{path} and {other}: not of one run (cluster or groups differ)")
            if header.node == new.node:
                raise TraceError(f"{path} and {other}: two logs of node {header.node}")

    def _rows_written(self, node: int) -> int:
        files = sorted((self.out / "events").glob(f"part-{node:05d}-*.parquet"))
        if not files:
            return 0
        first = int(files[-1].stem.rpartition("-")[2])
        return first + int(pq.read_metadata(files[-1]).num_rows)

    def _read_on(self, path: Path, reading: _Reading) -> list[Row] | None:
        """Further rows of a log; None if there are none for now."""
        try:
            pieces = {first_pos_of(piece): piece for piece in [*pieces_of(path), path]}
            piece = pieces.get(reading.piece)
            if piece is None:
                raise _let_go(path, reading.piece)
            rows, reading.offset = read_rows_behind(piece, reading.offset)
            reading.next_pos += len(rows)
            if not rows:
                if reading.next_pos == reading.piece or reading.next_pos not in pieces:
                    return None
                self._hear_of_groups(path, reading, header_of(pieces[reading.next_pos]))
                reading.piece, reading.offset = reading.next_pos, 0
        except FileNotFoundError:
            return None  # it is being put aside: look again with the next step
        return rows

    def _hear_of_groups(self, path: Path, reading: _Reading, header: NodeLogHeader) -> None:
        """A further piece of a log may know of more groups than the first."""
        known = len(reading.header.groups)
        if len(header.groups) > known:
            reading.since.update(dict.fromkeys(header.founded(known), 0))
            reading.header = self.headers[path] = reading.header.with_groups_of(header)
            self._write_small_tables()

    def _write(self, reading: _Reading, rows: list[Row]) -> int:
        """Write those of the rows that belong to the run, and are not there yet."""
        node, count = reading.header.node, reading.count
        first = max(count, reading.written)
        new = [row for row in rows_above(rows, self._floor or {}) if reading.take(row)]
        if not new:
            return 0
        recorder = Recorder("full")
        for row in new:
            recorder.add(node, *row)
        table = recorder.table()
        positions = pa.array(range(first, first + len(new)), pa.int64())
        table = table.set_column(1, table.schema.field("pos"), positions)
        name = f"part-{node:05d}-{first:012d}.parquet"
        hidden = self.out / "events" / f".{name}"
        write_events(hidden, table)
        hidden.rename(self.out / "events" / name)
        return len(new)

    def _write_small_tables(
        self, members: list[dict[str, int | None]] | None = None, complete: bool = False
    ) -> None:
        headers = sorted(self.headers.values(), key=lambda header: header.node)
        groups: dict[str, set[int]] = {}
        for known in headers:
            for name, founders in known.groups.items():
                groups.setdefault(name, set()).update(founders)
        nodes = [
            {"node": h.node, "name": h.name, "address": h.address, "zone": h.zone} for h in headers
        ]
        members = members or [
            {"group": number, "node": node, "from_pos": 0, "to_pos": None}
            for number, founders in enumerate(groups.values())
            for node in sorted(founders)
        ]
        named = [{"group": number, "name": name} for number, name in enumerate(groups)]
        tables = {"nodes": (nodes, NODES), "groups": (named, GROUPS), "members": (members, MEMBERS)}
        for name, (rows, schema) in tables.items():
            hidden = self.out / f".{name}.parquet"
            pq.write_table(pa.Table.from_pylist(rows, schema=schema), hidden)
            hidden.rename(self.out / f"{name}.parquet")
        first = headers[0]
        header = RunHeader(
            self.out.name,
            "real",
            protocol=first.protocol,
            options=first.options,
            overlay=first.overlay,
            version=first.version,
            guarantees=first.guarantees,
            complete=complete,
            started_at=min(h.started_at for h in headers),
        )
        hidden = self.out / ".run.json"
        hidden.write_text(header.to_json())
        hidden.rename(self.out / "run.json")


def follower_of(folder: Path, out: Path) -> LogFollower | None:
    """What follows the node logs below a folder; none if there are none."""
    return LogFollower([folder], out) if any(folder.rglob(f"*{SUFFIX}")) else None


def _let_go(path: Path, first: int) -> TraceError:
    return TraceError(
        f"{path}: rows from {first} on were let go before anybody read them; give [trace] "
        "max_bytes more room, or begin a new run"
    )
