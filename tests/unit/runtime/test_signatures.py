"""A signed body is taken from its origin only, and only once per number."""

import base64
import json
from datetime import timedelta
from pathlib import Path

import pytest

from causalcast.core.ids import GroupId, MessageId, NodeId, message_id
from causalcast.core.message import Publication
from causalcast.errors import WireError
from causalcast.runtime.security.authority import Authority
from causalcast.runtime.security.evidence import Evidence
from causalcast.runtime.security.identity import JOIN, NODE, Passport
from causalcast.runtime.security.join_token import make_token, read_token
from causalcast.runtime.security.signatures import Signatures, body_in
from causalcast.runtime.security.tls import Tls, objection_to

GROUP = GroupId(0)


def first(origin: int) -> MessageId:
    return message_id(NodeId(origin), 1)


def signer(folder: Path, authority: Authority, node: int) -> Signatures:
    authority.make_identity(folder, node)
    return Signatures(Tls(folder, authority.cluster))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.found(tmp_path / "authority", "demo")


def test_what_was_signed_is_taken_and_unwrapped(authority: Authority, tmp_path: Path) -> None:
    one, two = (signer(tmp_path / str(node), authority, node) for node in (1, 2))
    signed = one.sign(first(1), GROUP, b"body")
    two.check(Publication(first(1), GROUP, signed))
    two.check(Publication(first(1), GROUP, signed))
    assert body_in(signed) == b"body"


def test_two_publications_under_one_number_are_evidence(
    authority: Authority, tmp_path: Path
) -> None:
    one = signer(tmp_path / "1", authority, 1)
    authority.make_identity(tmp_path / "2", 2)
    told: list[tuple[Publication | None, Publication]] = []
    two = Signatures(Tls(tmp_path / "2", "demo"), lambda *pair: told.append(pair))
    bodies = [one.sign(first(1), GROUP, body) for body in (b"one thing", b"another")]
    for body in bodies:
        two.check(Publication(first(1), GROUP, body))
    [(earlier, later)] = told
    assert earlier is not None and [earlier.body, later.body] == bodies
    assert [*two.liars] == [1]
    Evidence(tmp_path / "evidence").keep(earlier, later)
    kept = json.loads((tmp_path / "evidence" / "1.1.json").read_text())
    for one_of_two in kept["publications"]:  # anybody can check that node 1 signed both
        signed = base64.b64decode(one_of_two["signed"])
        anybody = Signatures(Tls(tmp_path / "2", "demo"))
        anybody.check(Publication(first(1), GroupId(one_of_two["group"]), signed))


def test_one_body_for_two_groups_is_evidence_too(authority: Authority, tmp_path: Path) -> None:
    one, two = (signer(tmp_path / str(node), authority, node) for node in (1, 2))
    for group in (GROUP, GroupId(1)):
        two.check(Publication(first(1), group, one.sign(first(1), group, b"body")))
    assert [*two.liars] == [1]


def test_the_same_publication_with_a_new_certificate_is_no_second_one(
    authority: Authority, tmp_path: Path
) -> None:
    """A relay may write a certificate in another way; that must not accuse the origin."""
    one, two = (signer(tmp_path / str(node), authority, node) for node in (1, 2))
    again = signer(tmp_path / "again", authority, 1)
    signed = [each.sign(first(1), GROUP, b"body") for each in (one, again)]
    assert signed[0] != signed[1]
    for body in (*signed, *signed):
        two.check(Publication(first(1), GROUP, body))
    with pytest.raises(WireError, match="that it did not sign"):
        two.check(Publication(first(1), GROUP, bytes(64) + signed[0][64:]))


def test_number_group_and_origin_are_signed_too(authority: Authority, tmp_path: Path) -> None:
    one, two = (signer(tmp_path / str(node), authority, node) for node in (1, 2))
    signed = one.sign(first(1), GROUP, b"body")
    for message, group in ((message_id(NodeId(1), 2), GROUP), (first(1), GroupId(1))):
        with pytest.raises(WireError, match="that it did not sign"):
            two.check(Publication(message, group, signed))
    with pytest.raises(WireError, match="node 1 signed a publication of node 3"):
        two.check(Publication(first(3), GROUP, signed))


def test_who_was_certified_by_somebody_else_signs_nothing(
    authority: Authority, tmp_path: Path
) -> None:
    two = signer(tmp_path / "two", authority, 2)
    stranger = signer(tmp_path / "one", Authority.found(tmp_path / "other", "demo"), 1)
    with pytest.raises(WireError, match="the authority did not sign"):
        two.check(Publication(first(1), GROUP, stranger.sign(first(1), GROUP, b"body")))


def test_a_token_signs_nothing_and_is_no_node(authority: Authority, tmp_path: Path) -> None:
    two = signer(tmp_path / "two", authority, 2)
    token = read_token(make_token(authority, 1, 1, timedelta(minutes=1)), tmp_path / "token")
    token.write()
    holder = Signatures(Tls(tmp_path / "token", "demo"))
    with pytest.raises(WireError, match="may not sign"):
        two.check(Publication(first(1), GROUP, holder.sign(first(1), GROUP, b"body")))
    assert "for joining" in objection_to(Passport("demo", JOIN, 1, 1), 1)
    assert objection_to(Passport("demo", NODE, 1, 1), 1) == ""
