"""All metrics of some runs, side by side."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from causalcast.pipeline.metrics.compaction_degree import compaction_degree
from causalcast.pipeline.metrics.hops import hops
from causalcast.pipeline.metrics.latency import latency
from causalcast.pipeline.metrics.memory import memory
from causalcast.pipeline.metrics.metadata_size import metadata_size
from causalcast.pipeline.metrics.recovery import recovery
from causalcast.pipeline.metrics.redundancy import redundancy
from causalcast.pipeline.metrics.reliability import reliability
from causalcast.pipeline.metrics.throughput import fastest_origin, throughput
from causalcast.pipeline.metrics.waiting import waiting
from causalcast.pipeline.spark.tables import Keys, Tables

OF_A_RUN = (
    throughput, fastest_origin, latency, reliability, redundancy, waiting, metadata_size, memory,
    recovery, hops, compaction_degree,
)  # fmt: skip
# What can be told apart: the state of a node and its recoveries belong to no group.
BY = {
    "group": tuple(m for m in OF_A_RUN if m not in (memory, recovery)),
    "node": OF_A_RUN,
    "second": OF_A_RUN,
}


def summary(tables: Tables, runs: int) -> list[dict[str, Any]]:
    """Per run a dictionary from metric to value; what a trace cannot tell is none."""
    values: list[dict[str, Any]] = [{} for _ in range(runs)]
    for names, rows in _collected([metric(tables) for metric in OF_A_RUN], ("run",)):
        for of_run in values:
            of_run.update(dict.fromkeys(names))
        for row in rows:
            values[row["run"]].update({name: row[name] for name in names})
    return values


def _collected(frames: list[Any], keys: Keys) -> Iterator[tuple[list[str], list[Any]]]:
    """The columns and the rows of each frame, in order.

    Two at a time: for small runs most of the time is planning, which one core does.
    """
    with ThreadPoolExecutor(2) as pool:
        for frame, rows in zip(frames, pool.map(lambda f: f.collect(), frames), strict=True):
            yield [name for name in frame.columns if name not in keys], rows


def summary_by(tables: Tables, runs: int, key: str) -> list[list[dict[str, Any]]]:
    """Per run a list of such dictionaries, one per group, node or second, in that order."""
    found: list[dict[int, dict[str, Any]]] = [{} for _ in range(runs)]
    names: dict[str, None] = {}
    frames = [metric(tables, ("run", key)) for metric in BY[key]]
    frames = [frame.where(frame[key].isNotNull()) for frame in frames]
    for of_metric, rows in _collected(frames, ("run", key)):
        names.update(dict.fromkeys(of_metric))
        for row in rows:
            values = found[row["run"]].setdefault(row[key], {})
            values.update({name: row[name] for name in of_metric})
    return [
        [{key: value, **dict.fromkeys(names), **rows[value]} for value in sorted(rows)]
        for rows in found
    ]
