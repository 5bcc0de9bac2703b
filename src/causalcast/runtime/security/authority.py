"""The authority of a cluster: whoever holds its key says who is a node.

Its folder:

    authority.pem     its certificate, and those of earlier keys that are still believed
    authority.key     its key; whoever reads it can make any identity
    issued.jsonl      one line per certificate, per token that was used, and per node that was
                      revoked: what `revoke` looks up
    revoked.pem       the signed list of revocations

Two may write at once, `causalcast keys` and a node that gives identities to those who come with a
token: one waits for the other (`issued_log`).
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from causalcast.errors import ConfigError, NodeError
from causalcast.runtime.security.identity import (
    AUTHORITY,
    JOIN,
    NODE,
    REVOKED,
    Identity,
    Passport,
    read_certificates,
    read_key,
    write_certificates,
    write_key,
)
from causalcast.runtime.security.issued_log import IssuedLog
from causalcast.runtime.security.revocations import MOST_BYTES, Revocations, nodes_extension

AUTHORITY_KEY: Final = "authority.key"
ISSUED: Final = "issued.jsonl"
CLIENT: Final = "client"  # what a token for clients is for
NO_NODE: Final = -1  # a client is none

AUTHORITY_DAYS: Final = 3650
NODE_DAYS: Final = 365
# Whoever holds a token may dial, and not be dialled: it must not pass for a node.
_USES: Final = {
    NODE: [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH],
    JOIN: [ExtendedKeyUsageOID.CLIENT_AUTH],
}
_LONGEST_NAME: Final = 64  # of a subject, in X.509
# Clocks of machines differ: what was made now is valid at one that is a little behind.
_CLOCKS_DIFFER: Final = timedelta(minutes=5)


@dataclass
class Authority:
    """The key, whom nodes are to believe, and the folder that remembers what was given out."""

    folder: Path
    cluster: str
    key: Ed25519PrivateKey
    certificates: list[x509.Certificate]  # the newest first; its key is `key`

    # Its own life

    @staticmethod
    def found(folder: Path, cluster: str, days: float = AUTHORITY_DAYS) -> "Authority":
        """Make the authority of a new cluster in a new folder."""
        if (folder / AUTHORITY_KEY).exists():
            raise ConfigError(f"{folder}: there is an authority already")
        if not 0 < len(cluster) <= _LONGEST_NAME:
            raise ConfigError(f"cluster {cluster!r}: expected 1 to {_LONGEST_NAME} characters")
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        key = Ed25519PrivateKey.generate()
        authority = Authority(folder, cluster, key, [_own_certificate(cluster, key, days)])
        authority._write()
        return authority

    @staticmethod
    def open(folder: Path) -> "Authority":
        """The authority in `folder`."""
        key = read_key(folder / AUTHORITY_KEY)
        certificates = read_certificates(folder / AUTHORITY)
        names = certificates[0].subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return Authority(folder, str(names[0].value), key, certificates)

    def renew(self, days: float = AUTHORITY_DAYS) -> None:
        """Take a new key. The earlier ones stay believed until `forget_earlier`.

        Nodes need the new `authority.pem` before they meet the first certificate of the new key.
        """
        with self._alone():
            revoked = Revocations.read(self.folder / REVOKED, self.certificates)
            self.key = Ed25519PrivateKey.generate()
            own = _own_certificate(self.cluster, self.key, days)
            self.certificates = [own, *self.certificates]
            self._write()
            if revoked.number:
                self._sign_revocations(revoked.number + 1, revoked.serials)

    def forget_earlier(self) -> None:
        """Believe only certificates of the newest key from now on."""
        self.certificates = self.certificates[:1]
        self._write()

    def _write(self) -> None:
        write_key(self.folder / AUTHORITY_KEY, self.key)
        write_certificates(self.folder / AUTHORITY, self.certificates)

    # Giving out

    def issue(
        self, first: int, last: int, public_key: Ed25519PublicKey, days: float = NODE_DAYS
    ) -> x509.Certificate:
        """A certificate for a node that may have these ids."""
        with self._alone():
            return self._certify(NODE, first, last, public_key, timedelta(days=days))

    def make_identity(
        self, folder: Path, first: int, last: int | None = None, days: float = NODE_DAYS
    ) -> Identity:
        """A new key with its certificate, written to `folder`."""
        key = Ed25519PrivateKey.generate()
        last = first if last is None else last
        certificate = self.issue(first, last, key.public_key(), days)
        identity = Identity(folder, certificate, key, self.certificates, Passport.of(certificate))
        identity.write()
        revoked = Revocations.read(self.folder / REVOKED, self.certificates)
        if revoked.number:
            revoked.write(folder / REVOKED)
        return identity

    def make_ticket(
        self, first: int, last: int, lifetime: timedelta
    ) -> tuple[x509.Certificate, Ed25519PrivateKey]:
        """What a token carries: a certificate that allows to ask once for an identity."""
        key = Ed25519PrivateKey.generate()
        with self._alone():
            return self._certify(JOIN, first, last, key.public_key(), lifetime), key

    def enter_client(self, name: str, lifetime: timedelta) -> tuple[int, datetime]:
        """Write down a token for a client; its serial, by which it is revoked, and its end."""
        serial = x509.random_serial_number()
        until = min(datetime.now(UTC) + lifetime, self.certificates[0].not_valid_after_utc)
        with self._alone():
            self._remember(
                {
                    "serial": serial,
                    "for": CLIENT,
                    "ids": [NO_NODE, NO_NODE],
                    "client": name,
                    "until": int(until.timestamp()),
                }
            )
        return serial, until

    def redeem(self, ticket: Passport, node: int, public_key: Ed25519PublicKey) -> x509.Certificate:
        """The identity that a token allows; NodeError for one that was used before.

        That it was used is durable before the certificate exists, so a crash in between costs the
        newcomer its token and never gives two identities for one.
        """
        with self._alone():
            if not ticket.allows(node):
                raise NodeError(f"this token is for node {ticket.ids()}, not {node}")
            lines = self.issued()
            if any(line["used"] == ticket.serial for line in lines if "used" in line):
                raise NodeError("this token was used before")
            if ticket.serial in self.revocations().serials or _is_later_revoked(
                lines, ticket.serial, node
            ):
                raise NodeError(f"node {node} was revoked after this token was made; ask for a new")
            self._remember({"used": ticket.serial, "node": node})
            return self._certify(NODE, node, node, public_key, timedelta(days=NODE_DAYS))

    def issued(self) -> list[dict[str, Any]]:
        """What was given out and used, oldest first; ConfigError if some of it is damaged."""
        return self._log().lines()

    # Taking back

    def revocations(self) -> Revocations:
        """The list as it is."""
        return Revocations.read(self.folder / REVOKED, self.certificates)

    def revoke(self, node: int | None = None, serial: int | None = None) -> list[int]:
        """Revoke all that `node` holds or could get, or one certificate or token; the serials.

        Tokens for several ids stay valid for the other ones.
        """
        with self._alone():
            before = self.revocations()
            lines = self._log().lines(all_of_them=False)
            given = [line for line in lines if "serial" in line]
            used = {line["used"] for line in lines if "used" in line}
            chosen = [
                line["serial"]
                for line in given
                if line["serial"] not in before.serials
                and (line["serial"] == serial or (node is not None and _is_of(line, node, used)))
            ]
            is_new = node is not None and node not in before.nodes and _is_known(given, node)
            if not chosen and not is_new:
                what = f"node {node}" if node is not None else f"serial {serial}"
                raise ConfigError(f"{self.folder}: nothing of {what} is there to be revoked")
            now = datetime.now(UTC).timestamp()
            lapsed = {line["serial"] for line in given if line["until"] < now}
            serials = frozenset({*before.serials, *chosen} - lapsed)
            if node is not None:
                self._remember({"revoked": node})
            self._sign_revocations(before.number + 1, serials)
            return chosen

    def _sign_revocations(self, number: int, serials: frozenset[int]) -> None:
        now = datetime.now(UTC)
        nodes = _revoked_nodes(self._log().lines(all_of_them=False))
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.certificates[0].subject)
            .last_update(now)
            .next_update(now + timedelta(days=AUTHORITY_DAYS))
            .add_extension(x509.CRLNumber(number), critical=False)
            .add_extension(nodes_extension(nodes), critical=False)
        )
        for serial in sorted(serials):
            revoked = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now)
            builder = builder.add_revoked_certificate(revoked.build())
        der = builder.sign(self.key, None).public_bytes(Encoding.DER)
        if len(der) > MOST_BYTES.value:
            raise ConfigError(
                f"{self.folder}: {len(serials)} revocations are more than a greeting can carry; "
                "`causalcast keys renew` gives the cluster a new authority"
            )
        Revocations(number, serials, der, nodes).write(self.folder / REVOKED)

    # Small things

    def _certify(
        self,
        purpose: str,
        first: int,
        last: int,
        public_key: Ed25519PublicKey,
        lifetime: timedelta,
    ) -> x509.Certificate:
        passport = Passport(self.cluster, purpose, first, last)
        now = datetime.now(UTC)
        until = min(now + lifetime, self.certificates[0].not_valid_after_utc)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(_name(f"{purpose} {passport.ids()}"))
            .issuer_name(self.certificates[0].subject)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _CLOCKS_DIFFER)
            .not_valid_after(until)
            .add_extension(
                x509.SubjectAlternativeName([x509.UniformResourceIdentifier(passport.uri())]), False
            )
            .add_extension(
                # Which of two keys of the authority made it, while there are two.
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()),
                False,
            )
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
            .add_extension(
                x509.ExtendedKeyUsage(_USES[purpose]),
                False,
            )
            .sign(self.key, None)
        )
        self._remember(
            {
                "serial": certificate.serial_number,
                "for": purpose,
                "ids": [first, last],
                "until": int(until.timestamp()),
            }
        )
        return certificate

    def _remember(self, line: dict[str, Any]) -> None:
        self._log().append(line)

    def _alone(self) -> AbstractContextManager[None]:
        return self._log().alone()

    def _log(self) -> IssuedLog:
        return IssuedLog(self.folder / ISSUED)


def _is_of(line: dict[str, Any], node: int, used: set[int]) -> bool:
    """Whether a line is of what `node` holds, or of a token that only it could use."""
    first, last = line["ids"]
    if line["for"] == NODE:
        return bool(first <= node <= last)
    return bool(first == last == node and line["serial"] not in used)


def _is_known(given: list[dict[str, Any]], node: int) -> bool:
    """Whether something was given out for exactly this node."""
    return any(line["ids"] == [node, node] for line in given)


def _revoked_nodes(lines: list[dict[str, Any]]) -> frozenset[int]:
    """Nodes that were revoked, and got nothing new since."""
    revoked: set[int] = set()
    for line in lines:
        if "revoked" in line:
            revoked.add(line["revoked"])
        elif line.get("for") == NODE and line["ids"][0] == line["ids"][1]:
            revoked.discard(line["ids"][0])
    return frozenset(revoked)


def _is_later_revoked(lines: list[dict[str, Any]], ticket: int, node: int) -> bool:
    """Whether `node` was revoked after a token was made."""
    serials = [line.get("serial") for line in lines]
    since = serials.index(ticket) if ticket in serials else 0
    return any(line.get("revoked") == node for line in lines[since:])


def _own_certificate(cluster: str, key: Ed25519PrivateKey, days: float) -> x509.Certificate:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(cluster))
        .issuer_name(_name(cluster))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        .add_extension(
            x509.KeyUsage(
                digital_signature=False,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=True,
                crl_sign=True,
                encipher_only=False,
                decipher_only=False,
            ),
            True,
        )
        .sign(key, None)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
