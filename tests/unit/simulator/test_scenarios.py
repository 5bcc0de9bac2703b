"""What scenarios can say beyond faults: saved graphs, subtrees, random crashes, latecomers."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from causalcast.judge import judge
from causalcast.simulator.runner import simulate
from causalcast.simulator.scenario_run import ScenarioRun
from causalcast.simulator.scenarios.scenario import Scenario

HEAD = 'protocol = "vector_clock_broadcast"\nuntil_ms = 2000\n'
TALK = '[[publish]]\nnode = "random"\ncount = 60\ninterval_ms = 25\n'


def test_a_graph_that_was_saved_before(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [0, 1, 2], "b": [1, 2, 3]}), tmp_path / "overlay.parquet")
    path = tmp_path / "scenario.toml"
    path.write_text(HEAD + '[overlay]\nfrom = "overlay.parquet"\n')
    scenario = Scenario.read(path)
    assert scenario.blueprint.topology.neighbours == {0: [1], 1: [0, 2], 2: [1, 3], 3: [2]}


def test_one_group_per_subtree() -> None:
    scenario = Scenario(
        HEAD + '[overlay]\nkind = "tree"\nnodes = 7\n[groups]\nsubtrees = true\n', "test"
    )
    groups = scenario.blueprint.groups
    members = {name: groups.members_of(groups.id_of(name)) for name in groups.names}
    assert members == {
        "subtree0": [0, 1, 2, 3, 4, 5, 6],
        "subtree1": [1, 3, 4],
        "subtree2": [2, 5, 6],
    }


def test_random_crashes_happen_and_stay_within_what_is_tolerated() -> None:
    overlay = '[overlay]\nkind = "ring"\nnodes = 5\n'
    faults = "[random_faults]\ncrashes = 4\ndowntime_ms = [50, 100]\n"
    run = simulate(Scenario(HEAD + overlay + TALK + faults, "test"), "messages")
    assert run.header.faults["crash"] == run.header.faults["recover"] == 4
    flood = HEAD.replace("vector_clock_broadcast", "naive_flood")
    fair = simulate(Scenario(flood + overlay + TALK + faults, "test"), "messages")
    assert "crash" not in fair.header.faults  # it tolerates none
    unfair = Scenario(flood + overlay + TALK + faults + "within_budget = false\n", "test")
    assert simulate(unfair, "messages").header.faults["crash"] >= 1


def test_a_latecomer_gets_what_comes_and_a_leaver_gets_no_more() -> None:
    text = f"""{HEAD}
    [overlay]
    kind = "full_mesh"
    nodes = 4
    {TALK}
    [[fault]]
    at_ms = 700
    kind = "join"
    node = 3
    [[fault]]
    at_ms = 1000
    kind = "leave"
    node = 1
    """
    run = simulate(Scenario(text, "test"), "messages")
    assert run.header.faults["join"] == run.header.faults["leave"] == 1
    rows = run.events.to_pylist()
    late = [row["kind"] for row in rows if row["node"] == 3]
    gone = [row["kind"] for row in rows if row["node"] == 1]
    assert "join" in late and "deliver" in late
    assert late.index("join") < late.index("deliver")
    assert gone[-1] == "leave" and "deliver" in gone
    found = judge(run)
    assert not any(found.violations[name] for name in ("causal_order", "fifo_order", "no_creation"))
    assert not found.violations["agreement"]


def test_the_seed_decides_the_random_graph() -> None:
    text = HEAD + '[overlay]\nkind = "random_tree"\nnodes = 20\n'
    one, same, other = (Scenario(text, "test", seed=seed) for seed in (1, 1, 2))
    graphs = [scenario.blueprint.topology.neighbours for scenario in (one, same, other)]
    assert graphs[0] == graphs[1] != graphs[2]


def test_publications_at_a_node_that_is_down_are_skipped_and_counted() -> None:
    text = f"""{HEAD}
    [overlay]
    kind = "line"
    nodes = 2
    [[publish]]
    node = 0
    count = 10
    interval_ms = 100
    [[fault]]
    at_ms = 450
    kind = "crash"
    node = 0
    """
    running = ScenarioRun(Scenario(text, "test"), "messages")
    running.run()
    assert running.simulation.lives.publications == 5
    assert running.result().header.faults["publication_skipped"] == 5
