"""The Spark pipeline and the judge agree on two thousand random runs, checked in one job."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from causalcast.judge import judge
from causalcast.pipeline.spark_job import check_runs
from causalcast.testing.comparison import differences
from causalcast.testing.random_traces import damage, good_run
from causalcast.trace.run_folder import write_run

RUNS = 2000


@pytest.mark.spark
@pytest.mark.slow
def test_spark_agrees_with_the_judge(spark: Any, tmp_path: Path) -> None:
    runs, folders = [], []
    for seed in range(10_000, 10_000 + RUNS):
        random = Random(seed)
        draft = good_run(random)
        if seed % 4:
            damage(draft, random)
        runs.append(draft.run())
        folders.append(tmp_path / str(seed))
        write_run(folders[-1], runs[-1])
    violating = 0
    for folder, run, checked in zip(folders, runs, check_runs(spark, folders), strict=True):
        judgement = judge(run)
        violating += bool(judgement.all_broken())
        assert differences(run, judgement, checked.findings) == [], f"seed {folder.name}"
    assert violating >= RUNS // 3
