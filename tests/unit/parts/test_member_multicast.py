"""The causal layer of the member list: clocks, the hold-back queue, members left out or gone."""

from causalcast.parts.member_multicast import MOST_HELD, Copy, MemberMulticast, Stamped


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


def test_the_hold_back_queue_is_bounded() -> None:
    cleo = MemberMulticast(2, 3)
    for number in range(1, MOST_HELD + 10):
        cleo.receive(0, Stamped([number, 1, 0], True, b""))
    assert len(cleo.held()) == MOST_HELD
