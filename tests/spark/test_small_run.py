"""Metrics and figures are the same whether Spark or plain Python counts them."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from causalcast.pipeline.metrics.summary import summary, summary_by
from causalcast.pipeline.report.report_data import figures
from causalcast.pipeline.report.small_run import figures_of, measure, measure_by, read_small_run
from causalcast.pipeline.spark.tables import read_tables
from causalcast.simulator.runner import simulate
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.testing.random_traces import good_run
from causalcast.trace.run_folder import write_run

SCENARIOS = Path(__file__).parent.parent.parent / "scenarios"
SIMULATED = ("crashes_on_lossy_tree",)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Simulated runs with every kind of row, and drawn ones in which nodes come and go."""
    folder = tmp_path_factory.mktemp("runs")
    runs = [simulate(Scenario.read(SCENARIOS / f"{n}.toml"), "full") for n in SIMULATED]
    runs += [good_run(Random(seed)).run() for seed in range(5)]
    for number, run in enumerate(runs):
        write_run(folder / str(number), run)
    return [folder / str(number) for number in range(len(runs))]


@pytest.mark.spark
def test_the_metrics_of_a_run(spark: Any, folders: list[Path]) -> None:
    by_spark = summary(read_tables(spark, folders), len(folders))
    for folder, expected in zip(folders, by_spark, strict=True):
        found = measure(read_small_run(folder))
        assert list(found) == list(expected)
        assert found == pytest.approx(expected, nan_ok=True), folder


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("key", ["group", "node", "second"])
def test_the_metrics_told_apart(spark: Any, folders: list[Path], key: str) -> None:
    by_spark = summary_by(read_tables(spark, folders), len(folders), key)
    for folder, expected in zip(folders, by_spark, strict=True):
        found = measure_by(read_small_run(folder), key)
        assert [row[key] for row in found] == [row[key] for row in expected]
        for mine, theirs in zip(found, expected, strict=True):
            assert mine == pytest.approx(theirs, nan_ok=True), (folder, mine[key])


@pytest.mark.spark
def test_the_figures_of_a_report(spark: Any, folders: list[Path]) -> None:
    by_spark = figures(read_tables(spark, folders), len(folders))
    for folder, expected in zip(folders, by_spark, strict=True):
        assert figures_of(read_small_run(folder)) == expected, folder
