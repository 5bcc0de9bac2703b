"""The point-to-point layer keeps its promises in random schedules and in every small one, and
every planted bug is noticed."""

from collections import Counter

import pytest
from every_interleaving import explore
from lossy_world import LossyWorld
from planted_bugs import MUTANTS
from promises import Broken
from search import MUST_FIRE, first_broken

from causalcast.swarm.mutant import Mutant

SEEDS = range(1_000)  # ten thousand were played by hand, see docs/reliable_udp.md
NO_FAULTS = {"loss": 0, "duplication": 0, "restart": 0, "late": 0}


@pytest.mark.slow
def test_random_schedules_and_every_fault_fires() -> None:
    fired: Counter[str] = Counter()
    assert first_broken(SEEDS, fired) is None
    assert [name for name in MUST_FIRE if not fired[name]] == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_bug_is_noticed(mutant: Mutant) -> None:
    with mutant.planted():
        found = first_broken(SEEDS)
    assert found is not None
    assert found[1].promise in mutant.breaks


def test_the_same_seed_is_the_same_schedule() -> None:
    worlds = [LossyWorld(3), LossyWorld(3)]
    for world in worlds:
        world.play()
    assert worlds[0].fired == worlds[1].fired and worlds[0].now == worlds[1].now


@pytest.mark.slow
@pytest.mark.parametrize("senders", [(0, 0), (0, 1)])
def test_every_interleaving_with_a_loss_and_a_restart(senders: tuple[int, ...]) -> None:
    counted = explore(senders, NO_FAULTS | {"loss": 1, "restart": 1})
    assert counted["loss"] and counted["restart"] and counted["timer"] and counted["ends"] > 100


@pytest.mark.parametrize("fault", ["duplication", "late"])
def test_every_interleaving_with_another_fault(fault: str) -> None:
    counted = explore((0, 1), NO_FAULTS | {fault: 1})
    assert counted["states"] > 500


@pytest.mark.slow
@pytest.mark.parametrize("name", ["no_dedup", "gap_acknowledged", "restart_not_reported"])
def test_the_walk_notices_planted_bugs_too(name: str) -> None:
    (mutant,) = [mutant for mutant in MUTANTS if mutant.name == name]
    with mutant.planted(), pytest.raises(Broken):
        explore((0, 0), NO_FAULTS | {"loss": 1, "duplication": 1, "restart": 1})
