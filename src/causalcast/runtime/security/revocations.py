"""Certificates that are no longer believed: a numbered list, signed by the cluster's authority.

Because it is signed and numbered it may come from anybody: of two lists the one with the greater
number counts. Nodes tell it in their greetings, so that it needs to be put at one node only.
"""

import json
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from causalcast.errors import ConfigError, WireError
from causalcast.limits import Limit
from causalcast.runtime.security.identity import UNREADABLE, write_whole

_NODES: Final = x509.ObjectIdentifier("1.3.6.1.3.7400.1")  # in the arc for experiments
# A list travels in a greeting, which has at most 64 KiB.
MOST_BYTES: Final = Limit(
    "runtime.security.revocations.most_bytes",
    48 << 10,
    least=4 << 10,
    most=48 << 10,
    unit="bytes",
    about="a list of revocations, which travels in greetings",
)


class Revocations:
    """A list as a node believes it; number 0 is the empty list that nobody had to sign."""

    def __init__(
        self,
        number: int,
        serials: frozenset[int],
        der: bytes,
        nodes: frozenset[int] = frozenset(),
    ) -> None:
        self.number = number
        self.serials = serials
        self.der = der
        self.nodes = nodes  # that were revoked as such, whatever certificates they had

    @staticmethod
    def none() -> "Revocations":
        """Nobody was revoked yet."""
        return Revocations(0, frozenset(), b"")

    @staticmethod
    def parse(der: bytes, authorities: list[x509.Certificate]) -> "Revocations":
        """The list in `der`; WireError unless one of `authorities` signed it."""
        if not der:
            return Revocations.none()
        if len(der) > MOST_BYTES.value:
            raise WireError(
                f"a list of revocations of {len(der)} bytes; at most {MOST_BYTES.value}"
            )
        try:
            signed = x509.load_der_x509_crl(der)
            number = signed.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
            serials = frozenset(revoked.serial_number for revoked in signed)
            nodes = _nodes_in(signed)
        except UNREADABLE as error:
            raise WireError(f"no list of revocations: {error}") from None
        if not _is_signed(signed, authorities):
            raise WireError("a list of revocations that the authority did not sign")
        return Revocations(number, serials, der, nodes)

    @staticmethod
    def read(path: Path, authorities: list[x509.Certificate]) -> "Revocations":
        """The list in a PEM file; an empty one where there is no file."""
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return Revocations.none()
        try:
            der = x509.load_pem_x509_crl(data).public_bytes(serialization.Encoding.DER)
            return Revocations.parse(der, authorities)
        except (*UNREADABLE, WireError) as error:
            raise ConfigError(f"{path}: {error}") from None

    def write(self, path: Path) -> None:
        """Write it as PEM."""
        signed = x509.load_der_x509_crl(self.der)
        write_whole(path, signed.public_bytes(serialization.Encoding.PEM), 0o644)


def nodes_extension(nodes: frozenset[int]) -> x509.UnrecognizedExtension:
    """The nodes that were revoked, as a part of the list."""
    return x509.UnrecognizedExtension(_NODES, json.dumps(sorted(nodes)).encode())


def _nodes_in(signed: x509.CertificateRevocationList) -> frozenset[int]:
    for extension in signed.extensions:
        if extension.oid == _NODES and isinstance(extension.value, x509.UnrecognizedExtension):
            found = json.loads(extension.value.value)
            if not isinstance(found, list) or not all(type(node) is int for node in found):
                raise ValueError("no list of nodes")
            return frozenset(found)
    return frozenset()  # of an earlier version


def _is_signed(signed: x509.CertificateRevocationList, authorities: list[x509.Certificate]) -> bool:
    for authority in authorities:
        key = authority.public_key()
        if isinstance(key, Ed25519PublicKey) and signed.is_signature_valid(key):
            return True
    return False
