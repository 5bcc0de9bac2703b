"""Events of other systems that keep coming, as lines with names: from a stream of Spark, or from
files that grow. What comes too late is told; what is missing is unknown, for there is no end.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from causalcast.errors import TraceError
from causalcast.pipeline.live.arrival_check import ArrivalCheck, ArrivalRow, LateArrival
from causalcast.trace.foreign_line import HeaderLine, Line, Record, line_of

KEPT = 1_000  # violations that are remembered; all are counted
SPOKE = ("publish", "deliver")
WHAT_CAME_LATE = {
    "fifo_order": "an earlier one of the same origin",
    "causal_order": "its cause",
    "reply_order": "what it answers,",
}
PATIENCE = 10  # batches that a delivery waits for its publication


class LiveLines:
    """Lines of many nodes, in the order in which they come in."""

    def __init__(self, redelivery: str | None = None, patience: int | None = None) -> None:
        self.check = ArrivalCheck(redelivery or "none", patience=patience)
        self.out_of_order = 0
        """Lines that came after a later one of their node had been judged."""
        self.nodes: set[str | int] = set()
        self._spoke: set[str | int] = set()
        self._last: dict[str | int, float] = {}
        self._number = 0

    def take(self, records: Iterable[Record]) -> list[LateArrival]:
        """Lines that came together; those of one node are put in order."""
        by_node: dict[str | int, list[Line]] = defaultdict(list)
        for record in records:
            self._number += 1
            line = line_of(record, self._number)
            if isinstance(line, HeaderLine):
                if line.redelivery not in (None, "none"):
                    self.check.may_repeat = True
            else:
                by_node[line.node].append(line)
        for node, lines in by_node.items():
            self.nodes.add(node)
            by_pos = all(line.raw.get("pos") is not None for line in lines)
            lines.sort(key=lambda line: _order(line, by_pos))
            self.check.feed(node, filter(None, [self._row(line, by_pos) for line in lines]))
        return self.check.settle()

    def _row(self, line: Line, by_pos: bool) -> ArrivalRow | None:
        order = _order(line, by_pos)
        if order < self._last.get(line.node, order):
            self.out_of_order += 1
            return None
        self._last[line.node] = order
        kind = line.kind
        if kind == "join" and line.node not in self._spoke and not line.raw.get("late"):
            kind = "note"  # a founding member
        if kind in SPOKE:
            self._spoke.add(line.node)
        if line.attempt is not None:
            self.check.may_repeat = True
        place = line.raw["pos"] if by_pos else order / 1e9
        return ArrivalRow(
            kind, (line.message, line.group), line.group, line.key, line.causes, line.attempt,
            line.share is not None, None if by_pos else order, place, line.message,
        )  # fmt: skip


def _order(line: Line, by_pos: bool) -> float:
    return float(line.raw["pos"]) if by_pos else float(line.instant or 0)


@dataclass
class TableBatch:
    """What one batch of a stream brought."""

    batch: int
    rows: int
    found: list[LateArrival]
    deliveries: int
    """So far, as are the following."""
    violations: int
    waiting: int
    unchecked: int


@dataclass
class TableWatch:
    """A stream that is being judged in this process."""

    lines: LiveLines
    tell: Callable[[TableBatch], None]
    query: Any = None
    violations: list[LateArrival] = field(default_factory=list)
    """The first ones; `lines.check.violations` counts them all."""

    def take(self, frame: Any, batch: int) -> None:
        """One batch of rows."""
        rows = frame.toArrow().to_pylist()
        records = [
            Record(f"row of batch {batch}", {k: v for k, v in row.items() if v is not None})
            for row in rows
        ]
        self._told(batch, len(rows), self.lines.take(records))

    def stop(self) -> None:
        """No more rows: give up waiting, and end the query."""
        if self.query is not None:
            self.query.stop()
        self._told(-1, 0, self.lines.check.finish())

    def _told(self, batch: int, rows: int, found: list[LateArrival]) -> None:
        self.violations += found[: max(0, KEPT - len(self.violations))]
        check = self.lines.check
        self.tell(
            TableBatch(
                batch,
                rows,
                found,
                check.deliveries,
                check.violations,
                check.rows_waiting(),
                check.unchecked,
            )
        )


def watch_table(
    frame: Any,
    tell: Callable[[TableBatch], None] | None,
    redelivery: str | None,
    checkpoint: str | Path | None,
) -> TableWatch:
    """Begin to judge a stream; what is known of it lives in this process."""
    watch = TableWatch(LiveLines(redelivery, PATIENCE), tell or _print)
    writer = frame.writeStream.foreachBatch(watch.take)
    if checkpoint is not None:
        writer = writer.option("checkpointLocation", str(checkpoint))
    watch.query = writer.start()
    return watch


def _print(batch: TableBatch) -> None:
    for late in batch.found:
        print(sentence(late))
    print(f"{batch.deliveries:,} deliveries, {batch.violations:,} violations")


def sentence(late: LateArrival) -> str:
    """A late arrival for people."""
    effect, cause = (_named(message) for message in (late.effect, late.cause))
    what = WHAT_CAME_LATE[late.guarantee]
    return (
        f"{late.guarantee}: {late.node} delivered {effect} at {late.effect_place}, and only later,"
        f" at {late.place}, {what} {cause}"
    )


def _named(message: Any) -> str:
    name, group = message
    return f"{name} ({group})"


class GrowingFiles:
    """JSON lines in files that are being written, read as far as lines are whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._offsets: dict[Path, int] = {}
        self._numbers: dict[Path, int] = defaultdict(int)

    def files(self) -> list[Path]:
        """The files there are now."""
        return json_lines_in(self.folder)

    def lines_read(self) -> int:
        """How many lines came so far."""
        return sum(self._numbers.values())

    def finish(self) -> list[Record]:
        """Nothing is held back."""
        return []

    def records(self) -> list[Record]:
        """What came since this was asked last."""
        found = []
        for path in self.files():
            with path.open("rb") as file:
                file.seek(self._offsets.get(path, 0))
                whole, newline, _ = file.read().rpartition(b"\n")
            self._offsets[path] = self._offsets.get(path, 0) + len(whole) + len(newline)
            for text in whole.splitlines():
                self._numbers[path] += 1
                where = f"{path}: line {self._numbers[path]}"
                if not text.strip():
                    continue
                try:
                    found.append(Record(where, json.loads(text)))
                except ValueError:
                    raise TraceError(f"{where}: not JSON") from None
        return found


def json_lines_in(folder: Path) -> list[Path]:
    """Files of JSON lines in a folder, in the order of their names."""
    return sorted(path for path in folder.glob("*.jsonl") if path.is_file())
