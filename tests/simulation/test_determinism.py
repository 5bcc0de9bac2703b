"""The same seed leaves the same trace: in another process, interpreted or compiled."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from causalcast.registry import find_protocol, protocol_names
from causalcast.simulator.runner import simulate
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.generate import random_scenario
from causalcast.trace.schema import LEVELS

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SCENARIOS = ["reordering_ring.toml", "crashes_on_lossy_tree.toml"]


def hashes(protocol: str, seeds: int, path: Path, hash_seed: str) -> list[str]:
    files = [str(ROOT / "scenarios" / name) for name in SCENARIOS]
    command = [sys.executable, str(HERE / "trace_hashes.py"), protocol, "0", str(seeds), *files]
    environment = dict(os.environ, PYTHONPATH=str(path), PYTHONHASHSEED=hash_seed)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_hash_randomisation_changes_nothing() -> None:
    """Whoever iterates over a set of strings somewhere is found here."""
    one = hashes("vector_clock_broadcast", 20, ROOT / "src", "1")
    other = hashes("vector_clock_broadcast", 20, ROOT / "src", "2")
    assert one == other and len(one) == 1 + 2 * 20 + len(SCENARIOS)
    assert len(set(one)) == len(one)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", protocol_names())
def test_compiled_and_interpreted_leave_the_same_trace(protocol: str, compiled: Path) -> None:
    """Random scenarios and the adversary's runs, so many seeds of each."""
    seeds = 60 if protocol == "vector_clock_broadcast" else 30
    plain = hashes(protocol, seeds, ROOT / "src", "0")
    fast = hashes(protocol, seeds, compiled, "0")
    assert (plain[0], fast[0]) == ("interpreted", "compiled")
    assert plain[1:] == fast[1:]


@pytest.mark.slow
@pytest.mark.parametrize("protocol", protocol_names())
def test_a_users_own_file_runs_on_the_compiled_core(
    protocol: str, compiled: Path, tmp_path: Path
) -> None:
    """An interpreted protocol outside the package, on compiled classes, gives the same trace."""
    mine = tmp_path / "mine.py"
    module = find_protocol(protocol).build.__module__
    mine.write_text((ROOT / "src" / f"{module.replace('.', '/')}.py").read_text())
    assert hashes(str(mine), 5, ROOT / "src", "0")[1:] == hashes(str(mine), 5, compiled, "0")[1:]


@pytest.mark.slow
def test_explore_refuses_code_whose_memory_it_cannot_copy(compiled: Path) -> None:
    """It would find violations that are none."""
    scenario = ROOT / "scenarios" / "three_nodes_two_messages.toml"
    done = subprocess.run(
        [sys.executable, "-m", "causalcast", "explore", str(scenario)],
        env=dict(os.environ, PYTHONPATH=str(compiled)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "leave the compiled package out of PYTHONPATH" in done.stderr


@pytest.mark.slow
def test_the_level_of_the_trace_changes_nothing_that_happens() -> None:
    """Publications and deliveries are the same, whatever else is written down."""
    spec = find_protocol("vector_clock_broadcast")
    for seed in range(60):
        text = random_scenario(spec, seed, {})
        seen = []
        for level in ("deliveries", "messages", "full"):
            rows = simulate(Scenario(text, f"seed {seed}"), level).events.to_pylist()
            told = [row for row in rows if row["kind"] in LEVELS["deliveries"]]
            seen.append([(r["node"], r["at_us"], r["kind"], r["message"]) for r in told])
        assert seen[0] == seen[1] == seen[2], f"seed {seed}"
