"""Texts and vectors of constant size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causalcast.cli.udp.member_message import (
    COUNTED_ON,
    LONGEST_TEXT,
    LOST,
    PASSED_ON,
    decode,
    encode,
    encode_lost,
    encode_passed_on,
)
from causalcast.errors import WireError
from causalcast.protocols.member_multicast.members import MOST_MEMBERS, Stamped

slots = st.lists(st.integers(0, (1 << 32) - 1), min_size=2, max_size=MOST_MEMBERS)


@given(slots, st.booleans(), st.booleans(), st.binary(max_size=LONGEST_TEXT))
def test_there_and_back(vector: list[int], addressed: bool, for_all: bool, text: bytes) -> None:
    for_all = for_all and addressed
    body = encode(Stamped(vector, addressed, text, 0, for_all))
    assert len(body) == 3 + LONGEST_TEXT + 4 * MOST_MEMBERS
    found = decode(body).stamped
    assert found.vector[: len(vector)] == vector and not any(found.vector[len(vector) :])
    assert (found.addressed, found.for_all, found.text) == (addressed, for_all, text)


def test_what_is_passed_on_names_its_origin_and_a_lost_link_its_other_end() -> None:
    passed = decode(encode_passed_on(1, Stamped([2, 3], True, b"text", 0, True)))
    assert (passed.kind, passed.member, passed.stamped.text) == (PASSED_ON, 1, b"text")
    counted = decode(encode_passed_on(1, Stamped([2, 3], False, b"")))
    assert (counted.kind, counted.stamped.addressed) == (COUNTED_ON, False)
    lost = decode(encode_lost(5, 77))
    assert (lost.kind, lost.member, lost.stamped.vector[5]) == (LOST, 5, 77)


@pytest.mark.parametrize(
    "place_and_value", [(0, LOST + 1), (1, MOST_MEMBERS), (2, LONGEST_TEXT + 1)]
)
def test_what_contradicts_itself_is_refused(place_and_value: tuple[int, int]) -> None:
    body = bytearray(encode(Stamped([1, 2], True, b"text")))
    place, value = place_and_value
    body[place] = value
    with pytest.raises(WireError):
        decode(bytes(body))
    with pytest.raises(WireError):
        decode(bytes(body[:-1]))
