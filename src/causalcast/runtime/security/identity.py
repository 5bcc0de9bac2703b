"""Who a node is: a certificate that names its cluster and its id, and the key that goes with it.

A certificate says one of two things, in the one URI it carries:

    causalcast://demo/node/3          its holder is node 3 of the cluster demo
    causalcast://demo/node/100-199    its holder may be any of these: another one in every life
    causalcast://demo/join/9          its holder may ask once for an identity of node 9

The folder of an identity has `certificate.pem`, `key.pem`, `authority.pem` (whom to believe; more
than one while the authority is being replaced) and, once somebody was revoked, `revoked.pem`.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from causalcast.core.ids import NODE_LIMIT
from causalcast.errors import ConfigError, WireError

CERTIFICATE: Final = "certificate.pem"
KEY: Final = "key.pem"
AUTHORITY: Final = "authority.pem"
REVOKED: Final = "revoked.pem"

# Everything that certificates, lists and requests made up by somebody else can raise when read.
UNREADABLE: Final = (
    ValueError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.ExtensionNotFound,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)

NODE: Final = "node"
JOIN: Final = "join"
_SCHEME: Final = "causalcast://"


@dataclass(frozen=True)
class Passport:
    """What a certificate says of its holder."""

    cluster: str
    purpose: str  # NODE or JOIN
    first: int  # the ids it may claim, or ask for: from here …
    last: int  # … to here, included
    serial: int = 0

    @staticmethod
    def of(certificate: x509.Certificate) -> "Passport":
        """Read it; WireError for a certificate that is none of ours."""
        try:
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
            (uri,) = names.value.get_values_for_type(x509.UniformResourceIdentifier)
            cluster, purpose, ids = uri.removeprefix(_SCHEME).split("/")
            first, _, last = ids.partition("-")
            passport = Passport(
                unquote(cluster), purpose, int(first), int(last or first), certificate.serial_number
            )
        except UNREADABLE:
            raise WireError("the certificate does not name a node of causalcast") from None
        if purpose not in (NODE, JOIN) or not uri.startswith(_SCHEME):
            raise WireError(f"the certificate is for {uri!r}, which is nothing of causalcast")
        return passport

    def uri(self) -> str:
        """How it stands in the certificate."""
        return f"{_SCHEME}{quote(self.cluster, safe='')}/{self.purpose}/{self.ids()}"

    def ids(self) -> str:
        """The ids as people write them: `3` or `100-199`."""
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"

    def allows(self, node: int) -> bool:
        """Whether its holder may be `node`."""
        return self.first <= node <= self.last


def parse_ids(text: str) -> tuple[int, int]:
    """`3` or `100-199`; ValueError for anything else."""
    first, dash, last = text.partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()):
        raise ValueError("a node id such as 3, or a range such as 100-199")
    ids = int(first), int(last or first)
    if not ids[0] <= ids[1] < NODE_LIMIT:
        raise ValueError(f"ids below {NODE_LIMIT}, the smaller one first")
    return ids


@dataclass(frozen=True)
class Identity:
    """What a node holds to show who it is, and to know who others are."""

    folder: Path
    certificate: x509.Certificate
    key: Ed25519PrivateKey
    authorities: list[x509.Certificate]
    passport: Passport

    @staticmethod
    def read(folder: Path) -> "Identity":
        """Read the folder; ConfigError says what is missing or wrong in it."""
        certificates = read_certificates(folder / CERTIFICATE)
        key = read_key(folder / KEY)
        authorities = read_certificates(folder / AUTHORITY)
        certificate = certificates[0]
        if _raw(certificate.public_key()) != _raw(key.public_key()):
            raise ConfigError(f"{folder}: {KEY} is not the key of {CERTIFICATE}")
        try:
            passport = Passport.of(certificate)
        except WireError as error:
            raise ConfigError(f"{folder / CERTIFICATE}: {error}") from None
        if not is_signed_by(certificate, authorities):
            raise ConfigError(f"{folder / CERTIFICATE}: not signed by anybody in {AUTHORITY}")
        return Identity(folder, certificate, key, authorities, passport)

    def write(self) -> None:
        """Write the folder; the key last, and for this user's eyes only."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_certificates(self.folder / AUTHORITY, self.authorities)
        write_certificates(self.folder / CERTIFICATE, [self.certificate])
        write_key(self.folder / KEY, self.key)


def is_signed_by(certificate: x509.Certificate, authorities: list[x509.Certificate]) -> bool:
    """Whether one of `authorities` made the certificate."""
    for authority in authorities:
        try:
            certificate.verify_directly_issued_by(authority)
            return True
        except (*UNREADABLE, TypeError, InvalidSignature):
            continue
    return False


def read_certificate(der: bytes) -> x509.Certificate:
    """A certificate that somebody else sent; WireError if it is none."""
    try:
        return x509.load_der_x509_certificate(der)
    except UNREADABLE as error:
        raise WireError(f"no certificate: {error}") from None


def read_certificates(path: Path) -> list[x509.Certificate]:
    """All certificates of a PEM file; at least one."""
    try:
        return x509.load_pem_x509_certificates(_bytes_of(path))
    except UNREADABLE as error:
        raise ConfigError(f"{path}: no certificate in PEM form ({error})") from None


def read_key(path: Path) -> Ed25519PrivateKey:
    """An Ed25519 key that nobody else can read."""
    data = _bytes_of(path)
    if path.stat().st_mode & 0o077:
        raise ConfigError(f"{path}: others can read this key; `chmod 600 {path}`")
    try:
        key = serialization.load_pem_private_key(data, None)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{path}: no key in PEM form ({error})") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"{path}: expected an Ed25519 key")
    return key


def write_certificates(path: Path, certificates: list[x509.Certificate]) -> None:
    """Write certificates for everybody to read."""
    pem = b"".join(one.public_bytes(serialization.Encoding.PEM) for one in certificates)
    write_whole(path, pem, 0o644)


def write_key(path: Path, key: Ed25519PrivateKey) -> None:
    """Write a key that only this user can read."""
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    write_whole(path, pem, 0o600)


def write_whole(path: Path, data: bytes, mode: int) -> None:
    """Write a file that is there whole and durable, or as it was before."""
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def public_key_of(certificate: x509.Certificate) -> Ed25519PublicKey:
    """The key of a certificate; WireError if it is of another kind."""
    try:
        key = certificate.public_key()
    except UNREADABLE:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise WireError("the certificate's key is not an Ed25519 key")
    return key


def _raw(key: object) -> bytes:
    if not isinstance(key, Ed25519PublicKey):
        return b""
    return key.public_bytes_raw()


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; `causalcast keys` makes identities") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
