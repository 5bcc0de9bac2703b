"""A token: what a newcomer needs to get an identity, as one word that can be sent to somebody.

It carries a certificate that allows to ask once, the key of that certificate, and the certificates
of the authority, so that the newcomer knows the cluster and the cluster knows the newcomer before
either says anything. It is a secret until it was used or has lapsed.
"""

import base64
import binascii
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding

from causalcast.errors import ConfigError, WireError
from causalcast.runtime.security.authority import Authority
from causalcast.runtime.security.identity import JOIN, Identity, Passport, read_certificate

_PREFIX: Final = "cctoken1-"


class _Token(msgspec.Struct, array_like=True, frozen=True):
    certificate: bytes
    key: bytes
    authorities: list[bytes]


def make_token(authority: Authority, first: int, last: int, lifetime: timedelta) -> str:
    """A new token for one newcomer, who may have one of these ids."""
    certificate, key = authority.make_ticket(first, last, lifetime)
    token = _Token(
        certificate.public_bytes(Encoding.DER),
        key.private_bytes_raw(),
        [one.public_bytes(Encoding.DER) for one in authority.certificates],
    )
    return _PREFIX + base64.urlsafe_b64encode(msgspec.msgpack.encode(token)).decode().rstrip("=")


def read_token(text: str, folder: Path) -> Identity:
    """What a token holds, as an identity that would be written to `folder`; ConfigError else."""
    try:
        if not text.startswith(_PREFIX):
            raise ValueError("it does not begin as one")
        data = text.strip().removeprefix(_PREFIX)
        packed = base64.urlsafe_b64decode(data + "=" * (-len(data) % 4))
        token = msgspec.msgpack.decode(packed, type=_Token)
        certificate = read_certificate(token.certificate)
        authorities = [read_certificate(one) for one in token.authorities]
        key = Ed25519PrivateKey.from_private_bytes(token.key)
        passport = Passport.of(certificate)
        if passport.purpose != JOIN:
            raise ValueError("it is not for joining")
    except (ValueError, binascii.Error, msgspec.DecodeError, WireError) as error:
        raise ConfigError(f"this is no token of `causalcast keys token`: {error}") from None
    lapsed = certificate.not_valid_after_utc
    if lapsed < datetime.now(UTC):
        raise ConfigError(
            f"this token lapsed at {lapsed:%Y-%m-%d %H:%M} UTC; ask for a new one "
            "(causalcast keys token)"
        )
    return Identity(folder, certificate, key, authorities, passport)
