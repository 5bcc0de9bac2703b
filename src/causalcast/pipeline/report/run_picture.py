"""A run as a picture that moves, for the report: its rows as the page of the lab draws them.

Time is that of the nodes' clocks. Where these contradict what happened, or say nothing, steps take
their place: each event is one step after all that it follows.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow.parquet as pq

from causalcast.pipeline.verdicts import counter_example
from causalcast.pipeline.verdicts.counter_example import Step
from causalcast.pipeline.verdicts.verdict import VIOLATED, PropertyResult, Verdict
from causalcast.printable import printable
from causalcast.runview.drawing import (
    MARGIN_US,
    MOST_FRAMES,
    drawn_events,
    drawn_frames,
    name_of,
)
from causalcast.runview.frames import Frame, frames_of
from causalcast.trace.kinds import KIND_CODE, LEVELS, NONE
from causalcast.trace.recorder import RecordedRow
from causalcast.trace.run_folder import Run, event_files, read_run

MOST_ROWS: Final = 50_000  # of one run in a report: about two megabytes
MOST_NODES: Final = 200
EXAMPLES: Final = 10  # of each property, that can be looked at in the picture
STEP_US: Final = 1_000
_LATER: Final = (KIND_CODE["receive"], KIND_CODE["drop"])  # than a send of the same instant
_ROLES: Final = {"too early": "wrong", "too late": "too late"}

Place = tuple[int, int]


class Row(NamedTuple):
    """One row of a trace, with the time at which it is drawn."""

    pos: int
    recorded: RecordedRow

    @property
    def order(self) -> tuple[int, int, int]:
        """Rows of all nodes in the order in which they are told."""
        return self.recorded[1], self.recorded[0], self.pos


def picture_of(verdict: Verdict, room: int = MOST_ROWS) -> tuple[dict[str, Any] | None, str]:
    """The picture of a run of at most `room` rows; none, and why, where there is none."""
    if not isinstance(verdict.place, Path):
        return None, "The rows of this run are elsewhere, so it cannot be drawn here."
    nodes = verdict.counts.nodes
    if nodes > MOST_NODES:
        return None, f"This run has {nodes:,} nodes; up to {MOST_NODES} can be drawn."
    rows = sum(pq.read_metadata(path).num_rows for path in event_files(verdict.folder))
    least = verdict.counts.publications + verdict.counts.deliveries
    if min(rows, least) > room:
        return None, (
            f"This run has {least:,} publications and deliveries, and this report has room to draw"
            f" {room:,} rows of it. A report on a shorter run can be played."
        )
    run = read_run(verdict.folder)
    return _drawn(run, verdict, whole=rows <= room), ""


def _drawn(run: Run, verdict: Verdict, whole: bool) -> dict[str, Any]:
    logs = _logs_of(run, whole)
    by_clock = _clocks_agree(logs)
    if not by_clock:
        logs = _in_steps(logs)
    rows = sorted((row for log in logs.values() for row in log), key=lambda row: row.order)
    recorded = [row.recorded for row in rows]
    begin = recorded[0][1] if recorded else 0
    recorded = [_moved(row, begin) for row in recorded]
    at = {(row.recorded[0], row.pos): row.recorded[1] - begin for row in rows}
    events = drawn_events(recorded)
    frames = _frames(recorded) if by_clock and whole else []
    direct = not frames
    if direct:
        frames = _straight(recorded)
    end = max((event[0] for event in events), default=0)
    end = max([end, *(frame.end for frame in frames if frame.end is not None and direct)])
    edges = [] if direct else sorted({_pair(frame) for frame in frames})
    shown = [frame for frame in frames if frame.sent <= end + MARGIN_US]
    nodes = sorted(run.nodes["node"].to_pylist())
    return {
        "protocol": verdict.header.protocol or verdict.place.name,
        "unit": "us" if by_clock else "step",
        "direct": direct,
        "begin": 0,
        "end": end + (MARGIN_US if by_clock else STEP_US),
        "nodes": nodes,
        "names": {node: verdict.names.node(node) for node in nodes},
        "labels": _labels(run) if verdict.header.world == "imported" else {},
        "edges": edges,
        "links": [[0, a, b, "up"] for a, b in edges],
        "frames": drawn_frames(shown[:MOST_FRAMES]),
        "frames_left_out": max(0, len(shown) - MOST_FRAMES),
        "events": events,
        "waiting": _waiting(recorded),
        "stopped": _remark(by_clock, whole),
        "verdict": _told(verdict, at),
    }


def _remark(by_clock: bool, whole: bool) -> str:
    said = []
    if not by_clock:
        said.append("Drawn in steps: the times in the log do not tell what came after what.")
    if not whole:
        said.append("Drawn without the messages on links: these are too many for a report.")
    return " ".join(said)


def _logs_of(run: Run, whole: bool) -> dict[int, list[Row]]:
    """The rows of each node in their order; without those of links unless there is room."""
    wanted = LEVELS["full" if whole else "deliveries"]
    logs: dict[int, list[Row]] = {}
    names = ("node", "pos", "at_us", "kind", "message", "group", "peer", "payload_bytes",
             "metadata_bytes", "value", "note")  # fmt: skip
    columns = [run.events[name].to_pylist() for name in names]
    for node, pos, at, kind, *figures, note in zip(*columns, strict=True):
        if kind in wanted:
            numbers = [NONE if figure is None else figure for figure in figures]
            said = None if note is None else printable(note)
            row: Any = (node, at, KIND_CODE[kind], *numbers, said)
            logs.setdefault(node, []).append(Row(pos, row))
    return logs


def _clocks_agree(logs: dict[int, list[Row]]) -> bool:
    """Whether times grow along every log and from every publication to its deliveries.

    Where rows stand a microsecond apart they were counted: a log without times was imported.
    """
    published: dict[int, int] = {}
    delivered: list[tuple[int, int]] = []
    times: set[int] = set()
    for log in logs.values():
        before: int | None = None
        for row in log:
            _, at, kind, message, *_ = row.recorded
            if before is not None and at < before:
                return False
            before = at
            times.add(at)
            if kind == KIND_CODE["publish"]:
                published[message] = at
            elif kind == KIND_CODE["deliver"]:
                delivered.append((message, at))
    rows = sum(map(len, logs.values()))
    if not times or max(times) - min(times) < rows:
        return False
    return all(published.get(m, at) <= at for m, at in delivered)


def _in_steps(logs: dict[int, list[Row]]) -> dict[int, list[Row]]:
    """The same rows with steps for times: a delivery is later than its publication."""
    rows = [row.recorded for log in logs.values() for row in log]
    published = {row[3] for row in rows if row[2] == KIND_CODE["publish"]}
    steps: dict[int, int] = {}  # of publications
    done: dict[int, list[Row]] = {node: [] for node in logs}

    def advance(node: int, forced: bool) -> bool:
        """Place rows of a node until one lacks its publication; whether there was any."""
        before = len(done[node])
        for row in logs[node][before:]:
            _, _, kind, message, *_ = row.recorded
            is_delivery = kind == KIND_CODE["deliver"]
            lacks = is_delivery and message in published and message not in steps
            if lacks and not forced:
                break
            forced = False
            at = done[node][-1].recorded[1] if done[node] else 0
            at = max(at, steps.get(message, 0) if is_delivery else 0) + STEP_US
            if kind == KIND_CODE["publish"]:
                steps[message] = at
            done[node].append(row._replace(recorded=_at(row.recorded, at)))
        return len(done[node]) > before

    while waiting := [node for node in logs if len(done[node]) < len(logs[node])]:
        moved = [advance(node, forced=False) for node in waiting]
        if not any(moved):
            advance(waiting[0], forced=True)  # the log contradicts itself
    return done


def _at(row: RecordedRow, at: int) -> RecordedRow:
    node, _, *others = row
    moved: Any = (node, at, *others)
    return moved  # type: ignore[no-any-return]


def _moved(row: RecordedRow, begin: int) -> RecordedRow:
    return _at(row, row[1] - begin)


def _frames(rows: list[RecordedRow]) -> list[Frame]:
    in_order = sorted(rows, key=lambda row: (row[1], row[2] in _LATER))
    return frames_of(in_order)[0]


def _straight(rows: list[RecordedRow]) -> list[Frame]:
    """From each publication to its deliveries: all that is known where links are not recorded."""
    published = {row[3]: row for row in rows if row[2] == KIND_CODE["publish"]}
    frames = []
    for node, at, kind, message, *_ in rows:
        source = published.get(message) if kind == KIND_CODE["deliver"] else None
        if source is not None and source[0] != node:
            looks = (message, None, max(source[6], 0), 0)
            frame = Frame(source[0], node, source[1], looks)
            frame.end = max(at, source[1])
            frames.append(frame)
    return sorted(frames, key=lambda frame: frame.sent)


def _pair(frame: Frame) -> tuple[int, int]:
    return min(frame.sender, frame.receiver), max(frame.sender, frame.receiver)


def _waiting(rows: list[RecordedRow]) -> list[list[Any]]:
    """Which node held which message, from when to when, and why."""
    found: list[list[Any]] = []
    held: dict[Place, list[Any]] = {}
    for node, at, kind, message, *_, note in rows:
        if kind == KIND_CODE["hold"]:
            one = [node, name_of(message), at, None, [[at, note or ""]]]
            held[node, message] = one
            found.append(one)
        elif kind in (KIND_CODE["release"], KIND_CODE["deliver"]):
            ended = held.pop((node, message), None)
            if ended is not None:
                ended[3] = at
        elif kind == KIND_CODE["crash"]:
            for place in [place for place in held if place[0] == node]:
                held.pop(place)[3] = at
    return found


def _labels(run: Run) -> dict[str, str]:
    """What another system calls its messages."""
    kinds, messages, notes = (run.events[n].to_pylist() for n in ("kind", "message", "note"))
    return {
        name_of(message): printable(note)
        for kind, message, note in zip(kinds, messages, notes, strict=True)
        if kind in ("publish", "deliver") and message is not None and note is not None
    }


def _told(verdict: Verdict, at: dict[Place, int]) -> dict[str, Any]:
    counted = [r for r in verdict.results if r.counted and r.status == VIOLATED]
    return {
        "word": verdict.verdict,
        "promises_broken": [result.name for result in counted if result.promised_as],
        "guarantees": [
            {
                "name": result.name,
                "promised": result.promised_as or "",
                "state": result.status,
                "examples": list(_examples(verdict, result, at)),
            }
            for result in verdict.results
        ],
    }


def _examples(
    verdict: Verdict, result: PropertyResult, at: dict[Place, int]
) -> Iterator[dict[str, Any]]:
    for finding in result.examples[:EXAMPLES]:
        steps = counter_example.steps_of(finding, verdict.folder)
        if not steps and finding.pos is not None:
            steps = [Step(finding.node, "deliver", finding.message, finding.pos, "too early")]
        publications = [step.message for step in steps if step.kind == "publish"]
        marks = []
        for step in steps:
            if step.pos is None or (step.node, step.pos) not in at:
                continue
            if step.kind == "publish":
                role = "cause" if step.message == publications[0] else "effect"
            else:
                role = _ROLES.get(step.remark, "seen")
            place = {"node": step.node, "at": at[step.node, step.pos], "kind": step.kind}
            marks.append({**place, "message": name_of(step.message), "role": role})
        yield {"words": counter_example.sentence(finding, verdict.names), "marks": marks}
