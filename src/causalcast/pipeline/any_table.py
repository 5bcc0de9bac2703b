"""`causalcast.verify`: judges a table of events that somebody has in Spark, wherever it came from.

    frame = spark.read.table("events")          # node, pos or time, kind, message, group, …
    verdict = causalcast.verify(frame)
    print(verdict.verdict, verdict.to_json())

The columns are those of a line in JSON (docs/formats.md). A table that grows (`readStream`) is
judged batch by batch: see `live_table`.
"""

import shutil
import tempfile
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from causalcast.errors import ConfigError
from causalcast.pipeline.foreign.foreign_import import import_parsed
from causalcast.pipeline.foreign.foreign_lines import parse_table
from causalcast.pipeline.live.live_table import watch_table
from causalcast.pipeline.spark.spark_job import check_runs
from causalcast.pipeline.verdicts.verdict import Verdict, parse_promise, verdict_of

NEEDED = ("node", "kind", "message")
TIMES = ("pos", "time", "at_us", "at_ns")


def verify(
    frame: Any,
    *,
    name: str = "table",
    whole: bool | None = None,
    redelivery: str | None = None,
    promise: str | None = None,
    out: str | Path | None = None,
    tell: Callable[[Any], None] | None = None,
    checkpoint: str | Path | None = None,
) -> Any:
    """The verdict on a DataFrame of events, or a running query if the frame is a stream.

    `whole`, `redelivery` and `promise` are as for `causalcast trace import` and `verify`. The run
    that is made of the table is kept in the folder `out`, which all machines of a cluster must
    reach; without it, in a temporary one. Of a stream `tell` hears of every batch.
    """
    _check_columns(frame)
    if frame.isStreaming:
        return watch_table(frame, tell, redelivery, checkpoint)
    wanted = parse_promise(promise)
    started = time.perf_counter()
    scratch = tempfile.mkdtemp(prefix="causalcast-verify-") if out is None else None
    folder = Path(scratch) / name if scratch is not None else Path(str(out))
    spark = frame.sparkSession
    try:
        parsed = parse_table(frame, name)
        import_parsed(spark, None, parsed, folder, name, redelivery, whole)
        (checked,) = check_runs(spark, [folder])
        verdict = verdict_of(folder, checked, wanted)
    except BaseException:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)
        raise
    if scratch is not None:  # its counter-examples are drawn from there
        weakref.finalize(verdict, shutil.rmtree, scratch, ignore_errors=True)
    verdict.seconds = time.perf_counter() - started
    return verdict


def _check_columns(frame: Any) -> None:
    for column in NEEDED:
        if column not in frame.columns:
            raise ConfigError(f"the table has no column {column!r}; it needs {', '.join(NEEDED)}")
    if not any(column in frame.columns for column in TIMES):
        raise ConfigError(f"the table has none of the columns {', '.join(TIMES)}")


__all__ = ["Verdict", "verify"]
