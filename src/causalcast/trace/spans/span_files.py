"""Which files hold spans, in which form, and the spans in them."""

import json
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Final

from causalcast.errors import TraceError
from causalcast.trace.log_files import LogFiles, open_log, unpacked_chunks
from causalcast.trace.spans.jaeger import read_jaeger
from causalcast.trace.spans.otlp_json import read_otlp_json
from causalcast.trace.spans.otlp_protobuf import TornMessage, read_otlp_protobuf, split_frames
from causalcast.trace.spans.span import Span

JSON_LINES, OTLP, OTLP_PROTOBUF, JAEGER = "jsonl", "otlp", "otlp-protobuf", "jaeger"
FORMS: Final = (JSON_LINES, OTLP, OTLP_PROTOBUF, JAEGER)
LOOKED_AT = 4096  # bytes from which the form is seen
Reader = Callable[[bytes | str, Collection[str]], Iterator[Span]]
READERS: Final[dict[str, Reader]] = {OTLP: read_otlp_json, JAEGER: read_jaeger}


def form_of(path: Path) -> str:
    """The form of a file, by how it begins."""
    with open_log(path) as file:
        return form_by(file.read1(LOOKED_AT))


def form_by(start: bytes) -> str:
    """The form of a file that begins so."""
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start[:1] == b"\n" and not text.startswith((b"{", b"[")):
        return OTLP_PROTOBUF  # field 1, bytes: 0x0a, which is an end of line, too
    if start[:1] == b"\0":
        return OTLP_PROTOBUF  # a length in four bytes
    names = text.replace(b" ", b"").replace(b"\n", b"").replace(b"\r", b"").replace(b"\t", b"")
    if names.startswith((b'{"resourceSpans"', b'{"resource_spans"')):
        return OTLP
    if b'"traceID"' in names and b'"spans"' in names:
        return JAEGER
    return OTLP if b'"resourceSpans":[' in names else JSON_LINES


def spans_of(files: LogFiles, form: str, wanted: Collection[str]) -> Iterator[Span]:
    """The spans of some files, all of one form."""
    for path in files.paths:
        if form == OTLP:
            yield from _lines_or_whole(files, path, wanted, read_otlp_json)
        elif form == JAEGER:
            yield from _lines_or_whole(files, path, wanted, read_jaeger)
        else:
            data = b"".join(files.chunks(path))
            yield from _protobuf(data, files.name(path), wanted, files.left_out)


def spans_in(
    content: bytes, name: str, form: str, wanted: Collection[str], left_out: list[str]
) -> Iterator[Span]:
    """The spans of a file that was read already; what is torn of it is told in `left_out`."""
    unpacked = b"".join(unpacked_chunks(content))
    if form == OTLP_PROTOBUF:
        yield from _protobuf(unpacked, name, wanted, left_out)
        return
    try:
        yield from READERS[form](unpacked, wanted)
    except TraceError as error:
        raise TraceError(f"{name}: {error}") from None


def _lines_or_whole(
    files: LogFiles, path: Path, wanted: Collection[str], read: Reader
) -> Iterator[Span]:
    """One object per line; or one for people, over many lines."""
    for line in files.lines_of(path):
        try:
            spans = list(read(line.text, wanted))
        except TraceError as error:
            if line.number == 1 and line.ends and not _is_json(line.text):
                yield from _whole(files, path, wanted, read)
                return
            if line.ends or _is_json(line.text):
                raise TraceError(f"{line.where}: {error}") from None
            files.leave_out(line)
        else:
            yield from spans


def _whole(files: LogFiles, path: Path, wanted: Collection[str], read: Reader) -> Iterator[Span]:
    try:
        yield from read(b"".join(files.chunks(path)), wanted)
    except TraceError as error:
        raise TraceError(f"{files.name(path)}: {error}") from None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except json.JSONDecodeError:
        return False
    return True


def _protobuf(
    data: bytes, name: str, wanted: Collection[str], left_out: list[str]
) -> Iterator[Span]:
    read = 0
    try:
        for message in split_frames(data) if data[:1] == b"\0" else [data]:
            for span in read_otlp_protobuf(message, wanted):
                read += 1
                yield span
    except TornMessage:
        left_out.append(f"{name}: torn after {read:,} spans: the end is missing")
    except TraceError as error:
        raise TraceError(f"{name}: {error}") from None
