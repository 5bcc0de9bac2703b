"""The causal layer of the member list: clocks, the hold-back queue, members left out or gone."""

from causalcast.protocols.member_multicast.members import (
    MOST_KEPT,
    Copy,
    MemberMulticast,
    PassedOn,
    Stamped,
)


def to(copies: list[Copy], member: int) -> Stamped:
    (stamped,) = [copy.stamped for copy in copies if copy.to == member]
    return stamped


def test_a_message_waits_for_what_its_sender_had_delivered() -> None:
    ada, bob, cleo = (MemberMulticast(me, 3) for me in range(3))
    own, revoked = ada.multicast(b"revoked", [0, 1, 2])
    assert (own.sender, own.number, own.stamped.vector) == (0, 1, [1, 0, 0])
    assert [one.stamped.text for one in bob.receive(0, to(revoked, 1))] == [b"revoked"]
    _, photos = bob.multicast(b"photos", [0, 1, 2])
    assert to(photos, 2).vector == [1, 1, 0]
    assert cleo.receive(1, to(photos, 2)) == []
    (held,) = cleo.held()
    assert (held.sender, held.cause_of, held.cause_number) == (1, 0, 1)
    taken = cleo.receive(0, to(revoked, 2))
    assert [one.stamped.text for one in taken] == [b"revoked", b"photos"]
    assert cleo.clock() == [1, 1, 0] and cleo.held() == []


def test_those_left_out_get_the_number_and_do_not_wait() -> None:
    ada, cleo = MemberMulticast(0, 3), MemberMulticast(2, 3)
    _, private = ada.multicast(b"for bob", [1])
    assert to(private, 1).addressed and to(private, 1).text == b"for bob"
    (counted,) = cleo.receive(0, to(private, 2))
    assert not counted.stamped.addressed and counted.stamped.text == b""
    _, public = ada.multicast(b"for all", [0, 1, 2])
    assert [one.stamped.text for one in cleo.receive(0, to(public, 2))] == [b"for all"]


def test_nothing_goes_to_a_member_that_failed() -> None:
    ada = MemberMulticast(0, 3)
    ada.drop(1)
    _, copies = ada.multicast(b"two of us", [0, 1, 2])
    assert [copy.to for copy in copies] == [2]
    assert ada.others() == [2]


def test_vectors_that_cannot_be_are_ignored() -> None:
    cleo = MemberMulticast(2, 3)
    assert cleo.receive(0, Stamped([1, 0, 0, 7], True, b"a slot nobody has")) == []
    assert cleo.receive(0, Stamped([0, 0, 0], True, b"no number")) == []
    assert cleo.receive(2, Stamped([0, 0, 1], True, b"my own")) == []
    assert cleo.held() == [] and cleo.clock() == [0, 0, 0]
    waits = Stamped([1, 9, 0], True, b"waits")
    assert cleo.receive(0, waits) == [] and cleo.receive(0, waits) == []
    assert len(cleo.held()) == 1


def test_nothing_is_thrown_away_however_many_are_held() -> None:
    """The one that all of them wait for comes last."""
    cleo = MemberMulticast(2, 3)
    for number in range(1, 3001):
        assert cleo.receive(0, Stamped([number, 1, 0], True, b"")) == []
    assert cleo.held_count() == len(cleo.held()) == cleo.held_of[0] == 3000
    assert cleo.cause_of(0, 7) == (0, 6) and cleo.cause_of(0, 1) == (1, 1)
    assert len(cleo.receive(1, Stamped([0, 1, 0], True, b""))) == 3001
    assert cleo.clock() == [3000, 1, 0] and cleo.held_count() == cleo.held_of[0] == 0


def texts(found: list[PassedOn]) -> list[tuple[int, int, bytes]]:
    return [(one.to, one.origin, one.stamped.text) for one in found]


def test_what_a_member_that_died_half_way_said_is_passed_on() -> None:
    bob, cleo = MemberMulticast(1, 3), MemberMulticast(2, 3)
    _, copies = MemberMulticast(0, 3).multicast(b"to bob, and dead", [0, 1, 2])
    bob.receive(0, to(copies, 1))
    _, answer = bob.multicast(b"answer", [0, 1, 2])
    assert cleo.receive(1, to(answer, 2)) == []
    assert bob.drop(0) == 1 and cleo.drop(0) == 0
    bob.lost(2, 0, 0)
    (passed,) = bob.take_to_pass_on()
    assert texts([passed]) == [(2, 0, b"to bob, and dead")]
    taken = cleo.passed_on(0, passed.stamped)
    assert [one.stamped.text for one in taken] == [b"to bob, and dead", b"answer"]
    cleo.lost(1, 0, 1)  # who has it is not told again
    assert cleo.take_to_pass_on() == [] and bob.take_to_pass_on() == []


def test_who_lost_a_link_hears_also_what_is_said_later() -> None:
    ada, bob, cleo = (MemberMulticast(me, 3) for me in range(3))
    bob.lost(2, 0, cleo.drop(0))
    for text in (b"one", b"two"):
        _, copies = ada.multicast(text, [0, 1, 2])
        bob.receive(0, to(copies, 1))
        (passed,) = bob.take_to_pass_on()
        assert [one.stamped.text for one in cleo.passed_on(0, passed.stamped)] == [text]


def test_a_message_for_some_is_passed_on_as_a_number() -> None:
    bob, cleo = MemberMulticast(1, 3), MemberMulticast(2, 3)
    _, private = MemberMulticast(0, 3).multicast(b"for bob", [1])
    bob.receive(0, to(private, 1))
    bob.lost(2, 0, cleo.drop(0))
    (passed,) = bob.take_to_pass_on()
    assert passed.stamped.text == b""
    (counted,) = cleo.passed_on(0, passed.stamped)
    assert not counted.stamped.addressed and cleo.clock() == [1, 0, 0]


def test_nobody_passes_on_what_nobody_asked_for() -> None:
    cleo = MemberMulticast(2, 3)
    assert cleo.passed_on(0, Stamped([1, 0, 0], True, b"said to be ada's")) == []
    assert cleo.passed_on(2, Stamped([0, 0, 1], True, b"said to be mine")) == []
    assert cleo.clock() == [0, 0, 0]


def test_copies_are_kept_until_everybody_has_them_and_no_more_than_some() -> None:
    ada, bob, cleo = (MemberMulticast(me, 3) for me in range(3))
    _, first = ada.multicast(b"first", [0, 1, 2])
    bob.receive(0, to(first, 1))
    assert bob.kept_count() == 1  # has cleo got it?
    cleo.receive(0, to(first, 2))
    _, answer = cleo.multicast(b"yes", [0, 1, 2])
    bob.receive(2, to(answer, 1))
    assert bob.kept_count() == 1  # hers, until ada speaks
    for _ in range(MOST_KEPT.value + 10):
        _, more = ada.multicast(b"more", [0, 1, 2])
        bob.receive(0, to(more, 1))
    assert bob.kept_count() == MOST_KEPT.value + 1


def test_what_is_kept_has_a_limit_in_bytes_too() -> None:
    bob = MemberMulticast(1, 3)
    ada = MemberMulticast(0, 3)
    for _ in range(10):
        _, large = ada.multicast(bytes(1 << 18), [0, 1, 2])
        bob.receive(0, to(large, 1))
    assert bob.kept_count() == 4
