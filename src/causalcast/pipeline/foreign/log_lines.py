"""The lines of files that other systems wrote, as a DataFrame: `text, order, torn`.

`order` is a line's place in its file: where its block begins, and its place in that block. Lines of
several files keep the order of the files' names. Plain text is read by Spark, in blocks; compressed
files are unpacked by Python in the workers, one task per file, because Spark knows `.zst` only with
native libraries and gives up on a torn `.gz`.
"""

import io
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from causalcast.pipeline.logs.places import Place
from causalcast.trace.log_files import compression_of, whole_and_torn

LINES = "text string, order struct<path: string, block: long, line: long>, torn boolean"
TAIL = 1 << 20  # bytes looked at for a torn last line
BATCH = 10_000


def read_lines(spark: Any, paths: Sequence[Place]) -> Any:
    """Every line with its place, and whether it is the torn end of its file."""
    packed = [path for path in paths if _is_packed(path)]
    plain = [path for path in paths if not _is_packed(path)]
    if not packed:
        return _plain_lines(spark, plain)
    unpacked = _packed_lines(spark, packed)
    return unpacked.unionByName(_plain_lines(spark, plain)) if plain else unpacked


def uri_of(path: Place) -> str:
    """As Spark wants to be told where a file is."""
    return path.resolve().as_uri() if isinstance(path, Path) else path.uri


def _is_packed(path: Place) -> bool:
    if isinstance(path, Path):
        return compression_of(path) is not None
    return path.uri.endswith((".gz", ".zst"))


def _plain_lines(spark: Any, paths: Sequence[Place]) -> Any:
    place = F.struct(
        F.regexp_replace("_metadata.file_path", "^file:/+", "file:///").alias("path"),
        F.col("_metadata.file_block_start").alias("block"),
        F.monotonically_increasing_id().alias("line"),
    )
    torn_ends = [(path, torn_end(path)) for path in paths if isinstance(path, Path)]
    torn = F.lit(False)
    for path, text in torn_ends:
        if text is not None:
            here = F.col("_metadata.file_path").endswith(path.resolve().as_uri()[len("file://") :])
            torn = torn | (here & (F.col("value") == text))
    return spark.read.text([uri_of(path) for path in paths]).select(
        F.col("value").alias("text"), place.alias("order"), torn.alias("torn")
    )


def torn_end(path: Path) -> str | None:
    """The last line of a plain file if it has no end and is no JSON."""
    with path.open("rb") as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(max(0, size - TAIL))
        last = file.read().rpartition(b"\n")[2]
    text = last.decode("utf-8", "replace")
    return text if text.strip() and not is_json(text) else None


def is_json(text: str) -> bool:
    """Whether a line is whole."""
    try:
        json.loads(text)
    except json.JSONDecodeError:
        return False
    return True


def _packed_lines(spark: Any, paths: Sequence[Place]) -> Any:
    files = spark.read.format("binaryFile").load([uri_of(path) for path in paths])
    return files.select("path", "content").mapInArrow(_unpack, LINES)


def _unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for path, content in zip(batch["path"], batch["content"], strict=True):
            name = re.sub("^file:/+", "file:///", path.as_py())
            yield from _batches(name, content.as_py())


def _batches(path: str, content: bytes) -> Iterator[pa.RecordBatch]:
    texts: list[str] = []
    first = 0
    torn = None
    for line in whole_and_torn(content):
        if not line.endswith(b"\n") and not is_json(line.decode("utf-8", "replace")):
            torn = line.decode("utf-8", "replace")
            break
        texts.append(line.decode("utf-8", "replace").rstrip("\n"))
        if len(texts) == BATCH:
            yield _batch(path, first, texts, False)
            first, texts = first + len(texts), []
    yield _batch(path, first, texts, False)
    if torn is not None:
        yield _batch(path, first + len(texts), [torn], True)


def _batch(path: str, first: int, texts: list[str], torn: bool) -> pa.RecordBatch:
    order = [{"path": path, "block": 0, "line": first + n} for n in range(len(texts))]
    kind = pa.struct([("path", pa.string()), ("block", pa.int64()), ("line", pa.int64())])
    return pa.RecordBatch.from_arrays(
        [pa.array(texts, pa.string()), pa.array(order, kind), pa.array([torn] * len(texts))],
        names=["text", "order", "torn"],
    )
