"""The trace of one real node: rows appended to checksummed files, one write per turn.

    file   = magic, frame, frame, …          frame = length (4), CRC-32 (4), msgpack
    first frame: what was run, and where this piece begins (`NodeLogHeader`)
    further frames: [sequence, first pos, rows], and now and then a mark:
    [sequence, next pos, [], the highest number met of each origin, the groups the node is in]

What was written survives the process: a write that has returned is in the kernel, so SIGKILL loses
no row whose effects others may have seen. `sequence` is the last entry of the node's journal whose
rows are in the log; after a crash the node appends the rows of the entries behind it.

A log is written in pieces. The one that grows is `node-ID.nodelog`; when it is large enough it is
renamed to `node-ID.POS.nodelog`, after its first row, and the next one begins. The oldest pieces go
when all of them together are too large. A start reads the last piece, and decodes what stands
behind its last mark, so it takes the same time however long the node has run.

A log never stops its node: rows that cannot be written wait in memory, and if they become too many
they are lost, counted and missed by whoever reads the log.
"""

import re
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from causalcast.disk import WHOM_THE_UMASK_LETS, Disk
from causalcast.errors import TraceError
from causalcast.limits import Limit, Span
from causalcast.trace.kinds import KINDS, LEVELS
from causalcast.trace.log_rows import NONE, Row, is_the_end, note_rows

MAGIC: Final = b"CCTRACE2"
ONE_PIECE: Final = b"CCTRACE1"  # before there were pieces and marks
SUFFIX: Final = ".nodelog"
MAX_BYTES: Final = Limit(
    "trace.node_log.max_bytes",
    256 << 20,
    least=1 << 16,
    most=1 << 40,
    unit="bytes",
    about="what the trace may take of the disk; the oldest rows go",
    setting="[trace] max_bytes",
)
PIECES: Final = Limit(
    "trace.node_log.pieces",
    8,
    least=2,
    most=1024,
    unit="pieces",
    about="pieces of a log that is as large as it may be",
)
LARGEST_PIECE: Final = Limit(
    "trace.node_log.largest_piece",
    8 << 20,
    least=1 << 12,
    most=1 << 30,
    unit="bytes",
    about="a piece of a log: a start reads one",
)
MARK_EVERY: Final = Limit(
    "trace.node_log.mark_every",
    1 << 18,
    least=100,
    most=1 << 26,
    unit="bytes",
    about="between marks in a log: a start decodes so many",
)
MOST_WAITING: Final = Limit(
    "trace.node_log.most_waiting",
    1 << 16,
    least=1,
    most=1 << 24,
    unit="rows",
    about="rows that wait for a disk that takes none; more are lost",
)
TRY_AGAIN: Final = Span(
    "trace.node_log.try_again",
    1.0,
    least=0.0,
    most=60.0,
    about="between attempts to write to such a disk",
)
READ_AGAIN: Final = 5  # times, if a log changes its pieces while it is read
_ROWS, _MARK = 0x93, 0x95  # how the msgpack of a frame begins: an array of three, or of five
_SCANNED: Final = 1 << 16  # bytes behind what looks torn in which intact frames are looked for
_FRAME: Final = struct.Struct(">II")
_PIECE: Final = re.compile(rf"(.+)\.(\d{{15}}){re.escape(SUFFIX)}")
_Rows = tuple[int, int, list[Row]]
_Mark = tuple[int, int, list[Row], dict[int, int], list[int]]


@dataclass
class NodeLogHeader:
    """Who wrote the log, what it took part in, and what was before this piece of it."""

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
    first_pos: int = 0  # of the rows of this piece
    sequence: int = 0  # of the journal, at the end of the piece before
    last_us: int = 0  # of the last row before
    highest: dict[int, int] = field(default_factory=dict)  # number by origin, in rows before
    members: list[int] | None = None  # the groups the node was in; None: those it founded
    lost: bool = False  # there were rows before, and nobody knows which

    def groups_at_first(self) -> list[int]:
        """The groups the node was in where this piece begins."""
        return self.founded() if self.members is None else self.members

    def founded(self, first: int = 0) -> list[int]:
        """The groups from the `first` on that the node founded."""
        groups = enumerate(self.groups.values())
        return [group for group, nodes in groups if group >= first and self.node in nodes]

    def with_groups_of(self, later: "NodeLogHeader") -> "NodeLogHeader":
        """The same, as if the groups had been there that were added by a later piece: nobody
        published to them before."""
        if len(later.groups) <= len(self.groups):
            return self
        members = self.members
        if members is not None:
            members = [*members, *later.founded(len(self.groups))]
        return replace(self, groups=later.groups, members=members)


@dataclass
class LogContent:
    """A log as it was found: all pieces that are there."""

    path: Path
    header: NodeLogHeader  # of the first piece
    rows: list[Row] = field(default_factory=list)
    sequence: int = 0
    whole_bytes: int = 0  # of the last piece; what follows is torn

    def ended_well(self) -> bool:
        """Whether the node left the run in good order; leaving a group is not that."""
        return bool(self.rows) and is_the_end(self.rows[-1])

    def last_us(self) -> int:
        """The last sign of life."""
        return self.rows[-1][0] if self.rows else _begin_us(self.header)


class NodeLog:
    """Rows of this node, at one level of detail; `write` brings them to the kernel.

    Large because the head of each piece repeats how far the whole log has
    come: positions, numbers, members and losses are kept here together, beside the open file.
    """

    def __init__(
        self,
        path: Path,
        header: NodeLogHeader,
        max_bytes: int = MAX_BYTES.default,
        on_trouble: Callable[[str], None] | None = None,
        disk: Disk | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin the log at `path`, or go on with it behind its last whole frame.

        `on_trouble` hears that rows cannot be written, and that they can again; `now` has seconds.
        """
        self._disk = disk = disk or Disk()
        self._now = now
        wanted = LEVELS[header.level]
        self.wants = [kind in wanted for kind in KINDS]
        self.lost_rows = 0  # in this life
        disk.make_folder(path.parent)
        found = _last_end(path, disk)
        if found is None:
            _begin(path, header, disk)
            found = _End(header)
        else:
            _check_same_run(found.header, header, path)
        self.sequence = found.sequence  # of the journal: rows up to this entry are here
        self.next_pos = found.next_pos
        self.ended_well = found.ended_well  # the life before this one
        self.last_us = found.last_us  # of that life
        self._highest = found.highest
        new_groups = header.founded(len(found.header.groups))
        self._members = {**found.members, **dict.fromkeys(new_groups)}
        self._rows: list[Row] = []
        self._path = path
        self._header = replace(header, lost=header.lost or found.header.lost)
        self._on_trouble = on_trouble
        self._trouble = False
        self._try_at = 0.0
        self._max_bytes = max_bytes
        self._piece_bytes = min(LARGEST_PIECE.value, max(1, max_bytes // PIECES.value))
        self._first_pos = found.header.first_pos
        self._size = found.whole_bytes or disk.size_of(path)
        self._marked_at = self._size
        self._file = disk.open(path)
        if found.whole_bytes:
            self._file.truncate(found.whole_bytes)
        self.older_bytes = sum(disk.size_of(piece) for piece in pieces_of(path, disk))
        before = found.header
        if found.is_old or before.level != header.level or len(before.groups) < len(header.groups):
            self._next_piece()

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
            row = (at_us, kind, message, group, peer, payload_bytes, metadata_bytes, value, note)
            self.extend([row])

    def extend(self, rows: list[Row]) -> None:
        """The same for rows of kinds that the level asks for."""
        self._rows += rows
        note_rows(rows, self._highest, self._members)

    def write(self, sequence: int) -> None:
        """Bring the rows of this turn to the kernel; they contain those of entry `sequence`."""
        if not self._rows or (self._trouble and self._now() < self._try_at):
            self._let_go_of_too_many()
            return
        body = msgspec.msgpack.encode((sequence, self.next_pos, self._rows))
        if not self._append(body):
            self._let_go_of_too_many()
            return
        last = self._rows[-1]
        self.sequence = sequence
        self.next_pos += len(self._rows)
        self.last_us = last[0]
        self._rows = []
        if is_the_end(last):
            return  # a log that ended well is recognised by its last row
        if self._size >= self._piece_bytes:
            self._next_piece()
        elif self._size - self._marked_at >= MARK_EVERY.value:
            self._mark()

    def waits(self) -> bool:
        """Whether rows could not be written, and wait."""
        return self._trouble and bool(self._rows)

    def disk_bytes(self) -> int:
        """What all pieces take on disk."""
        return self._size + self.older_bytes

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _append(self, body: bytes) -> bool:
        """Write a frame; if that fails nothing of it stays, and it is tried again later."""
        data = _frame(body)
        try:
            self._file.write(self._size, data)
        except OSError as error:
            self._file.truncate(self._size)
            self._failed(error)
            return False
        self._size += len(data)
        if self._trouble:
            self._trouble = False
            self._tell(f"{self._path}: is written again; {self.lost_rows} rows were lost")
        return True

    def _failed(self, error: OSError) -> None:
        self._try_at = self._now() + TRY_AGAIN.value
        if not self._trouble:
            self._trouble = True
            self._tell(f"{self._path}: cannot be written ({error.strerror}); the node goes on")

    def _tell(self, text: str) -> None:
        if self._on_trouble is not None:
            self._on_trouble(text)

    def _let_go_of_too_many(self) -> None:
        if len(self._rows) > MOST_WAITING.value:
            self.lost_rows += len(self._rows)
            self.next_pos += len(self._rows)  # whoever reads the log misses them
            self._rows = []

    def _mark(self) -> None:
        self._marked_at = self._size
        mark: _Mark = (self.sequence, self.next_pos, [], self._highest, list(self._members))
        self._append(msgspec.msgpack.encode(mark))

    def _next_piece(self) -> None:
        """Put the piece aside and begin the next; let the oldest go where there are too many."""
        header = replace(
            self._header,
            first_pos=self.next_pos,
            sequence=self.sequence,
            last_us=self.last_us,
            highest=self._highest,
            members=list(self._members),
        )
        aside = _piece_path(self._path, self._first_pos)
        try:
            if self.next_pos > self._first_pos:
                self._disk.rename(self._path, aside)
                self.older_bytes += self._size
            _begin(self._path, header, self._disk)
            file = self._disk.open(self._path)
        except OSError as error:  # the old one goes on: it is open still
            if self._disk.exists(aside) and not self._disk.exists(self._path):
                self._disk.rename(aside, self._path)
                self.older_bytes -= self._size
            self._marked_at = self._size
            self._piece_bytes += MARK_EVERY.value
            self._failed(error)
            return
        self._file.close()
        self._file = file
        self._first_pos = self.next_pos
        self._size = self._marked_at = self._disk.size_of(self._path)
        self._let_old_pieces_go()

    def _let_old_pieces_go(self) -> None:
        for piece in pieces_of(self._path, self._disk):
            if self.disk_bytes() + self._piece_bytes <= self._max_bytes:
                break
            self.older_bytes -= self._disk.size_of(piece)
            self._disk.remove(piece)


class _End:
    """Where a log ends: what a node must know to go on with it."""

    def __init__(self, header: NodeLogHeader, whole_bytes: int = 0, is_old: bool = False) -> None:
        self.header = header
        self.whole_bytes = whole_bytes
        self.is_old = is_old
        self.sequence = header.sequence
        self.next_pos = header.first_pos
        self.last_us = _begin_us(header)
        self.ended_well = False
        self.highest = dict(header.highest)
        self.members = dict.fromkeys(header.groups_at_first())

    def take(self, body: bytes) -> None:
        """Go on over a frame."""
        if body[0] == _MARK:
            self.sequence, self.next_pos, _, self.highest, members = msgspec.msgpack.decode(
                body, type=_Mark
            )
            self.members = dict.fromkeys(members)
            return
        self.sequence, self.next_pos, rows = msgspec.msgpack.decode(body, type=_Rows)
        self.next_pos += len(rows)
        note_rows(rows, self.highest, self.members)
        self.look_at_last(rows)

    def look_at_last(self, rows: list[Row]) -> None:
        """See whether the node left in good order, and when it was last there."""
        if rows:
            self.last_us = rows[-1][0]
            self.ended_well = is_the_end(rows[-1])


def pieces_of(path: Path, disk: Disk | None = None) -> list[Path]:
    """The pieces that were put aside of the log at `path`, in order."""
    stem = path.name.removesuffix(SUFFIX)
    disk = disk or Disk()
    if not disk.exists(path.parent):
        return []
    return [
        path.with_name(name)
        for name in disk.names_in(path.parent)
        if (match := _PIECE.fullmatch(name)) and match[1] == stem
    ]


def count_rows(path: Path) -> int:
    """How many rows the log at `path` has had so far; changes nothing."""
    return _end_of(path, Disk()).next_pos


def ended_well(path: Path, disk: Disk) -> bool:
    """Whether the last row of the log at `path` says that the node left in good order."""
    end = _last_end(path, disk)
    return end is not None and end.ended_well


def put_aside(path: Path, disk: Disk, at_us: int) -> None:
    """Rename all pieces of a log, so that nobody takes them for one; people may look at them."""
    for piece in [*pieces_of(path, disk), path]:
        if disk.exists(piece):
            disk.rename(piece, piece.with_name(f"{piece.name}.aside-{at_us}"))


def log_of(path: Path) -> Path:
    """The log that a file is a piece of, perhaps the one that grows."""
    match = _PIECE.fullmatch(path.name)
    return path if match is None else path.with_name(match[1] + SUFFIX)


def first_pos_of(path: Path) -> int:
    """Where a piece begins, from its name or its header."""
    match = _PIECE.fullmatch(path.name)
    return int(match[2]) if match is not None else header_of(path).first_pos


def header_of(path: Path) -> NodeLogHeader:
    """The header of one piece."""
    with path.open("rb") as file:
        magic = file.read(len(MAGIC))
        head = file.read(_FRAME.size)
        length = _FRAME.unpack(head)[0] if len(head) == _FRAME.size else 0
        body = _body_at(head + file.read(length), 0)
    if magic not in (MAGIC, ONE_PIECE) or body is None:
        raise TraceError(f"{path}: this is no node log")
    return _decoded_header(path, body)


def read_log(path: Path) -> LogContent:
    """Read a log up to a torn tail; TraceError if it is damaged before."""
    for attempt in range(READ_AGAIN):
        try:
            pieces = [*pieces_of(path), path]
            log = _read_piece(pieces[0])
            for piece in pieces[1:]:
                further = _read_piece(piece)
                if further.header.first_pos != log.header.first_pos + len(log.rows):
                    raise _missing(path, log, further.header.first_pos)
                log.header = log.header.with_groups_of(further.header)
                log.rows += further.rows
                log.sequence, log.whole_bytes = further.sequence, further.whole_bytes
        except (FileNotFoundError, TraceError) as error:  # a piece may have been put aside
            if attempt + 1 < READ_AGAIN and pieces != [*pieces_of(path), path]:
                continue
            if isinstance(error, TraceError):
                raise
            raise TraceError(f"{path}: cannot be read ({error.strerror})") from None
        log.path = path
        return log
    raise TraceError(f"{path}: changes too fast to be read")


def _read_piece(path: Path) -> LogContent:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error.strerror})") from None
    if not content.startswith((MAGIC, ONE_PIECE)):
        raise TraceError(f"{path}: this is no node log")
    frames = _frames(path, content)
    end, first = next(frames, (0, b""))
    log = LogContent(path, _decoded_header(path, first), whole_bytes=end)
    log.sequence = log.header.sequence
    for frame_end, body in frames:
        log.whole_bytes = frame_end
        if body[0] == _MARK:
            continue
        log.sequence, first_pos, rows = _decoded_rows(path, body)
        if first_pos != log.header.first_pos + len(log.rows):
            raise _missing(path, log, first_pos)
        log.rows.extend(rows)
    return log


def _missing(path: Path, log: LogContent, first_pos: int) -> TraceError:
    there = log.header.first_pos + len(log.rows)
    return TraceError(
        f"{path}: rows {there} to {first_pos} are missing (the node could not write them, or a "
        "piece was taken away)"
    )


def read_rows_behind(path: Path, offset: int) -> tuple[list[Row], int]:
    """The rows of whole frames behind byte `offset` of a piece that is being written, and where
    they end; 0 stands for the end of the header."""
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
        if body[0] != _MARK:
            rows += _decoded_rows(path, body)[2]
        at += _FRAME.size + len(body)
    return rows, (offset or len(MAGIC)) + at


def _last_end(path: Path, disk: Disk) -> _End | None:
    """Where the log at `path` ends; None if there is none. Decodes only what is near its end."""
    pieces = pieces_of(path, disk)
    if not disk.exists(path):
        if not pieces:
            return None
        disk.rename(pieces[-1], path)  # a crash came before the next piece began
    return _end_of(path, disk)


def _end_of(path: Path, disk: Disk) -> _End:
    content = disk.read(path)
    if not content.startswith((MAGIC, ONE_PIECE)):
        raise TraceError(f"{path}: this is no node log")
    bodies: list[tuple[int, int]] = []  # where they begin and end
    at = len(MAGIC)
    while (body := _body_at(content, at)) is not None:
        bodies.append((at + _FRAME.size, at + _FRAME.size + len(body)))
        at = bodies[-1][1]
    if not bodies or _is_intact_behind(content, at):
        raise TraceError(f"{path}: damaged at byte {at}")
    header = _decoded_header(path, content[slice(*bodies[0])])
    end = _End(header, at, not content.startswith(MAGIC))
    marked = max(
        (i for i, (start, _) in enumerate(bodies) if i and content[start] == _MARK), default=1
    )
    try:
        for start, stop in bodies[marked:]:
            end.take(content[start:stop])
        if marked > 1 and marked == len(bodies) - 1:  # nothing behind the mark
            end.look_at_last(_decoded_rows(path, content[slice(*bodies[marked - 1])])[2])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: not a log of this version ({error})") from None
    return end


def _is_intact_behind(content: bytes, at: int) -> bool:
    """Whether frames follow what cannot be read: then it is not torn, but damaged."""
    last = min(at + _SCANNED, len(content) - _FRAME.size)
    return any(_body_at(content, later) is not None for later in range(at + 1, last))


def _begin_us(header: NodeLogHeader) -> int:
    started = int(datetime.fromisoformat(header.started_at).timestamp() * 1_000_000)
    return header.last_us or started


def _piece_path(path: Path, first_pos: int) -> Path:
    return path.with_name(f"{path.name.removesuffix(SUFFIX)}.{first_pos:015d}{SUFFIX}")


def _decoded_header(path: Path, body: bytes) -> NodeLogHeader:
    try:
        return msgspec.msgpack.decode(body, type=NodeLogHeader)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: not a log of this version ({error})") from None


def _decoded_rows(path: Path, body: bytes) -> _Rows:
    try:
        rows: _Rows = msgspec.msgpack.decode(body, type=_Rows)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: not a log of this version ({error})") from None
    return rows


def _begin(path: Path, header: NodeLogHeader, disk: Disk) -> None:
    """Write the first frame under another name: a log has a whole header, or it is not there."""
    beside = path.with_name(path.name + ".new")
    file = disk.open(beside, new=True, mode=WHOM_THE_UMASK_LETS)
    try:
        file.write(0, MAGIC + _frame(msgspec.msgpack.encode(asdict(header))))
    finally:
        file.close()
    disk.rename(beside, path)


def begins_with(groups: dict[str, list[int]], fewer: dict[str, list[int]]) -> bool:
    """Whether `groups` are `fewer`, in their order, and others behind them."""
    return list(groups.items())[: len(fewer)] == list(fewer.items())


def _check_same_run(before: NodeLogHeader, now: NodeLogHeader, path: Path) -> None:
    for fact in ("node", "cluster", "protocol", "groups"):
        was, wanted = getattr(before, fact), getattr(now, fact)
        if was != wanted and not (fact == "groups" and begins_with(wanted, was)):
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
            if _is_intact_behind(content, at):
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
