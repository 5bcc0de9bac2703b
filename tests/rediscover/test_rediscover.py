"""Every past bug can be planted, shows in its old schedule, and is found where the docs say."""

from pathlib import Path

import pytest

from causalcast.errors import ConfigError
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.mutant import Mutant, Rewritten
from causalcast.swarm.past_bug import MOST_WORLDS, PastBug, Place
from causalcast.swarm.trial import try_scenario
from rediscover import (
    DOCS,
    HEAD,
    all_bugs,
    look_for,
    look_further,
    nothing_yet,
    problem_of,
    rows_of_the_docs,
    share_of,
    together,
)

BUGS = {name: bug for name, (_, bug) in all_bugs().items()}
SCHEDULES = Path(__file__).parent.parent / "simulation" / "past_failures"
WITH_SCHEDULE = [bug for bug in BUGS.values() if bug.schedule]
CHEAP = 1.0  # CPU seconds
A_HANDFUL = 8


def cheapest() -> list[tuple[str, int]]:
    """Bugs that the docs say are found at once, and by how many seeds."""
    found = []
    for name, row in rows_of_the_docs().items():
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        if cells[3] != "**nobody**" and float(cells[6]) <= CHEAP:
            found.append((name, int(cells[5])))
    return found


class Counter:
    """Something to plant a bug in."""

    def __init__(self) -> None:
        self.count = 0

    def add(self) -> int:
        """One more."""
        self.count += 1
        return self.count


def test_a_piece_of_text_is_replaced_and_comes_back() -> None:
    patch = Rewritten(Counter, "add", "self.count += 1", "self.count += 2")
    with Mutant("twice", "", (), [patch]).planted():
        assert Counter().add() == 2
    assert Counter().add() == 1


def test_text_that_is_not_there_any_more_is_told() -> None:
    patch = Rewritten(Counter, "add", "self.total += 1", "")
    with pytest.raises(ConfigError, match=r"Counter\.add: expected exactly once, found 0 times"):
        patch.replacement  # noqa: B018


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_it_can_be_planted(bug: PastBug) -> None:
    """The code may have moved on; then the bug is put back in another way, or it cannot be."""
    with bug.planted():
        pass


@pytest.mark.parametrize("bug", WITH_SCHEDULE, ids=lambda bug: bug.name)
def test_it_shows_in_the_schedule_that_once_failed(bug: PastBug) -> None:
    scenario = Scenario.read(SCHEDULES / f"{bug.schedule}.toml")
    with bug.planted():
        assert try_scenario(scenario).problems


def test_places_are_tried_in_turn_with_ever_more_seeds() -> None:
    one, other = Place("cbcast"), Place("cbcast", nodes=True)
    bug = PastBug(name="", mechanism="", patches=[], mended="", places=[one, other])
    assert list(bug.rounds(300)) == [
        (one, range(100)),
        (other, range(25)),
        (one, range(100, 200)),
        (one, range(200, 300)),
        (other, range(25, 50)),
        (other, range(50, 75)),
    ]
    assert sum(len(seeds) for _, seeds in bug.rounds(20_000)) == 20_000 + MOST_WORLDS


def test_bugs_of_one_place_are_looked_for_together() -> None:
    names = ["kept_what_a_neighbour_sent", "sent_what_a_neighbour_told_it_has"]
    both = [nothing_yet(name) for name in names]
    assert together(both, 100) == [both]
    alone = {name: look_for(name, 100) for name in names}
    for one in look_further(both, 100):
        assert one.found and one.seed == alone[one.bug].seed


def test_bugs_that_change_the_same_function_are_not() -> None:
    names = ["an_old_disk_is_believed", "a_lost_tail_that_was_used_up_again"]
    assert len(together([nothing_yet(name) for name in names], 100)) == 2


def test_every_bug_has_its_row() -> None:
    assert HEAD in DOCS.read_text()
    assert list(rows_of_the_docs()) == list(BUGS), "run `make rediscover`"


def test_the_docs_say_how_many_are_found() -> None:
    assert share_of(list(rows_of_the_docs().values())) in DOCS.read_text()


@pytest.mark.parametrize(("name", "seeds"), cheapest()[:A_HANDFUL])
def test_the_seed_of_the_docs_shows_it(name: str, seeds: int) -> None:
    _, _, _, world, where, *_ = rows_of_the_docs()[name].split(" | ")
    place = next(
        place
        for place in BUGS[name].places
        if place.in_words() == where.strip("`") and place.world_of(seeds - 1) == world
    )
    with BUGS[name].planted():
        assert problem_of(place, seeds - 1)
    assert not problem_of(place, seeds - 1)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seeds"), cheapest())
def test_it_is_found_as_soon_as_the_docs_say(name: str, seeds: int) -> None:
    assert look_for(name, seeds).found


def test_the_docs_know_some_that_are_found_at_once() -> None:
    assert len(cheapest()) >= 5
