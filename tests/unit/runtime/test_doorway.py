"""Strangers are few: the oldest of the address that has most must go for a new one."""

from causalcast.limits import set_to
from causalcast.runtime.links.doorway import Strangers


class Somebody:
    def __init__(self) -> None:
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True


def strangers_with(most: int, per_address: int) -> Strangers:
    doorway = "runtime.links.doorway"
    with set_to({f"{doorway}.most_strangers": most, f"{doorway}.most_per_address": per_address}):
        return Strangers()


def enter(strangers: Strangers, address: str) -> Somebody:
    somebody = Somebody()
    strangers.enter(somebody, address)
    return somebody


def test_one_address_cannot_take_all_places() -> None:
    strangers = strangers_with(most=10, per_address=2)
    other = enter(strangers, "other")
    first, second, third = (enter(strangers, "crowd") for _ in range(3))
    assert (first.aborted, second.aborted, third.aborted) == (True, False, False)
    assert not other.aborted and len(strangers) == 3 and strangers.turned_away == 1


def test_when_all_places_are_taken_the_fullest_address_gives_one_up() -> None:
    strangers = strangers_with(most=4, per_address=3)
    lonely = enter(strangers, "lonely")
    crowd = [enter(strangers, "crowd") for _ in range(3)]
    late = enter(strangers, "late")
    assert [one.aborted for one in crowd] == [True, False, False]
    assert not lonely.aborted and not late.aborted and len(strangers) == 4


def test_who_gets_known_gives_its_place_back_and_keeps_its_age_until_then() -> None:
    strangers = strangers_with(most=10, per_address=2)
    knocking, guest = Somebody(), Somebody()
    strangers.enter(knocking, "crowd")
    young = enter(strangers, "crowd")
    strangers.replace(knocking, guest)
    enter(strangers, "crowd")
    assert guest.aborted and not young.aborted and not knocking.aborted
    strangers.leave(young)
    strangers.leave(young)
    assert len(strangers) == 1
