"""Files that other systems wrote, as bytes and as lines: standard input, folders, `.gz`, `.zst`.

Whether a file is compressed is seen from its first bytes, not from its name. A process that was
killed leaves a torn end: half a last line, or half a compressed stream. What is whole is read, what
is torn is left out, and `LogFiles.left_out` tells it.
"""

import contextlib
import gzip
import io
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from causalcast.errors import TraceError

STANDARD_INPUT = Path("-")
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
SHRUNK = 12  # how many bytes of text a compressed byte may stand for; for planning only
CHUNK = 1 << 20
ZSTD_CHUNK = 4096  # what is lost at most before a torn end


@dataclass(frozen=True)
class LogLine:
    """A line and where it stands."""

    path: str
    number: int
    text: str
    ends: bool = True
    """Whether an end of line follows; a line that was torn has none."""

    @property
    def where(self) -> str:
        """What a complaint about it begins with."""
        return f"{self.path}: line {self.number}"


@dataclass
class LogFiles:
    """Files to read as one log, in this order, and what could not be read of them."""

    paths: list[Path]
    names: dict[Path, str] = field(default_factory=dict)
    """What people call a file, where that is not its path."""
    left_out: list[str] = field(default_factory=list)

    @property
    def bytes_of_text(self) -> int:
        """About how much there is to read, compressed files unpacked."""
        return sum(
            path.stat().st_size * (SHRUNK if compression_of(path) else 1) for path in self.paths
        )

    @property
    def title(self) -> str:
        """What the log is called."""
        return title_of(Path(self.name(self.paths[0])).name)

    def name(self, path: Path) -> str:
        """What people call a file."""
        return self.names.get(path, str(path))

    def lines(self) -> Iterator[LogLine]:
        """Every line that is not empty, of every file."""
        for path in self.paths:
            yield from self.lines_of(path)

    def lines_of(self, path: Path) -> Iterator[LogLine]:
        """The lines of one file that are not empty."""
        name = self.name(path)
        for number, line in enumerate(_split(self.chunks(path)), 1):
            if line.strip():
                try:
                    text = line.decode("utf-8")
                except UnicodeDecodeError:
                    raise TraceError(f"{name}: cannot be read (not UTF-8 text)") from None
                yield LogLine(name, number, text, ends=line.endswith(b"\n"))

    def chunks(self, path: Path) -> Iterator[bytes]:
        """The bytes of a file, unpacked, as far as they can be had."""
        name, read = self.name(path), 0
        try:
            with open_log(path) as file:
                while chunk := file.read1(CHUNK):  # read() would lose what precedes a torn end
                    read += len(chunk)
                    yield chunk
        except EOFError:
            self.left_out.append(
                f"{name}: the compressed end is torn, after {read:,} bytes of text"
            )
        except (OSError, zlib.error) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise TraceError(f"{name}: cannot be read ({reason})") from None

    def leave_out(self, line: LogLine) -> None:
        """A torn last line: told, not refused."""
        self.left_out.append(f"{line.where}: torn: no JSON, and no end of line after it")


@contextlib.contextmanager
def log_files(places: Sequence[Path]) -> Iterator[LogFiles]:
    """The files at some places: files, folders with all that is in them, `-`."""
    with tempfile.TemporaryDirectory(prefix="causalcast-input-") as folder:
        found = LogFiles([])
        for place in places:
            if place == STANDARD_INPUT:
                kept = Path(folder) / "standard-input"
                _keep_standard_input(kept)
                found.names[kept] = "standard input"
                found.paths.append(kept)
            else:
                found.paths += files_at(place)
        yield found


def title_of(name: str) -> str:
    """A file's name without what only says its form."""
    for ending in (".gz", ".zst"):
        name = name.removesuffix(ending)
    return name.rpartition(".")[0] or name


def files_at(place: Path) -> list[Path]:
    """A file, or the files of a folder and of folders in it, by name; hidden ones are left out."""
    if place.is_dir():
        inside = [path for path in sorted(place.rglob("*")) if path.is_file()]
        shown = [path for path in inside if not _is_hidden(path.relative_to(place))]
        if not shown:
            raise TraceError(f"{place}: a folder without files")
        return shown
    if not place.exists():
        raise TraceError(f"{place}: cannot be read (no such file)")
    return [place]


def _is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def compression_of(path: Path) -> str | None:
    """`gzip`, `zstd` or None, by the first bytes."""
    try:
        with path.open("rb") as file:
            first = file.read(4)
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error.strerror})") from None
    return compression_in(first)


def compression_in(first: bytes) -> str | None:
    """`gzip`, `zstd` or None, by the first bytes."""
    if first.startswith(GZIP):
        return "gzip"
    return "zstd" if first.startswith(ZSTD) else None


def open_log(source: Path | bytes) -> "io.BufferedIOBase | _ZstdFile":
    """A file's bytes, unpacked as they are read; or those of a file that was read already."""
    file: io.BufferedIOBase
    if isinstance(source, bytes):
        compression, file = compression_in(source[:4]), io.BytesIO(source)
    else:
        compression, file = compression_of(source), source.open("rb")
    if compression == "gzip":
        return gzip.GzipFile(fileobj=file)
    return _ZstdFile(file) if compression == "zstd" else file


def unpacked_chunks(content: bytes) -> Iterator[bytes]:
    """The bytes of a file's content, unpacked; a torn stream just ends."""
    with open_log(content) as file, contextlib.suppress(EOFError):
        while chunk := file.read1(CHUNK):
            yield chunk


def whole_and_torn(content: bytes) -> Iterator[bytes]:
    """The lines of a file's content, unpacked, with their ends; the last one may have none."""
    return _split(unpacked_chunks(content))


class _ZstdFile:
    """A zstd file whose torn end is told as gzip tells it: by an EOFError after what is whole."""

    def __init__(self, file: io.BufferedIOBase) -> None:
        self._stream = pa.CompressedInputStream(file, "zstd")

    def __enter__(self) -> "_ZstdFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def read1(self, size: int) -> bytes:
        try:
            data: bytes = self._stream.read(min(size, ZSTD_CHUNK))
        except OSError as error:
            if "runcated" in str(error):
                raise EOFError from None
            raise
        return data


def _keep_standard_input(path: Path) -> None:
    """A form must be recognised and a size known before anything is read, so it is kept first."""
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)


def _split(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Lines with their ends; only the very last one may have none."""
    rest = b""
    for chunk in chunks:
        lines = (rest + chunk).split(b"\n")
        rest = lines.pop()
        for line in lines:
            yield line + b"\n"
    if rest:
        yield rest
