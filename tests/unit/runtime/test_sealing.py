"""Keys that both ends work out, seals that cannot be forged or used twice, cookies."""

import random

import pytest

from causalcast.datagrams.point_to_point import ACK_OF_ACK, WIDEST, Datagram
from causalcast.datagrams.sealed_bytes import (
    RESET,
    SEALED_HEAD,
    pack_content,
    read_content,
    read_head,
    read_setup,
)
from causalcast.errors import WireError
from causalcast.runtime.links.udp.sealing import (
    REPLAY_WINDOW,
    ClusterKey,
    Cookies,
    Exchange,
    Opener,
    Sealer,
)

MEMBER = ClusterKey(b"k" * 32)
KEY = bytes(32)


def opened(opener: Opener, data: bytes) -> bytes:
    _, counter = read_head(data)
    return opener.open(data, counter)


def padded(words: bytes) -> bytes:
    """As long as a content is at least."""
    return words.ljust(40, b".")


def test_both_ends_work_out_the_same_keys_and_nobody_else_does() -> None:
    one, two = Exchange(), Exchange()
    here = one.agree(two.public, MEMBER, b"what was said")
    there = two.agree(one.public, MEMBER, b"what was said")
    assert (here.caller_key, here.callee_key) == (there.caller_key, there.callee_key)
    assert here.caller_key != here.callee_key and here.caller_token != here.callee_token
    assert here.proof(b"x") == there.proof(b"x")
    stranger = two.agree(one.public, ClusterKey(b"another"), b"what was said")
    assert stranger.proof(b"x") != here.proof(b"x")
    assert two.agree(one.public, MEMBER, b"something else").proof(b"x") != here.proof(b"x")
    with pytest.raises(WireError):
        one.agree(bytes(32), MEMBER, b"")  # a point of small order gives no secret


def test_membership_is_proven_by_the_key_alone() -> None:
    assert MEMBER.is_proof(b"call", ClusterKey(b"k" * 32).prove(b"call"))
    assert not MEMBER.is_proof(b"call", ClusterKey(b"other").prove(b"call"))
    assert not MEMBER.is_proof(b"another", MEMBER.prove(b"call"))


def test_a_sealed_datagram_is_opened_once_and_only_unchanged() -> None:
    sealer, opener = Sealer(KEY), Opener(KEY)
    data = sealer.seal(7, padded(b"content"))
    assert read_head(data) == (7, 1)
    for place in range(len(data)):
        changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        with pytest.raises(WireError):
            opened(opener, changed)
    assert opened(opener, data) == padded(b"content")
    with pytest.raises(WireError, match="replay"):
        opened(opener, data)
    with pytest.raises(WireError, match="forged"):
        opened(Opener(bytes([1] * 32)), data)


def test_datagrams_may_overtake_one_another_within_the_window() -> None:
    sealer, opener = Sealer(KEY), Opener(KEY)
    sent = [sealer.seal(7, padded(b"%d" % number)) for number in range(3 * REPLAY_WINDOW.value)]
    shuffled = sent[: REPLAY_WINDOW.value]
    random.Random(1).shuffle(shuffled)
    assert {opened(opener, one) for one in shuffled} == {
        padded(b"%d" % number) for number in range(REPLAY_WINDOW.value)
    }
    opened(opener, sent[-1])
    with pytest.raises(WireError, match="replay"):
        opened(opener, sent[REPLAY_WINDOW.value])  # so old that nobody knows whether it came
    for one in sent:
        try:
            opened(opener, one)
        except WireError:
            continue
    for one in sent:
        with pytest.raises(WireError):
            opened(opener, one)


def test_cookies_are_for_one_caller_and_some_time() -> None:
    cookies = Cookies()
    cookie = cookies.make(b"ada")
    assert cookies.is_good(cookie, b"ada") and not cookies.is_good(cookie, b"bob")
    cookies.renew()
    assert cookies.is_good(cookie, b"ada")
    cookies.renew()
    assert not cookies.is_good(cookie, b"ada")


def test_contents_go_there_and_back() -> None:
    for early in (0, 1, 8, 1 << 64, (1 << WIDEST) - 1):
        sent = Datagram(ACK_OF_ACK, 1, 2, 3, 4, 5, 6, 7, early, 9, 10, b"body")
        found = read_content(pack_content(sent), 1, 2)
        assert [getattr(found, name) for name in Datagram.__slots__] == [
            getattr(sent, name) for name in Datagram.__slots__
        ]
        for cut in (-len(b"body") - 1, -len(b"body") - 20):
            with pytest.raises(WireError):  # half a map, half a head
                read_content(pack_content(sent)[:cut], 1, 2)
    assert read_content(pack_content(Datagram(RESET, 1, 2)), 1, 2).kind == RESET
    for nonsense in (b"", bytes(5), pack_content(Datagram(ACK_OF_ACK + 1, 0, 0))):
        with pytest.raises(WireError):
            read_content(nonsense, 1, 2)


def test_what_is_no_datagram_of_ours_is_refused() -> None:
    for nonsense in (b"", b"\xc1", b"\xc1" + bytes(200), b"\xc4" * 20, b"GET / HTTP/1.1"):
        with pytest.raises(WireError):
            read_setup(nonsense)
        with pytest.raises(WireError):
            read_head(nonsense)
    assert SEALED_HEAD.size == 17
