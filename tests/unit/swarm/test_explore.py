"""The explorer misses nothing and finds the shortest counter-example."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from causalcast.errors import ConfigError
from causalcast.simulator.directed_run import DirectedRun
from causalcast.simulator.scenarios.director import Step
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.explore import Explorer, Limits
from causalcast.swarm.generate import toml_text
from causalcast.swarm.mutant import find_mutant
from causalcast.swarm.trial import try_scenario

ROOT = Path(__file__).parents[3]
SMALL = ROOT / "scenarios" / "three_nodes_two_messages.toml"
VECTOR = "vector_clock_broadcast"


def scenario(protocol: str, nodes: int, publishers: list[int], fifo: bool = True) -> Scenario:
    tables = [("overlay", {"kind": "line", "nodes": nodes}), ("network", {"fifo": fifo})]
    tables += [("[publish]", {"node": node, "interval_ms": 1}) for node in publishers]
    return Scenario(toml_text({"protocol": protocol, "until_ms": 9}, tables), "test")


def test_the_true_protocol_is_clean_in_every_interleaving() -> None:
    found = Explorer(Scenario.read(SMALL), Limits()).explore()
    assert found.proved()
    assert found.states > 1000 and found.final_states > 100 and found.histories >= 30


@pytest.mark.slow
@pytest.mark.parametrize(
    "limits", [Limits(losses=1), Limits(duplications=1), Limits(suspicions=1)], ids=str
)
def test_also_with_one_fault(limits: Limits) -> None:
    assert Explorer(Scenario.read(SMALL), limits).explore().proved()


@pytest.mark.slow
def test_also_with_a_crash_at_every_moment() -> None:
    found = Explorer(scenario(VECTOR, 3, [0, 1]), Limits(crashes=1)).explore()
    assert found.proved() and found.states > 1000


@pytest.mark.parametrize(
    ("mutant", "limits", "graph", "broken", "steps"),
    [
        ("causes_not_checked", Limits(), "full_mesh", "causal_order", 4),
        ("held_not_re_examined", Limits(), "full_mesh", "agreement", 10),
        ("duplicate_filter_off_by_one", Limits(), "full_mesh", "no_duplication", 4),
        ("accepted_not_persisted", Limits(crashes=1), "full_mesh", "no_duplication", 6),
        ("never_repeated", Limits(losses=1), "line", "agreement", 5),
    ],
)
def test_a_planted_bug_is_found_without_sampling(
    mutant: str, limits: Limits, graph: str, broken: str, steps: int
) -> None:
    text = SMALL.read_text().replace("full_mesh", graph)
    with find_mutant(ROOT / "tests/mutants/vector_clock_broadcast.py", mutant).planted():
        found = Explorer(Scenario(text, "test"), limits).explore()
        assert found.problem is not None
        assert found.problem.property in (broken, "at_rest")
        assert len(found.steps) <= steps
        again = try_scenario(Scenario(found.text, "again"))
        assert found.problem.property in again.broken(), "its text repeats it"


def test_flood_is_not_causal_and_the_shortest_proof_has_four_steps() -> None:
    explorer = Explorer(Scenario.read(SMALL, "naive_flood"), Limits(), check=["causal_order"])
    found = explorer.explore()
    assert found.problem is not None and found.problem.property == "causal_order"
    assert len(found.steps) == 4


@pytest.mark.parametrize("protocol", ["naive_flood", VECTOR])
@pytest.mark.parametrize("fifo", [True, False])
def test_it_sees_every_history_that_a_plain_walk_sees(protocol: str, fifo: bool) -> None:
    """Every list of steps is played from the beginning, without states, hashes or a memory."""
    small = scenario(protocol, 2, [0, 0, 1], fifo)
    explorer = Explorer(small, Limits())
    assert explorer.explore().proved()
    seen = {
        tuple(tuple(row[2:4] for row in explorer._states.log(log)) for log in logs)
        for logs in explorer._judged
    }
    plain = set(_histories(explorer, []))
    assert plain - {((), ())} == seen and len(seen) > 8


def _histories(explorer: Explorer, steps: list[Step]) -> Iterator[tuple[object, ...]]:
    running = DirectedRun(explorer._directed, "deliveries", turn_us=0)
    for step in steps:
        assert running.director.do(step)
    logs: dict[int, list[object]] = {0: [], 1: []}
    for row in running.recorder.take():
        logs[row[0]].append(row[2:4])
    yield tuple(tuple(log) for log in logs.values())
    world = running.simulation
    published = [step for step in steps if step[0] == "publish"]
    possible: list[Step] = []
    for me, wanted in ((0, 2), (1, 1)):
        if sum(step[1] == me for step in published) < wanted:
            possible.append(("publish", me, "all"))
    for way, queue in world.queues.items():
        last = 1 if explorer._directed.network.fifo else len(queue)
        possible += [("arrive", *way, index) for index in range(last)]
    for step in possible:
        yield from _histories(explorer, [*steps, step])


def test_a_limit_is_no_proof() -> None:
    found = Explorer(Scenario.read(SMALL), Limits(timers=2), most_states=500).explore()
    assert not found.exhausted and not found.proved() and found.problem is None


def test_a_scenario_with_faults_is_refused() -> None:
    text = SMALL.read_text() + '\n[[fault]]\nat_ms = 1\nkind = "crash"\nnode = 0\n'
    with pytest.raises(ConfigError, match="expected publications only"):
        Explorer(Scenario(text, "test"), Limits())
    text = SMALL.read_text() + "\n[[publish]]\n"
    with pytest.raises(ConfigError, match="expected a node and a group, not random"):
        Explorer(Scenario(text, "test"), Limits())


NEW_LINK = ROOT / "scenarios" / "new_link_one_message.toml"
COUNTS = ROOT / "scenarios" / "new_link_counts.toml"


def test_a_new_link_becomes_safe_in_every_interleaving_with_and_without_a_cut() -> None:
    """The steps of the scenario set the stage: a past, and a link that has just appeared."""
    text = COUNTS.read_text().replace('"publish 0 all", "publish 1 all", ', "")
    vectors = Scenario(text, "counts")
    whole = Explorer(vectors, Limits()).explore()
    cut = Explorer(vectors, Limits(cuts=1)).explore()
    assert whole.proved() and cut.proved()
    assert cut.states > 5 * whole.states


@pytest.mark.slow
@pytest.mark.parametrize("order", ["queue", "receiver"])
def test_the_exchange_over_a_safe_path_in_every_interleaving(order: str) -> None:
    options = {"order": order, "link_setup": "safe_path"}
    found = Explorer(Scenario.read(NEW_LINK, "cptcast", options), Limits()).explore()
    assert found.proved() and found.states > 3000


def test_without_an_exchange_some_interleaving_delivers_twice() -> None:
    """Figure 3.2 of the CPTCast thesis, found without knowing it."""
    steps = ["cut 0 1", "arrive 0 1", "arrive 1 0", "publish 2 all", "bring 2 0", "arrive 0 2"]
    steps += ["heal 0 1", "expire 1 standing_links.redial 0", "publish 2 all"]
    overlay = {"kind": "edges", "nodes": 3, "edges": [[0, 2], [1, 2], [0, 1]]}
    tables = [("overlay", overlay), ("groups", {"all": "*"})]
    text = toml_text({"protocol": "naive_causal", "seed": 1, "steps": steps}, tables)
    found = Explorer(Scenario(text, "new link"), Limits()).explore()
    assert found.problem is not None and found.problem.property == "no_duplication"
    assert try_scenario(Scenario(found.text, "counter-example")).broken()  # endless, in fact


def test_a_stage_that_cannot_be_set_is_told() -> None:
    text = NEW_LINK.read_text().replace('"heal 0 1"', '"heal 0 2"')
    with pytest.raises(ConfigError, match="'heal 0 2' cannot happen there"):
        Explorer(Scenario(text, "new link"), Limits())
