"""The report about a run in which much is wrong: what, how often, and more than one example."""

from pathlib import Path

import pytest

import causalcast
from causalcast.cli.main import main
from causalcast.pipeline.report import report, space_time
from causalcast.pipeline.report.moving import MovingRun
from causalcast.pipeline.verdicts.counter_example import Step
from causalcast.pipeline.verdicts.names import Names
from causalcast.pipeline.verdicts.verdict import Verdict

UNORDERED = """
protocol = "naive_flood"
until_ms = 1000
seed = 3
[overlay]
kind = "full_mesh"
nodes = 4
[network]
latency_ms = {kind = "uniform", low = 1, high = 200}
fifo = false
[[publish]]
node = [0, 1, 2, 3]
count = 20
interval_ms = 10
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    causalcast.simulate(UNORDERED, "deliveries", out=tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def unordered(folder: Path) -> Verdict:
    return causalcast.verify(folder)


def test_the_verdict_names_what_is_violated(unordered: Verdict) -> None:
    (causal,) = [result for result in unordered.results if result.name == "causal_order"]
    assert causal.violations > 30 and causal.status == "violated"
    said = report._verdict(unordered)
    assert f"Violated: causal order ({causal.violations:,})." in said
    assert "fifo order" not in said, "it is not counted here"


def test_many_violations_are_told_and_some_drawn(unordered: Verdict) -> None:
    (causal,) = [result for result in unordered.results if result.name == "causal_order"]
    page = report._examples(MovingRun(0, unordered), causal)
    told = page.count("<p>")
    assert told == len(causal.examples) > 20
    assert page.count('<svg class="space-time"') == report.DRAWN
    folded = page.index("<details>")
    assert page.count("<p>", 0, folded) == report.TOLD_AT_ONCE
    assert len({finding.node for finding in causal.examples[:4]}) == 4, "one of each node first"
    assert f"{causal.violations - told:,} more are counted and not told here" in page


def test_verify_says_how_many_it_does_not_tell(
    folder: Path, unordered: Verdict, capsys: pytest.CaptureFixture[str]
) -> None:
    (causal,) = [result for result in unordered.results if result.name == "causal_order"]
    assert main(["verify", str(folder), "--local"]) == 1
    said = capsys.readouterr().out
    assert f"… and {causal.violations - 5:,} more" in said


def test_no_arrow_runs_through_the_dot_of_another_event() -> None:
    """The basic case: three nodes, rows and columns evenly spaced."""
    steps = [
        Step(0, "publish", 1, 0),
        Step(1, "deliver", 1, 0),
        Step(1, "publish", 2, 1),
        Step(2, "deliver", 2, 0, "too early"),
        Step(2, "deliver", 1, 1, "too late"),
    ]
    straight = space_time.way((0, 0), (200, 152), [])
    assert straight == "M0 0 L200 152"
    bow = space_time.way((0, 0), (200, 152), [(100, 76)])
    assert " Q" in bow, "it would run through the dot in the middle"
    names = Names({0: "a", 1: "b", 2: "c"})
    assert space_time.diagram(steps, names).count(" Q") == 1
