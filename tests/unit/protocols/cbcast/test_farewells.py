"""Who left a group waits for what the others sent before they knew of it."""

from causalcast.core import NodeId
from causalcast.core.ids import GroupId
from causalcast.core.message import Message
from causalcast.parts.addressed.member_lists import Left
from causalcast.protocols.cbcast.farewells import Farewell, Farewells

ONE, TWO, ORIGIN = NodeId(1), NodeId(2), NodeId(3)
CLUB, OTHER = GroupId(5), GroupId(6)
PEERS = 3


def left(number: int = 1) -> Farewells:
    farewells = Farewells()
    farewells.leave(CLUB, number)
    return farewells


def lacks(farewells: Farewells, number: int, sender: NodeId = ONE, past: int = 0) -> bool:
    """Whether a message of `sender` waits that names so many of `ORIGIN`'s."""
    found = list(farewells.lacks(sender, CLUB, {ORIGIN: number, TWO: 0}, {ORIGIN: past}))
    assert found in ([], [ORIGIN])
    return bool(found)


def keeps(farewells: Farewells, number: int, before: int) -> bool:
    return farewells.keeps(ORIGIN, CLUB, number, before, {})


def restarted(farewells: Farewells) -> Farewells:
    again = Farewells()
    for record in farewells.snapshot():
        again.restore(record)
    assert again.size() == farewells.size()
    return again


def test_only_what_is_not_in_the_past_is_lacking_and_only_of_what_was_left() -> None:
    assert not lacks(Farewells(), 4) and Farewells().size() == 0 and left().size() == 1
    assert lacks(left(), 4) and lacks(left(), 4, past=3)
    assert not lacks(left(), 4, past=4)
    assert not list(left().lacks(ONE, OTHER, {ORIGIN: 4}, {}))


def test_what_came_counts_when_nothing_before_it_is_missing() -> None:
    farewells = left()
    assert keeps(farewells, 2, 0) and not lacks(farewells, 2)
    assert not keeps(farewells, 9, 7) and not keeps(farewells, 7, 4)
    assert lacks(restarted(farewells), 3) and farewells.size() == 4
    assert keeps(farewells, 4, 2)
    assert not lacks(restarted(farewells), 9) and lacks(farewells, 10)
    assert farewells.size() == 2
    assert not keeps(farewells, 4, 2)  # again
    assert not Farewells().keeps(ORIGIN, CLUB, 2, 0, {})


def test_a_past_that_grew_closes_the_gap() -> None:
    farewells = left()
    assert not keeps(farewells, 5, 3)
    assert farewells.keeps(ORIGIN, CLUB, 7, 5, {ORIGIN: 3}) and not lacks(farewells, 7)


def test_a_farewell_ends_the_waiting_for_its_sender_and_tells_the_others() -> None:
    farewells = left()
    assert farewells.on_farewell(ONE, Farewell(CLUB, 1, {ORIGIN: 6}), PEERS)
    for again in (farewells, restarted(farewells)):
        assert not lacks(again, 100)
        assert not lacks(again, 6, sender=TWO) and lacks(again, 7, sender=TWO)
        assert [asked.number for asked in again.unheard(TWO)] == [1]
        assert not list(again.unheard(ONE))
    assert farewells.on_farewell(TWO, Farewell(CLUB, 1, {ORIGIN: 2}), PEERS)
    assert lacks(farewells, 7, sender=ORIGIN) and not lacks(farewells, 6, sender=ORIGIN)
    assert farewells.on_farewell(TWO, Farewell(CLUB, 1, {}), PEERS)  # once more
    assert farewells.on_farewell(ORIGIN, Farewell(CLUB, 1, {}), PEERS)
    assert farewells.size() == 0 and not farewells.snapshot()
    assert not farewells.on_farewell(ORIGIN, Farewell(CLUB, 1, {}), PEERS)


def test_who_leaves_again_waits_for_new_farewells_and_forgets_nothing() -> None:
    farewells = left()
    farewells.on_farewell(ONE, Farewell(CLUB, 1, {ORIGIN: 6}), PEERS)
    assert not keeps(farewells, 9, 8)
    farewells.leave(CLUB, 3)
    assert not farewells.on_farewell(ONE, Farewell(CLUB, 1, {ORIGIN: 20}), PEERS)
    assert not lacks(farewells, 6) and lacks(farewells, 7)
    assert keeps(farewells, 8, 6) and not lacks(farewells, 9)


def test_other_records_are_not_taken() -> None:
    farewells = Farewells()
    record: Message = Left(CLUB)
    farewells.restore(record)
    assert farewells.size() == 0
