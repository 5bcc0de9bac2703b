"""The trace of one real node: rows appended to a checksummed file, one write per turn.

    file   = magic, frame, frame, …          frame = length (4), CRC-32 (4), msgpack
    first frame: what was run (`NodeLogHeader`); further frames: [sequence, first pos, rows]

What was written survives the process: a write that has returned is in the kernel, so SIGKILL loses
no row whose effects others may have seen. `sequence` is the last entry of the node's journal whose
rows are in the log; after a crash the node appends the rows of the entries behind it.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from causalcast.errors import TraceError
from causalcast.trace.kinds import KIND_CODE, KINDS, LEVELS

MAGIC: Final = b"CCTRACE1"
SUFFIX: Final = ".nodelog"
_FRAME: Final = struct.Struct(">II")
NONE: Final = -1  # "no value" in the integer columns, as in `recorder`
_LEAVE: Final = KIND_CODE["leave"]

# at_us, kind, message, group, peer, payload_bytes, metadata_bytes, value, note
Row = tuple[int, int, int, int, int, int, int, int, str | None]


@dataclass
class NodeLogHeader:
    """Who wrote the log, and what it took part in."""

    node: int
    name: str
    address: str
    cluster: str
    protocol: str
    options: dict[str, Any]
    overlay: str
    guarantees: list[str]
    groups: dict[str, list[int]]  # founding members by name; their order numbers the groups
    level: str
    version: str
    started_at: str
    zone: str | None = None
    changing: bool = False  # nodes come and go: of the founders it knows itself only


@dataclass
class LogContent:
    """A log as it was found."""

    path: Path
    header: NodeLogHeader
    rows: list[Row] = field(default_factory=list)
    sequence: int = 0
    whole_bytes: int = 0  # what follows is torn

    def ended_well(self) -> bool:
        """Whether the node left the run in good order; leaving a group is not that."""
        return bool(self.rows) and self.rows[-1][1] == _LEAVE and self.rows[-1][3] == NONE

    def last_us(self) -> int:
        """The last sign of life."""
        if self.rows:
            return self.rows[-1][0]
        return int(datetime.fromisoformat(self.header.started_at).timestamp() * 1_000_000)


class NodeLog:
    """Rows of this node, at one level of detail; `write` brings them to the kernel."""

    def __init__(self, path: Path, header: NodeLogHeader) -> None:
        """Begin the log at `path`, or go on with it behind its last whole frame."""
        wanted = LEVELS[header.level]
        self.wants = [kind in wanted for kind in KINDS]
        self.sequence = 0  # of the journal: rows up to this entry are here
        self.next_pos = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            _begin(path, header)
        found = read_log(path)
        _check_same_run(found.header, header, path)
        self.sequence = found.sequence
        self.next_pos = len(found.rows)
        self.ended_well = found.ended_well()  # the life before this one
        self.last_us = found.last_us()  # of that life
        self._rows: list[Row] = []
        self._path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.ftruncate(self._fd, found.whole_bytes)

    def add(
        self,
        at_us: int,
        kind: int,
        message: int = NONE,
        group: int = NONE,
        peer: int = NONE,
        payload_bytes: int = NONE,
        metadata_bytes: int = NONE,
        value: int = NONE,
        note: str | None = None,
    ) -> None:
        """Append one row, if the level asks for its kind."""
        if self.wants[kind]:
            self._rows.append(
                (at_us, kind, message, group, peer, payload_bytes, metadata_bytes, value, note)
            )

    def write(self, sequence: int) -> None:
        """Bring the rows of this turn to the kernel; they contain those of entry `sequence`."""
        if not self._rows:
            return
        rows, self._rows = self._rows, []
        try:
            _write_all(self._fd, _frame(msgspec.msgpack.encode((sequence, self.next_pos, rows))))
        except OSError as error:
            raise TraceError(f"{self._path}: cannot be written ({error.strerror})") from None
        self.sequence = sequence
        self.next_pos += len(rows)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)


def read_log(path: Path) -> LogContent:
    """Read a log up to a torn tail; TraceError if it is damaged before."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error.strerror})") from None
    if not content.startswith(MAGIC):
        raise TraceError(f"{path}: this is no node log")
    frames = _frames(path, content)
    end, first = next(frames, (0, b""))
    try:
        log = LogContent(path, msgspec.msgpack.decode(first, type=NodeLogHeader), whole_bytes=end)
        for frame_end, body in frames:
            log.sequence, first_pos, rows = msgspec.msgpack.decode(
                body, type=tuple[int, int, list[Row]]
            )
            if first_pos != len(log.rows):
                raise TraceError(f"{path}: rows {len(log.rows)} to {first_pos} are missing")
            log.rows.extend(rows)
            log.whole_bytes = frame_end
    except msgspec.DecodeError as error:
        raise TraceError(f"{path}: not a log of this version ({error})") from None
    return log


def read_rows_behind(path: Path, offset: int) -> tuple[list[Row], int]:
    """The rows of whole frames behind byte `offset` of a log that is being written, and where they
    end; 0 stands for the end of the header."""
    with path.open("rb") as file:
        file.seek(offset or len(MAGIC))
        content = file.read()
    at = 0
    if offset == 0:
        header = _body_at(content, 0)
        if header is None:
            return [], 0
        at = _FRAME.size + len(header)
    rows: list[Row] = []
    while (body := _body_at(content, at)) is not None:
        try:
            rows += msgspec.msgpack.decode(body, type=tuple[int, int, list[Row]])[2]
        except msgspec.DecodeError as error:
            raise TraceError(f"{path}: not a log of this version ({error})") from None
        at += _FRAME.size + len(body)
    return rows, (offset or len(MAGIC)) + at


def _begin(path: Path, header: NodeLogHeader) -> None:
    """Write the first frame under another name: a log has a whole header, or it is not there."""
    beside = path.with_name(path.name + ".new")
    beside.write_bytes(MAGIC + _frame(msgspec.msgpack.encode(asdict(header))))
    beside.rename(path)


def _check_same_run(before: NodeLogHeader, now: NodeLogHeader, path: Path) -> None:
    for fact in ("node", "cluster", "protocol", "groups", "level"):
        was, wanted = getattr(before, fact), getattr(now, fact)
        if was != wanted:
            raise TraceError(
                f"{path}: begun with {fact} {was!r}, now it is {wanted!r}; "
                "move the log away or choose another [trace] path"
            )


def _frame(body: bytes) -> bytes:
    return _FRAME.pack(len(body), _checksum(body)) + body


def _checksum(body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(len(body).to_bytes(4, "big")))


def _frames(path: Path, content: bytes) -> Iterator[tuple[int, bytes]]:
    """Where each whole frame ends, and its body."""
    at = len(MAGIC)
    while at < len(content):
        body = _body_at(content, at)
        if body is None:
            if any(_body_at(content, later) for later in range(at + 1, len(content) - 8)):
                raise TraceError(f"{path}: damaged at byte {at}")
            return
        at += _FRAME.size + len(body)
        yield at, body


def _body_at(content: bytes, at: int) -> bytes | None:
    if at + _FRAME.size > len(content):
        return None
    length, checksum = _FRAME.unpack_from(content, at)
    start = at + _FRAME.size
    if length == 0 or start + length > len(content):
        return None
    body = content[start : start + length]
    return body if _checksum(body) == checksum else None


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
