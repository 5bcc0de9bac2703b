"""A newcomer with a token gets an identity from the node that has the cluster's authority.

The newcomer makes its key itself and never shows it: it sends a request signed with that key. Both
ends are known before the first word: the newcomer by its token, the node by its certificate.
"""

import random
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from causalcast.core.ids import NodeId
from causalcast.errors import NodeError, WireError
from causalcast.runtime.links.address_book import Address
from causalcast.runtime.links.carrier import Carrier
from causalcast.runtime.links.greeting import Greeting, first_greeting
from causalcast.runtime.links.introductions import greeting_at
from causalcast.runtime.security.authority import Authority
from causalcast.runtime.security.identity import (
    REVOKED,
    UNREADABLE,
    Identity,
    Passport,
    is_signed_by,
    read_certificate,
)
from causalcast.runtime.security.join_token import read_token
from causalcast.runtime.security.revocations import Revocations
from causalcast.runtime.security.tls import context


def grant(authority: Path | None, ticket: Passport, greeting: Greeting) -> bytes:
    """The certificate for a newcomer; NodeError or WireError says why there is none."""
    if authority is None:
        raise NodeError(
            "this node has no authority to give identities; join through the one whose TOML has "
            "[security] authority"
        )
    try:
        request = x509.load_der_x509_csr(greeting.certificate)
        key, is_theirs = request.public_key(), request.is_signature_valid
    except UNREADABLE as error:
        raise WireError(f"no request for a certificate: {error}") from None
    if not is_theirs or not isinstance(key, Ed25519PublicKey):
        raise WireError("a request for a certificate that its own key did not sign")
    certificate = Authority.open(authority).redeem(ticket, greeting.node, key)
    return certificate.public_bytes(Encoding.DER)


async def ask(carrier: Carrier, contact: Address, token: str, within: float) -> Greeting:
    """What the node at `contact` tells of its cluster to somebody with a token, who keeps it."""
    ticket = read_token(token, Path())
    mine = first_greeting(ticket.passport.cluster, NodeId(ticket.passport.first), 0, "", "", {})
    return await greeting_at(carrier, contact, mine, within, client_context(ticket))


async def enrol(
    carrier: Carrier, contact: Address, token: str, home: Callable[[int], Path], within: float
) -> int:
    """Get an identity at `contact`, and write it to the folder that `home` says; which node it is.

    OSError or TimeoutError if nobody answers, NodeError with what the node says if it refuses.
    """
    ticket = read_token(token, Path())
    node = random.SystemRandom().randint(ticket.passport.first, ticket.passport.last)
    key = Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"node {node}")])
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, None)
    mine = msgspec.structs.replace(
        first_greeting(ticket.passport.cluster, NodeId(node), 0, "", "", {}),
        certificate=request.public_bytes(Encoding.DER),
    )
    theirs = await greeting_at(carrier, contact, mine, within, client_context(ticket))
    if not theirs.certificate:
        raise NodeError(f"the node at {contact} gives no identity: {theirs.refusal}")
    try:
        certificate = read_certificate(theirs.certificate)
    except WireError as error:
        raise NodeError(f"the node at {contact} gave {error}") from None
    if not is_signed_by(certificate, ticket.authorities):
        raise NodeError(f"the node at {contact} gave a certificate that its authority did not sign")
    folder = home(node)
    Identity(folder, certificate, key, ticket.authorities, Passport.of(certificate)).write()
    revoked = Revocations.parse(theirs.revoked, ticket.authorities)
    if revoked.number:
        revoked.write(folder / REVOKED)
    return node


def client_context(identity: Identity) -> ssl.SSLContext:
    """A context for an identity that is in no folder; Python reads keys from files only."""
    with tempfile.TemporaryDirectory(prefix="causalcast-") as folder:
        Identity(
            Path(folder),
            identity.certificate,
            identity.key,
            identity.authorities,
            identity.passport,
        ).write()
        return context(Path(folder), ssl.PROTOCOL_TLS_CLIENT)
