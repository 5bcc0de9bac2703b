"""`causalcast swarm` and `explore` as typed: results, repeat lines, errors in one line."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from causalcast.cli.main import main

ROOT = Path(__file__).parent.parent.parent
SMALL = str(ROOT / "scenarios" / "three_nodes_two_messages.toml")
MUTANTS = str(ROOT / "tests" / "mutants" / "vector_clock_broadcast.py")
VECTOR = ["--protocol", "vector_clock_broadcast"]
FLOOD = ["--protocol", "naive_flood", "--check", "causal_order"]


def result(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    main([*arguments, "--json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_clean_campaign(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["swarm", *VECTOR, "--seeds", "0..40", "--processes", "1"]) == 0
    told = capsys.readouterr().out
    for word in ("seeds per second", "logical hours", "fired", "verdict: ok"):
        assert word in told


def test_facts_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    found = result(capsys, "swarm", *VECTOR, "--seeds", "10..30", "--set", "repeat_after=50ms")
    assert found["protocol"] == "vector_clock_broadcast"
    assert (found["seeds"], found["passed"], found["failures"]) == (20, 20, [])
    assert found["fired"]["crash"] > 0
    assert found["logical_hours"] > 0 and found["seconds"] > 0


def test_a_failure_is_told_shrunk_and_kept(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ["swarm", *FLOOD, "--seeds", "0..60", "--first", "--keep", str(tmp_path)]
    assert main(arguments) == 1
    told = capsys.readouterr().out
    assert "broke causal_order; again: causalcast swarm --protocol naive_flood" in told
    assert "made small" in told and "● publish" in told and "verdict: failed" in told
    (kept,) = tmp_path.glob("naive_flood_causal_order_*.toml")
    assert tomllib.loads(kept.read_text())["protocol"] == "naive_flood"
    assert "# n0" in kept.read_text()
    assert main(["simulate", str(kept), "--out", str(tmp_path / "run")]) == 0
    assert main(["verify", "--local", str(tmp_path / "run")]) == 1


def test_a_mutant_is_caught(capsys: pytest.CaptureFixture[str]) -> None:
    mutant = ["--mutant", "duplicate_filter_off_by_one", "--mutants", MUTANTS]
    found = result(capsys, "swarm", *VECTOR, "--seeds", "0..10", "--first", *mutant)
    assert found["mutant"] == "duplicate_filter_off_by_one"
    assert found["failures"][0]["property"] == "no_duplication"
    assert "--mutant duplicate_filter_off_by_one" in found["failures"][0]["repeat"]
    assert result(capsys, "swarm", *VECTOR, "--seeds", "0..10")["failures"] == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--seeds", "5..5"], "'5..5': expected B above A"),
        (["--seeds", "many"], "'many': expected A..B such as 0..1000"),
        (["--seeds", "0..3", "--check", "luck"], "invalid choice: 'luck'"),
    ],
)
def test_wrong_usage_says_what_was_expected(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["swarm", *VECTOR, *arguments])
    assert stopped.value.code == 2
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([*VECTOR, "--set", "repeat=1"], "--set repeat: no option of vector_clock_broadcast"),
        ([*VECTOR, "--mutant", "none", "--mutants", MUTANTS], "no mutant 'none'; there are"),
        ([*VECTOR, "--mutant", "x", "--mutants", "nowhere.py"], "nowhere.py: no such file"),
        ([*VECTOR, "--processes", "0"], "--processes 0: expected a number from 1 on"),
        ([*VECTOR, "--overlay", "open_mesh"], "no members that agree to let a node in"),
        (["--protocol", "nothing"], "no protocol 'nothing'"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["swarm", "--seeds", "0..2", *arguments]) == 2
    error = capsys.readouterr().err
    assert expected in error and len(error.splitlines()) == 1


def test_every_interleaving_is_clean(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", SMALL]) == 0
    told = capsys.readouterr().out
    assert "verdict: ok, in every interleaving" in told and "states" in told


def test_the_shortest_counter_example(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    mutant = ["--mutant", "causes_not_checked", "--mutants", MUTANTS]
    assert main(["explore", SMALL, *mutant]) == 1
    told = capsys.readouterr().out
    assert "causal_order is broken after 4 steps" in told and "verdict: violated" in told
    found = result(capsys, "explore", SMALL, *mutant)
    assert found["property"] == "causal_order" and found["states"] > 10
    assert len(tomllib.loads(found["scenario"])["steps"]) == 4


def test_an_exploration_that_was_cut_short_proves_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["explore", SMALL, "--timers", "3", "--most-states", "200"]) == 1
    assert "verdict: unknown" in capsys.readouterr().out
