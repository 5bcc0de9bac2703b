"""The Spark pipeline and the judge agree on four thousand random runs, checked in one job.

Writing and judging are spread over the same session; a run is made again from its seed.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from causalcast.pipeline.spark.spark_job import check_runs, spread
from causalcast.testing.many_random_runs import compare, write_runs
from causalcast.trace.schema import GUARANTEES

RUNS = 4_000
FIRST = 10_000
SHARE = 250


@pytest.mark.spark
@pytest.mark.slow
def test_spark_agrees_with_the_judge(spark: Any, tmp_path: Path) -> None:
    shares = [range(seed, seed + SHARE) for seed in range(FIRST, FIRST + RUNS, SHARE)]
    spread(spark, shares, lambda seeds: write_runs(tmp_path, seeds))
    folders = [tmp_path / str(seed) for seeds in shares for seed in seeds]
    findings = [checked.findings for checked in check_runs(spark, folders)]

    work = [(seeds, findings[seeds[0] - FIRST :][: len(seeds)]) for seeds in shares]
    seen: Counter[str] = Counter()
    for said, of_share in spread(spark, work, lambda share: compare(*share)):
        assert said == []
        seen += of_share
    assert seen["violating"] >= RUNS // 3
    assert all(seen[guarantee] >= RUNS // 200 for guarantee in GUARANTEES), seen
    for kind in ("crash", "recover", "join", "leave", "overlapping groups"):
        assert seen[kind] >= RUNS // 10, f"{kind}: {seen[kind]}"
    assert seen["missed by algorithm 16"] > 0
    assert seen["missed by its adapted form"] > 0
    assert seen["false alarms of algorithm 16"] > 0
