"""A partial log with keys, shares and attempts, spread over Spark tasks, is judged as in here."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from causalcast.pipeline.check.check_run import check_run
from causalcast.pipeline.spark import spark_job
from causalcast.testing.partial_logs import imported
from causalcast.testing.random_foreign_logs import by_time, leave_out, random_log
from causalcast.trace.run_folder import Run, event_files, write_run

RUNS = 5


@pytest.mark.spark
def test_it_says_the_same(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_job, "LARGE", 0)
    monkeypatch.setattr(spark_job, "SURELY_SMALL", 0)
    runs: list[Run] = []
    folders: list[Path] = []
    for seed in range(200):
        random = Random(seed)
        lines, redelivery = random_log(random)
        rest = leave_out(lines, random)
        if len(runs) == RUNS - 1:  # keys and equal times
            if not any("key" in line for line in rest):
                continue
            rest = by_time(rest, 2)
        if len({line["node"] for line in rest}) < 3:
            continue
        run = imported(rest, redelivery, whole=False)
        folder = tmp_path / str(seed)
        write_run(folder, run)
        if check_run(run).findings and len(event_files(folder)) > 1:  # spread over tasks
            runs.append(run)
            folders.append(folder)
        if len(runs) == RUNS:
            break
    found = spark_job.check_runs(spark, folders)
    for run, there in zip(runs, found, strict=True):
        here = check_run(run)
        assert sorted(map(repr, there.findings)) == sorted(map(repr, here.findings))
        assert (there.unknown, there.counts) == (here.unknown, here.counts)
        assert there.patterns == here.patterns
    assert len(found) == RUNS
