"""Members that agree who is one: every interleaving of a removal, and receipts that are final."""

from pathlib import Path

import pytest

from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.campaign import Plan, try_seed
from causalcast.swarm.explore import Explorer, Limits
from causalcast.swarm.generate import toml_text
from causalcast.swarm.mutant import find_mutant
from causalcast.swarm.trial import try_scenario
from causalcast.trace.run_folder import Run

MUTANTS = Path(__file__).parents[1] / "mutants" / "viewed_broadcast.py"
PROTOCOL = "viewed_broadcast"


def removal(*first: str) -> Scenario:
    """Node 2 of three is well, node 0 is told that it is gone, and begins to agree on that."""
    steps = [*first, "order 0 gone 2", "expire 0 change 0"]
    tables = [("overlay", {"kind": "full_mesh", "nodes": 3}), ("network", {"fifo": True})]
    return Scenario(toml_text({"protocol": PROTOCOL, "steps": steps}, tables), "a removal")


def test_a_wrong_removal_in_every_interleaving() -> None:
    found = Explorer(removal(), Limits()).explore()
    assert found.proved()
    assert found.states > 100 and found.final_states >= 3


@pytest.mark.slow
def test_also_with_a_crash_at_every_moment() -> None:
    found = Explorer(removal(), Limits(crashes=1)).explore()
    assert found.proved()
    assert found.states > 100_000 and found.histories > 10


def too_early(run: Run) -> list[str]:
    """Who had not delivered a message of a group that it is in from beginning to end, when its
    origin said that all members have it."""
    rows = run.events.to_pylist()
    last = {row["node"]: row["pos"] for row in rows}
    whole = [m for m in run.members.to_pylist() if m["from_pos"] == 0 and m["to_pos"] is None]
    has = {
        (row["node"], row["message"]): row["at_us"]
        for row in reversed(rows)
        if row["kind"] in ("publish", "deliver")
    }
    group_of = {row["message"]: row["group"] for row in rows if row["kind"] == "publish"}
    down = {
        row["node"] for row in rows if row["kind"] == "crash" and row["pos"] == last[row["node"]]
    }
    return [
        f"{member['node']} lacks {row['message']} at {row['at_us']}"
        for row in rows
        if row["kind"] == "note" and row["note"] == "stable"
        for member in whole
        if member["group"] == group_of[row["message"]] and member["node"] not in down
        if has.get((member["node"], row["message"]), row["at_us"] + 1) > row["at_us"]
    ]


def test_a_receipt_is_final() -> None:
    told = 0
    for seed in range(0, 40, 2):
        trial = try_seed(Plan(PROTOCOL), seed, "full")
        assert trial.run is not None and not trial.problems
        assert too_early(trial.run) == [], f"seed {seed}"
        notes = trial.run.events.column("note").to_pylist()
        told += sum(1 for note in notes if note == "stable")
    assert told > 100


def test_where_all_stay_everything_becomes_stable() -> None:
    text = f"""
    protocol = "{PROTOCOL}"
    until_ms = 100
    [overlay]
    kind = "full_mesh"
    nodes = 4
    [network]
    loss = 0.2
    [[publish]]
    node = "random"
    count = 20
    interval_ms = 2
    [calm]
    ms = 10000
    """
    trial = try_scenario(Scenario(text, "all stay"), level="full")
    assert trial.run is not None and not trial.problems
    notes = trial.run.events.column("note").to_pylist()
    assert sum(1 for note in notes if note == "stable") == 20


def test_a_receipt_that_is_not_would_be_noticed() -> None:
    with find_mutant(MUTANTS, "forgotten_when_delivered").planted():
        runs = [try_seed(Plan(PROTOCOL), seed, "full").run for seed in range(0, 10, 2)]
    assert any(too_early(run) for run in runs if run is not None)
