"""Datagrams survive the way through bytes; what was cut or damaged does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causalcast.datagrams.plain_bytes import LARGEST, LARGEST_BODY, OVERHEAD, decode, encode
from causalcast.datagrams.point_to_point import LAST_KIND, Datagram
from causalcast.errors import WireError

numbers = st.integers(0, (1 << 32) - 1)
small = st.integers(0, 255)
tokens = st.integers(0, (1 << 64) - 1)
datagrams = st.builds(
    Datagram,
    st.integers(0, LAST_KIND),
    tokens,
    tokens,
    numbers,
    small,
    numbers,
    small,
    numbers,
    tokens,
    numbers,
    st.integers(0, 65535),
    st.binary(max_size=LARGEST_BODY),
)
senders = st.tuples(
    st.one_of(st.ip_addresses(v=4), st.just("::1"), st.just("2001:db8::7")).map(str),
    st.integers(0, 65535),
)


def fields(datagram: Datagram) -> list[object]:
    return [getattr(datagram, name) for name in Datagram.__slots__]


@given(datagrams, senders)
def test_there_and_back(datagram: Datagram, sender: tuple[str, int]) -> None:
    data = encode(datagram, sender)
    assert len(data) == OVERHEAD + len(datagram.body) <= LARGEST
    who, found = decode(data)
    assert who == sender and fields(found) == fields(datagram)


@given(datagrams, st.data())
def test_one_changed_bit_or_a_cut_is_noticed(datagram: Datagram, data: st.DataObject) -> None:
    whole = encode(datagram, ("127.0.0.1", 7000))
    place = data.draw(st.integers(0, len(whole) - 1))
    bit = data.draw(st.integers(0, 7))
    with pytest.raises(WireError):
        decode(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
    with pytest.raises(WireError):
        decode(whole[:place])


@given(st.binary(max_size=2 * LARGEST))
def test_noise_is_no_datagram(noise: bytes) -> None:
    with pytest.raises(WireError):
        decode(noise)
