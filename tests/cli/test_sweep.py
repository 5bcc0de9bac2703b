"""`causalcast sweep`: a grid on Spark, resumed, with points that fail."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from causalcast.cli.main import main
from causalcast.errors import ConfigError
from causalcast.pipeline.spark.spark_job import spread
from causalcast.sweep.campaign import run_sweep
from causalcast.sweep.grid import Point, make_grid, parse_seeds, parse_vary, with_key
from causalcast.sweep.point import run_point
from causalcast.trace.run_folder import read_run

SCENARIO = """\
protocol = "vector_clock_broadcast"
until_ms = 50
[overlay]
kind = "ring"
nodes = 4          # a comment that stays
[network]
latency_ms = { kind = "uniform", low = 1, high = 40 }
fifo = false
[[publish]]
node = [0, 2]
count = 3
interval_ms = 5
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SCENARIO)
    return path


def test_a_key_is_set_where_it_stands_or_added() -> None:
    changed = with_key(SCENARIO, "overlay.nodes", "6", "small.toml")
    assert changed == SCENARIO.replace("nodes = 4          # a comment that stays", "nodes = 6")
    assert 'protocol = "x"\n' in with_key(SCENARIO, "protocol", "x", "small.toml")
    assert "[disk]\nsync_ms = 2\n" in with_key(SCENARIO, "disk.sync_ms", "2", "small.toml")
    assert "[network]\nloss = 0.5\n" in with_key(SCENARIO, "network.loss", "0.5", "small.toml")


def test_the_grid_is_complete(scenario: Path) -> None:
    points = make_grid(
        [scenario], ["naive_flood", "vector_clock_broadcast"],
        parse_vary(["overlay.nodes=4,6", "options.spread=flood"]), parse_seeds("3..5"),
    )  # fmt: skip
    assert len(points) == 2 * 2 * 2
    assert points[0].name == (
        "small-protocol=naive_flood-overlay.nodes=4-options.spread=flood-seed=3"
    )
    assert points[0].settings == {"spread": "flood"}


@pytest.mark.parametrize("seeds", ["5", "5..5", "b..c"])
def test_seeds_are_a_range(seeds: str) -> None:
    with pytest.raises(ConfigError, match=r"expected A\.\.B"):
        parse_seeds(seeds)


@pytest.mark.slow
@pytest.mark.spark
def test_a_sweep_runs_judges_measures_and_goes_on(
    spark: Any, scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "sweep"
    arguments = ["sweep", str(scenario), "--protocols", "naive_flood,vector_clock_broadcast"]
    arguments += ["--out", str(out), "--json"]
    assert main([*arguments, "--seeds", "0..2"]) == 1, "a flood keeps no order"
    first = json.loads(capsys.readouterr().out)["points"]
    assert [p["verdict"] for p in first if p["protocol"] == "vector_clock_broadcast"] == ["ok"] * 2
    assert any("causal_order" in (p["violated"] or "") for p in first)
    assert all(p["deliveries"] == 24 and p["latency_p50_ms"] > 0 for p in first)
    written = {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")}

    main([*arguments, "--seeds", "0..3"])
    second = json.loads(capsys.readouterr().out)["points"]
    assert [p["attempts"] for p in second] == [0, 0, 1, 0, 0, 1]
    for path, when in written.items():
        assert path.name == "results.parquet" or path.stat().st_mtime_ns == when
    assert pq.read_table(out / "results.parquet")["run"].to_pylist() == [p["run"] for p in second]


@pytest.mark.spark
def test_the_outcome_depends_on_the_seed_alone(spark: Any, scenario: Path, tmp_path: Path) -> None:
    points = make_grid([scenario], [], {}, range(4))
    for tasks in (1, 4):
        out = tmp_path / str(tasks)
        spread(spark, points, lambda point, out=out: run_point(point, out, None), tasks=tasks)
    for point in points:
        one, other = (read_run(tmp_path / str(tasks) / point.name) for tasks in (1, 4))
        assert one.events.equals(other.events)


@pytest.mark.spark
def test_a_point_that_fails_is_reported_and_fatal_to_nobody(
    spark: Any, scenario: Path, tmp_path: Path
) -> None:
    [good] = make_grid([scenario], [], {}, [1])
    protocol = tmp_path / "broken.py"
    example = Path(__file__).parents[2] / "examples" / "my_protocol.py"
    fails = "    def on_publish(self, *_):\n        raise RuntimeError('boom')\n\n    def other("
    protocol.write_text(example.read_text().replace("    def on_publish(", fails))
    bad = Point("bad", "small", good.text, good.where, str(protocol), 1)
    outcomes = run_sweep(spark, [bad, good], tmp_path / "out")
    assert [(o.verdict, o.attempts) for o in outcomes] == [("failed", 2), ("ok", 1)]
    assert "boom" in (outcomes[0].error or "")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--seeds", "0..2", "--vary", "overlay.nodes"], "--vary overlay.nodes: expected"),
        (["--seeds", "0..2", "--vary", "overlay.wheels=4"], "wheels"),
        (["--seeds", "0..2", "--protocols", "telepathy"], "telepathy"),
        (["--seeds", "2..0"], "expected A..B"),
    ],
)
def test_what_is_wrong_is_told_before_anything_runs(
    scenario: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    complaint: str,
) -> None:
    assert main(["sweep", str(scenario), "--out", str(tmp_path / "out"), *arguments]) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()
