"""Texts and vectors of constant size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causalcast.errors import WireError
from causalcast.parts.member_multicast import MOST_MEMBERS, Stamped
from causalcast.wire.member_message import LONGEST_TEXT, decode, encode

slots = st.lists(st.integers(0, (1 << 32) - 1), min_size=2, max_size=MOST_MEMBERS)


@given(slots, st.booleans(), st.binary(max_size=LONGEST_TEXT))
def test_there_and_back(vector: list[int], addressed: bool, text: bytes) -> None:
    body = encode(Stamped(vector, addressed, text))
    assert len(body) == 2 + LONGEST_TEXT + 4 * MOST_MEMBERS
    found = decode(body)
    assert found.vector[: len(vector)] == vector and not any(found.vector[len(vector) :])
    assert (found.addressed, found.text) == (addressed, text)


@pytest.mark.parametrize("place_and_value", [(0, 2), (1, LONGEST_TEXT + 1)])
def test_what_contradicts_itself_is_refused(place_and_value: tuple[int, int]) -> None:
    body = bytearray(encode(Stamped([1, 2], True, b"text")))
    place, value = place_and_value
    body[place] = value
    with pytest.raises(WireError):
        decode(bytes(body))
    with pytest.raises(WireError):
        decode(bytes(body[:-1]))
