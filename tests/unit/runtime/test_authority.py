"""What an authority gives out, takes back, and remembers."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from causalcast.errors import ConfigError, NodeError, WireError
from causalcast.runtime.security.authority import AUTHORITY_KEY, Authority
from causalcast.runtime.security.identity import (
    REVOKED,
    Identity,
    Passport,
    is_signed_by,
    parse_ids,
)
from causalcast.runtime.security.join_token import make_token, read_token
from causalcast.runtime.security.revocations import Revocations
from causalcast.runtime.security.tls import Tls


def key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


def test_an_identity_names_cluster_and_ids_and_only_its_user_reads_the_key(tmp_path: Path) -> None:
    authority = Authority.found(tmp_path / "authority", "a cluster / of mine")
    authority.make_identity(tmp_path / "one", 100, 199)
    identity = Identity.read(tmp_path / "one")
    assert identity.passport.cluster == "a cluster / of mine"
    assert identity.passport.allows(100) and identity.passport.allows(199)
    assert not identity.passport.allows(99) and not identity.passport.allows(200)
    for path in (tmp_path / "one" / "key.pem", tmp_path / "authority" / AUTHORITY_KEY):
        assert path.stat().st_mode & 0o077 == 0
    with pytest.raises(ConfigError, match="there is an authority already"):
        Authority.found(tmp_path / "authority", "again")


def test_an_identity_of_another_authority_is_not_one(tmp_path: Path) -> None:
    Authority.found(tmp_path / "a", "same").make_identity(tmp_path / "one", 1)
    other = Authority.found(tmp_path / "b", "same")
    other.make_identity(tmp_path / "two", 1)
    stolen = (tmp_path / "two" / "authority.pem").read_bytes()
    (tmp_path / "one" / "authority.pem").write_bytes(stolen)
    with pytest.raises(ConfigError, match="not signed by anybody in"):
        Identity.read(tmp_path / "one")


def test_a_token_is_used_once_also_after_a_restart_and_for_its_ids_only(tmp_path: Path) -> None:
    authority = Authority.found(tmp_path, "demo")
    ticket, _ = authority.make_ticket(5, 6, timedelta(minutes=1))
    passport = Passport.of(ticket)
    with pytest.raises(NodeError, match="for node 5-6, not 7"):
        authority.redeem(passport, 7, key().public_key())
    given = Authority.open(tmp_path).redeem(passport, 5, key().public_key())
    assert Passport.of(given).uri() == "causalcast://demo/node/5"
    with pytest.raises(NodeError, match="used before"):
        Authority.open(tmp_path).redeem(passport, 6, key().public_key())


@pytest.mark.parametrize("wrong", ["", "nonsense", "cctoken1-", "cctoken1-AAAA", "cctoken1-é"])
def test_what_is_no_token_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match="this is no token"):
        read_token(wrong, Path())


def test_a_token_that_was_shortened_anywhere_is_refused(tmp_path: Path) -> None:
    token = make_token(Authority.found(tmp_path, "demo"), 1, 9, timedelta(minutes=1))
    assert read_token(token, Path()).passport.ids() == "1-9"
    for length in range(len(token) - 1):
        with pytest.raises(ConfigError):
            read_token(token[:length], Path())


def test_revocations_are_numbered_signed_and_forget_what_has_lapsed(tmp_path: Path) -> None:
    authority = Authority.found(tmp_path / "authority", "demo")
    one = authority.make_identity(tmp_path / "one", 1).passport.serial
    short = authority.issue(2, 2, key().public_key(), days=-0.001).serial_number
    again = authority.make_identity(tmp_path / "again", 1).passport.serial
    assert authority.revoke(node=1) == [one, again]
    assert authority.revoke(serial=short) == [short]
    with pytest.raises(ConfigError, match="nothing of node 1 is there to be revoked"):
        authority.revoke(node=1)
    listed = authority.revocations()
    assert listed.number == 2 and listed.serials == {one, again}, "what has lapsed needs no place"
    other = Authority.found(tmp_path / "other", "demo")
    with pytest.raises(WireError, match="the authority did not sign"):
        Revocations.parse(listed.der, other.certificates)
    for byte in range(0, len(listed.der), 7):
        broken = bytearray(listed.der)
        broken[byte] ^= 1
        try:
            read = Revocations.parse(bytes(broken), authority.certificates)
        except WireError:
            continue
        # A bit outside of what is signed: the list says what it said.
        assert (read.number, read.serials) == (listed.number, listed.serials)


def test_an_older_list_never_replaces_a_newer_one(tmp_path: Path) -> None:
    authority = Authority.found(tmp_path / "authority", "demo")
    for node in (1, 2, 3):
        authority.make_identity(tmp_path / str(node), node)
    authority.revoke(node=1)
    older = authority.revocations().der
    authority.revoke(node=2)
    newer = authority.revocations().der
    tls = Tls(tmp_path / "3", "demo")
    assert tls.adopt(newer) and not tls.adopt(older) and not tls.adopt(newer)
    assert Tls(tmp_path / "3", "demo").revocations.number == 2, "it is kept over a restart"
    (tmp_path / "3" / REVOKED).write_bytes(b"half a fi")
    with pytest.raises(ConfigError):
        Tls(tmp_path / "3", "demo")


def test_a_new_key_of_the_authority_beside_the_old_one_and_then_alone(tmp_path: Path) -> None:
    authority = Authority.found(tmp_path / "authority", "demo")
    old = authority.make_identity(tmp_path / "old", 1).certificate
    authority.revoke(node=1)
    authority.renew()
    new = authority.make_identity(tmp_path / "new", 2).certificate
    authority = Authority.open(tmp_path / "authority")
    assert is_signed_by(old, authority.certificates) and is_signed_by(new, authority.certificates)
    assert authority.revocations().number == 2, "the list is signed anew"
    authority.forget_earlier()
    authority = Authority.open(tmp_path / "authority")
    assert not is_signed_by(old, authority.certificates)
    assert is_signed_by(new, authority.certificates) and authority.revocations().number == 2


def test_what_was_given_out_is_remembered_without_secrets(tmp_path: Path) -> None:
    authority = Authority.found(tmp_path / "authority", "demo")
    authority.make_identity(tmp_path / "one", 1)
    make_token(authority, 2, 2, timedelta(minutes=1))
    lines = (tmp_path / "authority" / "issued.jsonl").read_text().splitlines()
    assert [json.loads(line)["for"] for line in lines] == ["node", "join"]
    assert all(set(json.loads(line)) == {"at", "serial", "for", "ids", "until"} for line in lines)


@pytest.mark.parametrize("text", ["", "x", "3-", "-3", "9-3", "3-x", str(1 << 31)])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_ids(text)
