"""What an authority gives out, takes back, and remembers."""

import errno
import json
import os
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding

from causalcast.errors import ConfigError, NodeError, WireError
from causalcast.runtime.security.authority import AUTHORITY_KEY, ISSUED, Authority
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


def unwritable(folder: Path) -> None:
    """Nobody can write a list there, not even root: something stands in its way."""
    (folder / f"{REVOKED}.new").mkdir()


def test_revocation_holds_where_the_identity_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority.found(tmp_path / "authority", "demo")
    revoked = authority.make_identity(tmp_path / "1", 1).certificate
    authority.make_identity(tmp_path / "3", 3)
    unwritable(tmp_path / "3")
    authority.revoke(node=1)
    told = authority.revocations().der
    storage = tmp_path / "data"
    tls = Tls(tmp_path / "3", "demo", None, storage)
    assert tls.adopt(told), "whoever is on it has to be cut off"
    assert tls.is_kept() and Tls(tmp_path / "3", "demo", None, storage).revocations.number == 1
    with pytest.raises(WireError, match="is revoked"):
        tls.read_passport(revoked.public_bytes(Encoding.DER))

    nowhere = Tls(tmp_path / "3", "demo")
    assert nowhere.adopt(told) and not nowhere.is_kept() and nowhere.revocations.number == 1
    assert "cannot be kept for the next start" in caplog.text
    (tmp_path / "3" / f"{REVOKED}.new").rmdir()
    nowhere.refresh()
    assert nowhere.is_kept() and Tls(tmp_path / "3", "demo").revocations.number == 1


def test_a_full_disk_tears_nothing_that_was_given_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority.found(tmp_path / "authority", "demo")
    serial = authority.make_identity(tmp_path / "one", 1).passport.serial
    issued = tmp_path / "authority" / ISSUED
    before = issued.read_bytes()
    ticket = Passport.of(authority.make_ticket(2, 2, timedelta(minutes=1))[0])
    write = os.write

    def half(descriptor: int, data: bytes) -> int:
        monkeypatch.setattr(os, "write", full)
        return write(descriptor, data[: len(data) // 2])

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(NodeError, match="No space left"):
        authority.redeem(ticket, 2, key().public_key())
    with pytest.raises(NodeError, match="No space left"):
        authority.make_identity(tmp_path / "two", 2)
    assert issued.read_bytes().startswith(before) and issued.read_bytes().endswith(b"}\n")
    monkeypatch.setattr(os, "write", write)
    authority.redeem(ticket, 2, key().public_key())
    assert authority.revoke(node=1) == [serial]


def test_what_a_crash_tore_had_not_counted(tmp_path: Path) -> None:
    authority = Authority.found(tmp_path / "authority", "demo")
    serial = authority.make_identity(tmp_path / "one", 1).passport.serial
    issued = tmp_path / "authority" / ISSUED
    whole = issued.read_bytes()
    for length in range(len(whole)):
        issued.write_bytes(whole + whole[:length])
        assert [line["serial"] for line in authority.issued()] == [serial]
    ticket = Passport.of(authority.make_ticket(2, 2, timedelta(minutes=1))[0])
    assert issued.read_bytes().startswith(whole) and issued.read_bytes().count(b"\n") == 2
    # An earlier version wrote behind what was torn.
    issued.write_bytes(whole[:-20] + issued.read_bytes())
    assert [line["serial"] for line in authority.issued()] == [serial, ticket.serial]
    issued.write_bytes(whole + b"???\n")
    assert authority.revoke(node=1) == [serial], "damage keeps nobody from revoking"
    with pytest.raises(ConfigError, match="line 2 is damaged, so nobody knows"):
        authority.redeem(ticket, 2, key().public_key())


def test_tokens_of_a_revoked_node_give_nothing(tmp_path: Path) -> None:
    authority = Authority.found(tmp_path / "authority", "demo")
    authority.make_identity(tmp_path / "five", 5)
    own = Passport.of(authority.make_ticket(5, 5, timedelta(minutes=1))[0])
    wide = Passport.of(authority.make_ticket(1, 9, timedelta(minutes=1))[0])
    assert own.serial in authority.revoke(node=5)
    for ticket in (own, wide):
        with pytest.raises(NodeError, match="node 5 was revoked after this token was made"):
            authority.redeem(ticket, 5, key().public_key())
    authority.redeem(wide, 6, key().public_key())
    new = Passport.of(authority.make_ticket(5, 5, timedelta(minutes=1))[0])
    authority.redeem(new, 5, key().public_key())  # whoever gives one now means it


def test_the_list_says_which_nodes_were_revoked(tmp_path: Path) -> None:
    authority = Authority.found(tmp_path / "authority", "demo")
    old = authority.make_identity(tmp_path / "1", 1).passport.serial
    authority.make_identity(tmp_path / "2", 2)
    authority.revoke(serial=old)
    assert authority.revocations().nodes == frozenset(), "a key that was rotated is no node"
    for node in (1, 2):
        authority.revoke(node=node)
    assert authority.revocations().nodes == {1, 2}
    authority.make_identity(tmp_path / "2", 2)
    authority.make_identity(tmp_path / "3", 3)
    authority.revoke(node=3)
    assert authority.revocations().nodes == {1, 3}, "who got a new identity is back"


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
