"""All metrics of some runs, side by side."""

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
from causalcast.pipeline.tables import Tables

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
    for metric in OF_A_RUN:
        frame = metric(tables)
        names = [name for name in frame.columns if name != "run"]
        for of_run in values:
            of_run.update(dict.fromkeys(names))
        for row in frame.collect():
            values[row["run"]].update({name: row[name] for name in names})
    return values


def summary_by(tables: Tables, runs: int, key: str) -> list[list[dict[str, Any]]]:
    """Per run a list of such dictionaries, one per group, node or second, in that order."""
    found: list[dict[int, dict[str, Any]]] = [{} for _ in range(runs)]
    names: dict[str, None] = {}
    for metric in BY[key]:
        frame = metric(tables, ("run", key))
        of_metric = [name for name in frame.columns if name not in ("run", key)]
        names.update(dict.fromkeys(of_metric))
        for row in frame.where(frame[key].isNotNull()).collect():
            values = found[row["run"]].setdefault(row[key], {})
            values.update({name: row[name] for name in of_metric})
    return [
        [{key: value, **dict.fromkeys(names), **rows[value]} for value in sorted(rows)]
        for rows in found
    ]
