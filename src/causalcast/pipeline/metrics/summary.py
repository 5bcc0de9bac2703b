"""All metrics of some runs, side by side."""

from typing import Any

from causalcast.pipeline.metrics.hops import hops
from causalcast.pipeline.metrics.latency import latency
from causalcast.pipeline.metrics.metadata_size import metadata_size
from causalcast.pipeline.metrics.redundancy import redundancy
from causalcast.pipeline.metrics.throughput import throughput
from causalcast.pipeline.metrics.waiting import waiting
from causalcast.pipeline.tables import Tables

ALL = (throughput, latency, redundancy, waiting, metadata_size, hops)


def summary(tables: Tables, runs: int) -> list[dict[str, Any]]:
    """Per run a dictionary from metric to value; what a trace cannot tell is none."""
    values: list[dict[str, Any]] = [{} for _ in range(runs)]
    for metric in ALL:
        frame = metric(tables)
        names = [name for name in frame.columns if name != "run"]
        for of_run in values:
            of_run.update(dict.fromkeys(names))
        for row in frame.collect():
            values[row["run"]].update({name: row[name] for name in names})
    return values
