"""A search that tries commuting steps in one order only sees all that the full search sees."""

import pickle
from pathlib import Path

import pytest

from causalcast.errors import ConfigError
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.explore import Exploration, Explorer, Limits
from causalcast.swarm.mutant import find_mutant
from causalcast.swarm.trial import try_scenario

ROOT = Path(__file__).parents[3]
ONE_MESSAGE = ROOT / "scenarios" / "new_link_one_message.toml"
COUNTS = ROOT / "scenarios" / "new_link_counts.toml"
LAZY = ROOT / "scenarios" / "new_link_beside_a_lazy_one.toml"
VECTOR = {"link_setup": "vector"}
SAFE_PATH = {"link_setup": "safe_path"}


def searched(
    options: dict[str, str], cuts: int, reduced: bool, protocol: str = "prc_broadcast"
) -> tuple[Explorer, Exploration]:
    """The exchange on a new link, in either set-up, with one broadcast at any moment."""
    path = ONE_MESSAGE if options["link_setup"] == "safe_path" else COUNTS
    text = path.read_text().replace('"publish 0 all", "publish 1 all", ', "")
    scenario = Scenario(text, path.name, protocol, options)
    explorer = Explorer(scenario, Limits(cuts=cuts), reduced=reduced)
    return explorer, explorer.explore()


@pytest.mark.parametrize(
    ("protocol", "options", "cuts"),
    [
        ("prc_broadcast", SAFE_PATH, 0),
        ("prc_broadcast", VECTOR, 1),
        ("cptcast", {**VECTOR, "order": "queue"}, 0),
    ],
)
def test_every_memory_and_every_end_is_seen(
    protocol: str, options: dict[str, str], cuts: int
) -> None:
    """All memories that nodes can have, and how all runs can end, with far fewer steps."""
    full, whole = searched(options, cuts, False, protocol)
    reduced, part = searched(options, cuts, True, protocol)
    assert whole.proved() and part.proved()
    assert part.states < whole.states and part.transitions < 0.8 * whole.transitions
    assert part.final_states == whole.final_states > 0
    assert memories(reduced) == memories(full)
    assert ends(reduced) == ends(full)


def memories(explorer: Explorer) -> set[bytes]:
    """Of all nodes; in which order timers were started does not count."""
    found = set()
    for memory in explorer._states._memories.things:
        stack, groups, timers, disk, plain = pickle.loads(memory)
        found.add(pickle.dumps((stack, groups, sorted(timers), disk, plain)))
    return found


def ends(explorer: Explorer) -> set[tuple[object, ...]]:
    return {
        (parts, *(explorer._states.log(log) for log in logs))
        for logs, parts in explorer._judged_at_rest
    }


@pytest.mark.parametrize(
    ("mutant", "options", "cuts"),
    [
        ("before_pi_forgotten", SAFE_PATH, 0),
        ("alpha_taken_for_pi", SAFE_PATH, 0),
        ("buffer_ignored", SAFE_PATH, 0),
        ("owed_all_since_pi", SAFE_PATH, 0),
        ("caught_up_twice", VECTOR, 0),
        ("nothing_owed_after_counts", VECTOR, 1),
    ],
)
def test_both_searches_find_a_planted_bug(mutant: str, options: dict[str, str], cuts: int) -> None:
    with find_mutant(ROOT / "tests/mutants/prc_broadcast.py", mutant).planted():
        _, whole = searched(options, cuts, False)
        _, part = searched(options, cuts, True)
        assert whole.problem is not None and part.problem is not None
        assert whole.problem.property == part.problem.property
        assert part.transitions <= whole.transitions
        # Its text repeats it; what comes twice may then go round for ever.
        assert try_scenario(Scenario(part.text, "again")).broken()


def test_both_searches_find_that_the_exchange_overtakes_an_announcement() -> None:
    """Of CPTCast: A–C only announces, and the exchange on A–B must wait behind what C holds."""
    scenario = Scenario.read(LAZY)
    sound = Explorer(scenario, Limits(), reduced=True).explore()
    assert sound.proved() and sound.final_states > 50
    with find_mutant(ROOT / "tests/mutants/cptcast.py", "control_overtakes").planted():
        whole = Explorer(scenario, Limits()).explore()
        part = Explorer(scenario, Limits(), reduced=True).explore()
    assert whole.problem is not None and part.problem is not None
    assert whole.problem.property == part.problem.property == "fifo_order"


def test_what_goes_round_for_ever_at_the_end_is_found_too() -> None:
    """The same with one broadcast: it is taken for new again and again."""
    text = LAZY.read_text().replace('"publish 2 all", "publish 2 all"', '"publish 2 all"')
    with find_mutant(ROOT / "tests/mutants/cptcast.py", "control_overtakes").planted():
        found = Explorer(Scenario(text, "one"), Limits(), reduced=True).explore()
    assert found.problem is not None and "a storm" in found.problem.detail


def test_what_it_cannot_do_is_told() -> None:
    scenario = Scenario.read(ONE_MESSAGE)
    with pytest.raises(ConfigError, match="anything else needs the full search"):
        Explorer(scenario, Limits(losses=1), reduced=True)
    text = ONE_MESSAGE.read_text() + "\n[network]\nfifo = false\n"
    with pytest.raises(ConfigError, match="anything else needs the full search"):
        Explorer(Scenario(text, "not FIFO", "naive_flood"), Limits(), reduced=True)
