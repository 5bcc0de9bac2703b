"""Every planted bug is noticed, becomes a small counter-example, and stands in the docs."""

from pathlib import Path

import pytest
from mutant_table import (
    FILES,
    Caught,
    made_small,
    row_of_the_docs,
    rows_of_the_docs,
    seeds_of_the_docs,
    shown_by,
)

from causalcast.errors import ConfigError
from causalcast.swarm.mutant import Mutant, Patch, find_mutant, mutants_of

ALL = [(path, mutant) for path in FILES for mutant in mutants_of(path)]


@pytest.mark.slow
@pytest.mark.parametrize(("path", "mutant"), ALL, ids=lambda value: getattr(value, "name", ""))
def test_it_is_caught(path: Path, mutant: Mutant) -> None:
    """At the seeds that the docs name; `make mutants` finds out which are the first."""
    is_caught(path, mutant)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_one_bug_of_every_protocol_is_caught(path: Path) -> None:
    """The one that is noticed soonest: the short form of the test above."""

    def first_seed(mutant: Mutant) -> int:
        seeds = seeds_of_the_docs(path.stem, mutant.name)
        return min(seed for seed in seeds if seed is not None)

    is_caught(path, min(mutants_of(path), key=first_seed))


def is_caught(path: Path, mutant: Mutant) -> None:
    """It breaks what it is said to break, at the seeds of the docs, and its row there is true."""
    random, adversary = seeds_of_the_docs(path.stem, mutant.name)
    trials = shown_by(path, mutant, random, adversary)
    broken = [trial.problems[0].property for trial in trials]
    assert broken[0] in mutant.breaks
    row = row_of_the_docs(path.stem, mutant.name)
    events = int(row.rsplit("|", 2)[1])
    told = Caught(path.stem, mutant.name, mutant.mechanism, broken[0], random, adversary, events)
    assert row == told.row(), "run `make mutants`, and read the diff"
    assert events <= 10
    assert min(seed for seed in (random, adversary) if seed is not None) < 1000


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_its_counter_example_becomes_small(path: Path) -> None:
    """The first of each protocol; `make mutants` does it for all of them, and for both seeds.

    Here the adversary's is made small, which has no clock and is soon run, where there is one.
    """
    mutant = mutants_of(path)[0]
    random, adversary = seeds_of_the_docs(path.stem, mutant.name)
    if adversary is not None:
        random = None
    assert made_small(path, mutant, random, adversary, patience_s=300).events <= 10


def test_there_are_enough_and_every_mechanism_has_its_own() -> None:
    assert len(ALL) >= 10
    for path in FILES:
        names = [mutant.name for mutant in mutants_of(path)]
        assert len(set(names)) == len(names)
    assert len(rows_of_the_docs()) == len(ALL)


def test_a_mutant_leaves_no_trace_behind() -> None:
    class Victim:
        def answer(self) -> int:
            return 42

    original = Victim.answer
    mutant = Mutant("wrong", "the answer", ["validity"], [Patch(Victim, "answer", lambda _: 41)])
    with mutant.planted():
        assert Victim().answer() == 41
    assert Victim.answer is original and Victim().answer() == 42


def test_nor_in_a_class_that_inherits_what_it_takes_away() -> None:
    class Base:
        def answer(self) -> int:
            return 42

    class Victim(Base):
        pass

    mutant = Mutant("wrong", "the answer", ["validity"], [Patch(Victim, "answer", lambda _: 41)])
    with mutant.planted():
        assert Victim().answer() == 41 and Base().answer() == 42
    assert "answer" not in vars(Victim) and Victim().answer() == 42
    with pytest.raises(AttributeError), Mutant("", "", [], [Patch(Victim, "nothing", 1)]).planted():
        pass


def test_unknown_mutants_and_files_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no mutant 'nothing'; there are duplicates_delivered"):
        find_mutant(FILES[0].with_name("naive_flood.py"), "nothing")
    with pytest.raises(ConfigError, match="no such file"):
        mutants_of(tmp_path / "nowhere.py")
    empty = tmp_path / "empty.py"
    empty.write_text("MUTANTS = 3\n")
    with pytest.raises(ConfigError, match="expected a list MUTANTS"):
        mutants_of(empty)


def test_the_row_of_a_mutant_names_what_matters() -> None:
    row = Caught("p", "m", "mechanism", "validity", 0, None, 3).row()
    assert row == "| `p` | `m` | mechanism | validity | 1 | – | 3 |"
