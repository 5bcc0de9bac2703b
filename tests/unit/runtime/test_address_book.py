"""Whose word counts for an address, and what travels before a node is named."""

import pytest

from causalcast.core import NodeId
from causalcast.errors import WireError
from causalcast.overlays.hyparview import SPEC, ForwardJoin, Join, Shuffle
from causalcast.runtime.links import address_book
from causalcast.runtime.links.address_book import Address, AddressBook
from causalcast.runtime.links.introductions import Addresses, Introduced, take_in
from causalcast.wire.codec import Codec

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def at(port: int) -> Address:
    return Address("127.0.0.1", port)


def test_the_configuration_is_believed_first_and_hearsay_last() -> None:
    book = AddressBook({ONE: at(1)})
    book.learn(ONE, at(9))
    assert book.find(ONE) == at(1)
    book.hear(TWO, at(2))
    assert book.find(TWO) == at(2)
    book.learn(TWO, at(22))
    book.hear(TWO, at(2))
    assert book.find(TWO) == at(22)
    book.learn(TWO, at(23))  # it moved
    assert book.find(TWO) == at(23)
    assert book.find(THREE) is None


def test_hearsay_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address_book.MOST_ADDRESSES, "value", 2)
    book = AddressBook({})
    for node in (ONE, TWO, THREE):
        book.hear(node, at(node))
    assert [book.find(node) for node in (ONE, TWO, THREE)] == [None, at(2), at(3)]


def test_an_address_goes_over_a_link_once() -> None:
    book = AddressBook({ONE: at(1), TWO: at(2)})
    introduced = Introduced()
    assert introduced.of_strangers([ONE, THREE], book) == {ONE: "127.0.0.1:1"}
    assert introduced.of_strangers([ONE, TWO], book) == {TWO: "127.0.0.1:2"}
    book.hear(THREE, at(3))
    assert introduced.of_strangers([ONE, TWO, THREE], book) == {THREE: "127.0.0.1:3"}


@pytest.mark.parametrize("text", ["nonsense", "10.1.2.3:80", ":7", "127.0.0.1:0"])
def test_no_address_is_taken_that_must_not_be_dialled(text: str) -> None:
    book = AddressBook({})
    with pytest.raises(WireError):
        take_in(Addresses({ONE: text}), book, tls=False)
    assert book.find(ONE) is None


def test_a_message_tells_whom_it_names() -> None:
    codec = Codec([[], SPEC.messages, []])
    assert codec.nodes_named(ForwardJoin(THREE, 4)) == [THREE]
    shuffle = Shuffle([ONE], 4, [TWO, THREE], part=ONE, age=0)
    assert codec.nodes_named(shuffle) == [ONE, TWO, THREE, ONE]
    assert codec.nodes_named(Join()) == []
