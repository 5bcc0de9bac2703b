"""A large run is spread over tasks file by file; the answer is that of one process."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from causalcast.judge import judge
from causalcast.pipeline.spark import spark_job
from causalcast.testing.comparison import differences
from causalcast.testing.random_traces import damage, good_run, lose_delivery, repeat_delivery
from causalcast.trace.run_folder import event_files, write_run


@pytest.mark.slow
@pytest.mark.spark
def test_spread_over_files_it_agrees_with_the_judge(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_job, "LARGE", 1)
    monkeypatch.setattr(spark_job, "SURELY_SMALL", 0)
    spread_out = violating = 0
    for seed in range(8):
        random = Random(seed)
        draft = good_run(random)
        damage(draft, random)
        run = draft.run()
        folder = tmp_path / str(seed)
        write_run(folder, run)
        spread_out += len(event_files(folder)) > 1
        judgement = judge(run)
        violating += bool(judgement.all_broken())
        [checked] = spark_job.check_runs(spark, [folder])
        assert differences(run, judgement, checked.findings) == [], f"seed {seed}"
    assert spread_out >= 6
    assert violating >= 4


@pytest.mark.spark
def test_no_delivery_is_shuffled(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every job of a check is one stage: rows of event files never travel between tasks."""
    monkeypatch.setattr(spark_job, "LARGE", 1)
    monkeypatch.setattr(spark_job, "SURELY_SMALL", 0)
    plans: list[str] = []
    collect = spark_job.collected

    def note_plan(frame: Any) -> Any:
        rows = collect(frame)
        plans.append(frame._jdf.queryExecution().executedPlan().toString())
        return rows

    monkeypatch.setattr(spark_job, "collected", note_plan)
    draft = good_run(Random(1))
    repeat_delivery(draft, Random(1))
    lose_delivery(draft, Random(2))
    write_run(tmp_path / "run", draft.run())
    spark_job.check_runs(spark, [tmp_path / "run"])
    assert len(plans) == 5, "all looks were taken: rows, causes, scan, a closer look, who lacks"
    for plan in plans:
        assert "MapInArrow" in plan
        assert "Exchange" not in plan
        assert "Scan parquet" not in plan, "tasks read files themselves, no row crosses the JVM"
