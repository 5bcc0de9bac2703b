"""Follows the logs of real nodes while they are written, and makes a growing run of them.

Each step writes what is new as `events/part-NODE-POS.parquet`, under another name first, so that a
reader never sees half a file. While it grows, the run says `complete: false`. A follower that
starts again goes on where the files end.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from causalcast.errors import TraceError
from causalcast.trace.gather import founders_of, memberships_of
from causalcast.trace.kinds import KIND_CODE
from causalcast.trace.node_log import (
    SUFFIX,
    LogContent,
    NodeLogHeader,
    Row,
    read_log,
    read_rows_behind,
)
from causalcast.trace.recorder import Recorder
from causalcast.trace.run_folder import write_events
from causalcast.trace.run_header import RunHeader
from causalcast.trace.schema import GROUPS, MEMBERS, NODES

_CRASH: Final = KIND_CODE["crash"]


class LogFollower:
    """Where each log was read up to."""

    def __init__(self, folders: Sequence[Path], out: Path) -> None:
        self.folders = folders
        self.out = out
        self.headers: dict[Path, NodeLogHeader] = {}
        self.offsets: dict[Path, int] = {}
        self.next_pos: dict[Path, int] = {}
        (out / "events").mkdir(parents=True, exist_ok=True)

    def step(self) -> int:
        """Write what is new since the last step; how many rows that was."""
        self._find_logs()
        written = 0
        for path, header in self.headers.items():
            rows, self.offsets[path] = read_rows_behind(path, self.offsets[path])
            written += self._write(path, header, rows)
        return written

    def finish(self) -> None:
        """No more rows will come: write who was a member when, and whether the run has an end.

        It has one if the log of every founding member is there and all logs end with a `leave` or a
        `crash`; else somebody may still be at it.
        """
        if not self.headers:
            return
        self.step()
        logs = [read_log(path) for path in self.headers]
        ended = all(log.ended_well() or (log.rows and log.rows[-1][1] == _CRASH) for log in logs)
        self._write_small_tables(
            [member for log in logs for member in memberships_of(log)],
            complete=bool(ended) and founders_of(logs) <= {log.header.node for log in logs},
        )

    def _find_logs(self) -> None:
        found = [path for folder in self.folders for path in sorted(folder.rglob(f"*{SUFFIX}"))]
        new = [path for path in found if path not in self.headers]
        for path in new:
            log = read_log(path)
            self._check_one_run(log)
            self.headers[path] = log.header
            self.offsets[path] = 0
            self.next_pos[path] = self._rows_written(log.header.node)
            if self.next_pos[path]:
                self._skip(path, log)
        if new:
            self._write_small_tables()

    def _check_one_run(self, log: LogContent) -> None:
        for path, header in self.headers.items():
            changing = header.changing or log.header.changing  # each names the founders it knows
            groups = [list(h.groups) if changing else h.groups for h in (header, log.header)]
            if header.cluster != log.header.cluster or groups[0] != groups[1]:
                raise TraceError(
                    f"{log.path} and {path}: not of one run (cluster or groups differ)"
                )
            if header.node == log.header.node:
                raise TraceError(f"{log.path} and {path}: two logs of node {header.node}")

    def _rows_written(self, node: int) -> int:
        files = sorted((self.out / "events").glob(f"part-{node:05d}-*.parquet"))
        if not files:
            return 0
        first = int(files[-1].stem.rpartition("-")[2])
        return first + int(pq.read_metadata(files[-1]).num_rows)

    def _skip(self, path: Path, log: LogContent) -> None:
        """Rows that an earlier follower wrote; those behind them are written now."""
        self.offsets[path] = log.whole_bytes
        self._write(path, log.header, log.rows[self.next_pos[path] :])

    def _write(self, path: Path, header: NodeLogHeader, rows: list[Row]) -> int:
        if not rows:
            return 0
        recorder = Recorder("full")
        for row in rows:
            recorder.add(header.node, *row)
        table = recorder.table()
        first = self.next_pos[path]
        positions = pa.array(range(first, first + len(rows)), pa.int64())
        table = table.set_column(1, table.schema.field("pos"), positions)
        name = f"part-{header.node:05d}-{first:012d}.parquet"
        hidden = self.out / "events" / f".{name}"
        write_events(hidden, table)
        hidden.rename(self.out / "events" / name)
        self.next_pos[path] += len(rows)
        return len(rows)

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
