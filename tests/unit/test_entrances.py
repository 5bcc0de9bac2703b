"""`causalcast.simulate`, `verify` and `report`: one entrance each, whatever they are given."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import causalcast
from causalcast.cli.main import main
from causalcast.errors import ConfigError, TraceError
from causalcast.simulator.runner import SimulatedRun
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.trace.run_folder import read_run

UNORDERED = """
protocol = "naive_flood"
until_ms = 300
[overlay]
kind = "full_mesh"
nodes = 3
[network]
latency_ms = {kind = "uniform", low = 1, high = 200}
fifo = false
[[publish]]
node = [0, 1, 2]
count = 8
interval_ms = 10
"""


@pytest.fixture(scope="module")
def unordered() -> SimulatedRun:
    return causalcast.simulate(UNORDERED)


def test_a_scenario_is_a_file_a_name_a_text_or_an_object(
    tmp_path: Path, unordered: SimulatedRun
) -> None:
    path = tmp_path / "unordered.toml"
    path.write_text(UNORDERED)
    for given in (path, str(path), Scenario(UNORDERED, "test")):
        assert causalcast.simulate(given).events == unordered.events
    assert causalcast.simulate("reordering_ring").header.protocol == "vector_clock_broadcast"
    with pytest.raises(ConfigError, match="did you mean reordering_ring"):
        causalcast.simulate("reordering_rin")


def test_seed_protocol_and_options_take_the_place_of_the_scenarios_own(
    unordered: SimulatedRun,
) -> None:
    text = UNORDERED.replace('protocol = "naive_flood"\n', "seed = 5\n")
    run = causalcast.simulate(
        text, "full", seed=7, protocol="vector_clock_broadcast", options={"spread": "direct"}
    )
    assert (run.header.seed, run.header.protocol) == (7, "vector_clock_broadcast")
    assert run.header.options["spread"] == "direct"
    assert len(run.events) > len(unordered.events), "the whole trace was asked for"
    with pytest.raises(ConfigError, match="has its seed"):
        causalcast.simulate(Scenario(UNORDERED, "test"), seed=7)
    with pytest.raises(ConfigError, match="trace: unknown level 'everything'"):
        causalcast.simulate(UNORDERED, "everything")


def test_what_was_simulated_is_what_was_written(tmp_path: Path) -> None:
    run = causalcast.simulate(UNORDERED, out=tmp_path / "run")
    assert read_run(tmp_path / "run").events == run.events
    assert (run.publications, run.messages > 24, run.simulated_us > 300_000) == (24, True, True)


def test_a_run_is_judged_the_same_in_memory_and_in_a_folder(
    tmp_path: Path, unordered: SimulatedRun
) -> None:
    causalcast.simulate(UNORDERED, out=tmp_path / "run")
    told = [causalcast.verify(what).to_json() for what in (unordered, tmp_path / "run")]
    told.append(causalcast.verify(str(tmp_path / "run")).to_json())
    for one in told:
        del one["run"], one["seconds"]
    assert told[0] == told[1] == told[2]
    assert told[0]["verdict"] == "violated"
    assert told[0]["checked"]["causal_order"]["counter_examples"]


def test_a_run_in_memory_leaves_nothing_behind_when_its_verdict_goes(
    unordered: SimulatedRun,
) -> None:
    one, two = causalcast.verify([unordered, unordered])
    assert str(one.place) == unordered.header.run_id
    folder = one.folder
    del one
    assert folder.is_dir(), "the other verdict may still need it"
    del two
    assert not folder.exists()


def test_a_list_may_name_folders_of_runs(tmp_path: Path) -> None:
    for seed in (1, 2):
        causalcast.simulate(UNORDERED, seed=seed, out=tmp_path / "runs" / f"seed-{seed}")
    causalcast.simulate(UNORDERED, seed=3, out=tmp_path / "alone")
    found = causalcast.verify([str(tmp_path / "alone"), tmp_path / "runs"])
    assert [one.header.seed for one in found] == [3, 1, 2]
    with pytest.raises(ConfigError, match="2 runs; give a list"):
        causalcast.verify(tmp_path / "runs")
    (tmp_path / "empty").mkdir()
    with pytest.raises(TraceError, match="not a run"):
        causalcast.verify([tmp_path / "empty"])


def test_the_command_takes_a_folder_of_runs_too(tmp_path: Path, capsys: Any) -> None:
    for seed in (1, 2):
        causalcast.simulate(UNORDERED, seed=seed, out=tmp_path / f"seed-{seed}")
    assert main(["verify", str(tmp_path), "--local"]) == 1
    assert "2 runs: 2 violated" in capsys.readouterr().out


def test_promises_can_be_chosen(unordered: SimulatedRun) -> None:
    assert causalcast.verify(unordered, promise="promised").verdict == "ok"
    assert causalcast.verify(unordered, promise="no_creation,validity").verdict == "ok"
    assert causalcast.verify(unordered, promise="fifo_order").verdict == "violated"
    with pytest.raises(ConfigError, match="promise: unknown property 'order'"):
        causalcast.verify(unordered, promise="order")


def test_what_only_spark_can_reach_asks_for_a_session(unordered: SimulatedRun) -> None:
    with pytest.raises(ConfigError, match="s3a://bucket/run: only Spark can read it"):
        causalcast.verify("s3a://bucket/run")
    with pytest.raises(ConfigError, match="s3a://bucket/page: only Spark can write it"):
        causalcast.report(unordered, "s3a://bucket/page")


def test_a_wrong_path_is_told_before_spark_is_started(tmp_path: Path) -> None:
    def start() -> Any:
        raise AssertionError("Spark was started")

    with pytest.raises(TraceError, match="no such run"):
        causalcast.verify(tmp_path / "nothing", spark=start)
    with pytest.raises(TraceError, match="no such run"):
        causalcast.report(tmp_path / "nothing", tmp_path / "page.html", spark=start)


def test_a_report_is_written_and_its_verdicts_returned(
    tmp_path: Path, unordered: SimulatedRun
) -> None:
    [verdict] = causalcast.report(unordered, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert verdict.verdict == "violated"
    assert "Violated: causal order" in page and "<svg" in page


HEAVY = ("pyarrow", "numpy", "pyspark", "matplotlib", "rich")


@pytest.mark.parametrize("line", ["import causalcast", "import causalcast; causalcast.open"])
def test_a_node_loads_nothing_of_this(line: str) -> None:
    script = f"""
import sys
{line}
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["simulate", "verify", "report"])
def test_without_the_tools_it_is_said_what_to_install(name: str) -> None:
    script = f"""
import sys
sys.modules["pyarrow"] = None
import causalcast
try:
    causalcast.{name}
except causalcast.errors.MissingDependency as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip().endswith("pip install 'causalcast[tools]'")


def test_without_a_session_no_spark_is_loaded(tmp_path: Path) -> None:
    script = f"""
import sys, causalcast
run = causalcast.simulate({UNORDERED!r})
causalcast.verify(run)
causalcast.report(run, {str(tmp_path / "page.html")!r})
print("pyspark" in sys.modules, "rich" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "False"]
