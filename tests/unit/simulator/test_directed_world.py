"""A directed run does exactly what its steps say, and comes to rest by itself."""

from typing import Any

import pytest

from causalcast.errors import ConfigError
from causalcast.judge import judge
from causalcast.simulator.directed_run import DirectedRun
from causalcast.simulator.runner import simulate
from causalcast.simulator.scenario_run import prepare
from causalcast.simulator.scenarios.director import SHAPES, parse, text_of
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.generate import toml_text
from causalcast.trace.run_folder import Run


def scenario(
    steps: list[str],
    protocol: str = "vector_clock_broadcast",
    nodes: int = 3,
    fifo: bool = True,
    **more: Any,
) -> Scenario:
    head = {"protocol": protocol, "steps": steps, **more}
    tables = [
        ("overlay", {"kind": "full_mesh", "nodes": nodes}),
        ("network", {"fifo": fifo}),
        ("groups", {"all": "*", "few": [0, 1]}),
        ("calm", {"recover_all": True}),
    ]
    return Scenario(toml_text(head, tables), "test")


def rows(run: Run, *kinds: str) -> list[tuple[str, int, str]]:
    """Kind, node and message of all rows of these kinds, in the order of time."""
    found = [row for row in run.events.to_pylist() if row["kind"] in kinds]
    found.sort(key=lambda row: row["at_us"])

    def name(message: int | None) -> str:
        return "" if message is None else f"{message >> 32}.{message & 0xFFFFFFFF}"

    return [(row["kind"], row["node"], name(row["message"])) for row in found]


def directed(steps: list[str], **more: Any) -> DirectedRun:
    running = DirectedRun(scenario(steps, **more), "full")
    for step in running.scenario.steps:
        running.director.do(step)
    return running


def deliveries(running: DirectedRun) -> list[tuple[str, int, str]]:
    return rows(running.result(), "deliver")


def test_nothing_happens_unless_a_step_says_so() -> None:
    running = directed(["publish 0 all"])
    assert deliveries(running) == [("deliver", 0, "0.1")]
    assert set(running.simulation.queues) == {(0, 1), (0, 2)}
    running = directed(["publish 0 all", "arrive 0 1"])
    assert deliveries(running) == [("deliver", 0, "0.1"), ("deliver", 1, "0.1")]


def test_an_effect_that_overtakes_its_cause_is_held_until_that_comes() -> None:
    steps = ["publish 0 all", "arrive 0 1", "publish 1 all", "arrive 1 2 1"]
    running = directed(steps, fifo=False)
    assert rows(running.result(), "hold") == [("hold", 2, "1.1")]
    assert running.simulation.held == {(2, 1 << 32 | 1): 1}
    running = directed([*steps, "bring 0 2"], fifo=False)
    assert deliveries(running)[-2:] == [("deliver", 2, "0.1"), ("deliver", 2, "1.1")]
    assert running.simulation.held == {}


def test_what_comes_before_a_publication_may_end_the_link(monkeypatch: pytest.MonkeyPatch) -> None:
    acknowledge = "expire 1 reliable_sending.acknowledge 0"
    running = directed(["publish 0 all", "arrive 0 1", acknowledge, "publish 1 all"])
    world = running.simulation
    monkeypatch.setattr(world, "let_arrive", lambda way, index: world.queues.pop(way))
    assert running.director.do(("bring", 1, 0))
    assert (1, 0) not in world.queues


def test_fifo_links_do_not_reorder() -> None:
    running = directed(["publish 0 all", "publish 0 all", "arrive 0 1 1"])
    assert running.simulation.fired == {"step_skipped": 1}
    assert ("deliver", 1, "0.2") not in deliveries(running)


def test_flood_delivers_as_messages_arrive() -> None:
    steps = ["publish 0 all", "arrive 0 1", "publish 1 all", "arrive 1 2 1"]
    found = judge(simulate(scenario(steps, "naive_flood", fifo=False)))
    assert found.broken("causal_order") and not found.broken("no_duplication")


def test_what_a_crash_keeps_arrives_and_then_the_loss() -> None:
    for keep, arrived in (("", 0), (" 0.5", 1), (" 1", 2)):
        running = directed(["publish 0 all", "publish 0 all", f"crash 0{keep}"])
        queue = running.simulation.queues[0, 1]  # type: ignore[index]
        assert [item.message for item in queue] == [*[1, 2][:arrived], -1]
        assert running.simulation.fired.get("lost_in_crash", 0) == 2 * (2 - arrived)


def test_a_crashed_node_comes_back_with_what_it_persisted_and_all_agree() -> None:
    running = prepare(scenario(["publish 0 all", "crash 0", "recover 0", "publish 1 all"]))
    running.run()
    run = running.result()
    assert run.header.complete and run.header.faults["recover"] == 1
    found = judge(run)
    assert found.all_broken() == [] and not found.pending
    assert len(rows(run, "deliver")) == 6


def test_a_crash_in_the_middle_of_a_step() -> None:
    """The entry is one effect: with none, nothing of the step ever was."""
    running = directed(["crash_in_step 0 0", "publish 0 all"])
    assert rows(running.result(), "publish", "crash") == [("crash", 0, "")]
    running = directed(["crash_in_step 0 1", "publish 0 all"])
    assert rows(running.result(), "publish", "deliver", "crash") == [
        ("publish", 0, "0.1"),
        ("deliver", 0, "0.1"),
        ("crash", 0, ""),
    ]
    running = directed(["crash_in_step 0 3", "publish 0 all"])
    copies = [row for row in rows(running.result(), "send") if row[2] == "0.1"]
    assert copies == [("send", 0, "0.1")]


def test_lost_and_doubled_messages() -> None:
    running = directed(["publish 0 all", "lose 0 1", "double 0 2", "arrive 0 2", "arrive 0 2"])
    assert running.simulation.fired == {"loss": 1, "duplication": 1}
    assert rows(running.result(), "duplicate") == [("duplicate", 2, "0.1")]
    running.complete()
    assert judge(running.result()).all_broken() == []


def test_a_timer_runs_out_and_the_clock_follows() -> None:
    running = directed(["publish 0 all", "lose 0 1", "expire 0 reliable_sending.repeat 1"])
    assert running.simulation.fired["note.reliable_sending.repeated"] == 1
    assert running.simulation.now >= 250_000
    assert [item.message for item in running.simulation.queues[0, 1]] == [1]  # type: ignore[index]


def test_a_cut_takes_what_is_on_the_link_and_heals() -> None:
    running = directed(["publish 0 all", "cut 0 1", "arrive 0 1", "arrive 1 0", "arrive 0 2"])
    assert 1 not in running.simulation.links[0]
    redial = "expire 1 standing_links.redial 0"
    for step in (redial, "heal 0 1", redial):
        running.director.do(parse(step, 3, ["all"]))
        assert (0 in running.simulation.links[1]) == (
            step == redial and not running.simulation.cuts
        )
    running.complete()
    assert judge(running.result()).all_broken() == []


def test_suspicions_of_one_node() -> None:
    running = directed(["suspect 1 0", "suspect 1 0", "trust 1 0", "trust 1 0"])
    assert rows(running.result(), "suspect", "trust") == [("suspect", 1, ""), ("trust", 1, "")]
    assert running.simulation.fired == {"suspect": 1, "step_skipped": 2}


def test_who_stays_down_is_suspected_in_the_end_by_all_near_it() -> None:
    """Also by one whom a step let suspect it, and by one that never had a link to it."""
    steps = ["crash 0", "crash 2", "recover 0", "suspect 1 2"]
    running = directed(steps)
    assert (0, 2) not in running.simulation.suspicions
    running.director.complete(recover_all=False)
    assert sorted(running.simulation.suspicions) == [(0, 2), (1, 2)]
    running.director.complete(recover_all=True)
    assert running.simulation.suspicions == {}


def test_members_come_and_go() -> None:
    running = directed(["join 2 few", "leave 0 few", "publish 0 few", "arrive 0 2", "arrive 0 1"])
    assert [node for _, node, _ in deliveries(running)] == [2, 1]
    assert rows(running.result(), "join", "leave") == [("join", 2, ""), ("leave", 0, "")]


def test_a_protocol_that_keeps_nothing_comes_back_as_somebody_new() -> None:
    running = directed(["crash 1", "recover 1", "publish 3 all"], protocol="naive_flood")
    assert len(running.simulation.nodes) == 4 and running.simulation.nodes[1].left
    assert rows(running.result(), "publish") == [("publish", 3, "3.1")]


def test_records_are_replaced_by_a_snapshot() -> None:
    running = directed(["publish 0 all", "publish 0 all", "compact 0"])
    records = running.simulation.nodes[0].disk.records
    running.director.do(("crash", 0))
    running.complete()
    assert running.simulation.fired["compact"] == 1 and records
    assert judge(running.result()).all_broken() == []


def test_steps_that_cannot_happen_are_skipped_and_counted() -> None:
    steps = [
        "arrive 0 1", "bring 0 1", "lose 0 1", "double 0 1", "expire 0 nothing", "recover 0",
        "trust 0 1", "heal 0 1", "join 0 all", "leave 2 few", "publish 5 all",
    ]  # fmt: skip
    assert directed(steps).simulation.fired == {"step_skipped": len(steps)}


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("arive 0 1", "a step that begins with one of publish, arrive"),
        ("arrive 0", "'arrive NODE NODE [INDEX]'"),
        ("publish 0 nobody", "a group (all, few), not 'nobody'"),
        ("crash x", "a node, not 'x'"),
        ("crash 99", "a node from 0 to 5, not 99"),
        ("crash 0 2", "a share from 0 to 1, not 2"),
        ("", "a step that begins with"),
    ],
)
def test_a_wrong_step_is_told_with_what_was_expected(step: str, expected: str) -> None:
    with pytest.raises(ConfigError) as error:
        scenario([step])
    assert str(error.value).startswith(f"test:2: steps = {step!r}: expected ")
    assert expected in str(error.value)


def test_steps_and_a_workload_exclude_each_other() -> None:
    text = scenario([]).text + "\n[[publish]]\nnode = 0\n"
    with pytest.raises(ConfigError, match="expected no publish, fault or random_faults"):
        Scenario(text, "test")


def test_every_step_survives_being_written_down() -> None:
    words = {"node": "1", "group": "all", "[index]": "2", "timer": "t", "[subject]": "3"}
    words |= {"[share]": "0.5", "count": "4", "word": "part"}
    for verb, shape in SHAPES.items():
        text = " ".join([verb, *(words[kind] for kind in shape.split())])
        assert text_of(parse(text, 3, ["all"])) == text
