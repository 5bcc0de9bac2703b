"""Origins sign what they publish, so that whoever hands it on cannot change it or make it up.

A signed body is the signature, the origin's certificate and the application's body. It covers the
cluster, the origin, the number, the group and the body. It does not cover what protocols add on the
way (clocks, paths): for order and for passing on at all, authenticated nodes are trusted.

An origin that signs two publications under one number is a liar, and whoever brings the second is
not: both are kept as evidence, it is told, and the origin itself gets nothing more in.

A certificate that was revoked or has lapsed since does not void what it signed: members that have
a message and members that refuse it could never agree again. The node itself is cut off.
"""

import hashlib
from collections.abc import Callable
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding

from causalcast.core.ids import GroupId, MessageId, number_of, origin_of
from causalcast.core.message import Publication
from causalcast.errors import WireError
from causalcast.limits import Limit
from causalcast.runtime.security.identity import (
    NODE,
    Identity,
    Passport,
    is_signed_by,
    public_key_of,
    read_certificate,
)
from causalcast.runtime.security.tls import Tls

SIGNATURE_BYTES: Final = 64
LENGTH_BYTES: Final = 2
MOST_OVERHEAD: Final = Limit(
    "runtime.security.signatures.most_overhead",
    2048,
    least=1024,
    most=1 << 16,
    unit="bytes",
    about="signature and certificate; a certificate has about 400 bytes",
)
MOST_REMEMBERED: Final = Limit(
    "runtime.security.signatures.most_remembered",
    8192,
    least=1,
    most=1 << 20,
    unit="publications",
    about="whose signatures need not be checked again: copies of one come on every link",
)
BYTES_REMEMBERED: Final = Limit(
    "runtime.security.signatures.bytes_remembered",
    8 << 20,
    least=1,
    most=1 << 30,
    unit="bytes",
    about="publications that are kept whole, in case another one comes under their number",
)
MOST_CERTIFICATES: Final = Limit(
    "runtime.security.signatures.most_certificates",
    4096,
    least=1,
    most=1 << 20,
    unit="certificates",
    about="certificates that need not be checked again",
)


class Signatures:
    """Signs for one node, and remembers whose certificates and which publications were good."""

    def __init__(
        self, tls: Tls, told: Callable[[Publication | None, Publication], None] | None = None
    ) -> None:
        """`told` hears of two publications under one number; None where the first is forgotten."""
        self._tls = tls
        self._told = told
        self.liars: dict[int, None] = {}  # origins that signed two publications under one number
        self._whole: dict[int, Publication] = {}
        self._whole_bytes = 0
        self._holders: dict[bytes, tuple[Passport, Ed25519PublicKey]] = {}
        # Digests of the signed body, and of the application's body in it. A certificate can be
        # written in more than one way, so a relay can make the first differ and not the second.
        self._good: dict[int, tuple[bytes, bytes]] = {}

    def sign(self, message: MessageId, group: GroupId, body: bytes) -> bytes:
        """The body as it travels."""
        identity: Identity = self._tls.identity
        certificate = identity.certificate.public_bytes(Encoding.DER)
        signature = identity.key.sign(self._signed(message, group, body))
        return signature + len(certificate).to_bytes(LENGTH_BYTES) + certificate + body

    def check(self, publication: Publication) -> None:
        """WireError unless its origin signed it; who signed another under that number is a liar."""
        whole = _digest(publication.body)
        known = self._good.get(publication.id)
        if known is not None and known[0] == whole:
            return
        signature, certificate, body = _parts(publication.body)
        passport, key = self._holder(certificate)
        origin = origin_of(publication.id)
        if not passport.allows(origin):
            raise WireError(f"node {passport.ids()} signed a publication of node {origin}")
        try:
            key.verify(signature, self._signed(publication.id, publication.group, body))
        except InvalidSignature:
            raise WireError(f"a publication of node {origin} that it did not sign") from None
        content = _digest(publication.group.to_bytes(8) + body)
        if known is not None and known[1] != content:
            self.liars[origin] = None
            if self._told is not None:
                self._told(self._whole.get(publication.id), publication)
            return  # by its number it is here already: no protocol takes it twice
        if known is None:
            if len(self._good) >= MOST_REMEMBERED.value:
                self._forget_oldest()
            self._keep_whole(publication)
        self._good[publication.id] = whole, content

    def _keep_whole(self, publication: Publication) -> None:
        self._whole[publication.id] = publication
        self._whole_bytes += len(publication.body)
        while self._whole_bytes > BYTES_REMEMBERED.value:
            oldest = self._whole.pop(next(iter(self._whole)))
            self._whole_bytes -= len(oldest.body)

    def _forget_oldest(self) -> None:
        oldest = next(iter(self._good))
        del self._good[oldest]
        forgotten = self._whole.pop(oldest, None)
        if forgotten is not None:
            self._whole_bytes -= len(forgotten.body)

    def _holder(self, der: bytes) -> tuple[Passport, Ed25519PublicKey]:
        holder = self._holders.get(der)
        if holder is None:
            certificate = read_certificate(der)
            passport = Passport.of(certificate)
            cluster = self._tls.identity.passport.cluster
            if passport.purpose != NODE or passport.cluster != cluster:
                raise WireError(f"{passport.uri()} may not sign for {cluster}")
            if not is_signed_by(certificate, self._tls.identity.authorities):
                raise WireError("an origin's certificate that the authority did not sign")
            holder = passport, public_key_of(certificate)
            if len(self._holders) >= MOST_CERTIFICATES.value:
                self._holders.clear()
            self._holders[der] = holder
        return holder

    def _signed(self, message: MessageId, group: GroupId, body: bytes) -> bytes:
        cluster = self._tls.identity.passport.cluster.encode()
        numbers = (origin_of(message), number_of(message), group, len(cluster))
        head = b"".join(number.to_bytes(8) for number in numbers)
        return b"causalcast publication\0" + head + cluster + body


def body_in(signed: bytes) -> bytes:
    """The application's body in a signed one."""
    return _parts(signed)[2]


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _parts(signed: bytes) -> tuple[bytes, bytes, bytes]:
    start = SIGNATURE_BYTES + LENGTH_BYTES
    length = int.from_bytes(signed[SIGNATURE_BYTES:start])
    if len(signed) < start + length or length > MOST_OVERHEAD.value - start:
        raise WireError("a publication that is not signed")
    return signed[:SIGNATURE_BYTES], signed[start : start + length], signed[start + length :]
