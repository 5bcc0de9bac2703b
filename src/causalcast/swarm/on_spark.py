"""A campaign as tasks of Spark: each task tries some seeds, wherever Spark runs it."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from causalcast.swarm.campaign import CHUNK, Campaign, Plan, Progress, SeedResult, run_chunk
from causalcast.swarm.trial import Problem


def run_on_spark(
    session: Any, plan: Plan, seeds: Sequence[int], progress: Progress | None = None
) -> Campaign:
    """Try all seeds on the cluster of `session`, where this package must be installed too."""
    campaign = Campaign(plan)
    started = time.perf_counter()
    first = seeds[0] if seeds else 0

    def try_chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for chunk in batch.column(0).to_pylist():
                start = first + chunk * CHUNK
                wanted = list(range(start, min(start + CHUNK, first + len(seeds))))
                results = [json.dumps(asdict(result)) for result in run_chunk(plan, wanted)]
                yield pa.RecordBatch.from_arrays([pa.array(results, pa.string())], ["result"])

    chunks = -(-len(seeds) // CHUNK)
    tasks = session.range(0, chunks, 1, max(1, chunks))
    for row in tasks.mapInArrow(try_chunks, "result string").toLocalIterator(
        prefetchPartitions=True
    ):
        campaign.add(_result(json.loads(row["result"])))
        if progress is not None:
            progress(campaign.seeds / max(1, len(seeds)))
    campaign.seconds = time.perf_counter() - started
    return campaign


def _result(raw: dict[str, Any]) -> SeedResult:
    raw["problems"] = [Problem(**problem) for problem in raw["problems"]]
    return SeedResult(**raw)
