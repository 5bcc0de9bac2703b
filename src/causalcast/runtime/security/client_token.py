"""A token for clients: who somebody is at the door, and what it may do there.

The authority signs it, so every node can look at it by itself; what it says cannot be changed. It
has a serial like a certificate, and is revoked in the same list. Whoever holds it may use it: it
is a secret until it lapses. It also carries the certificates of the authority, by which a client
knows a node.
"""

import base64
import binascii
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding

from causalcast.errors import ConfigError, WireError
from causalcast.runtime.security.authority import Authority
from causalcast.runtime.security.identity import public_key_of, read_certificate

_PREFIX: Final = "ccclient1-"
_SIGNED_AS: Final = b"causalcast client token 1\n"  # nothing else that is signed begins so
LONGEST_NAME: Final = 64
LONGEST_TOKEN: Final = 16 << 10


class ClientPass(msgspec.Struct, frozen=True):
    """What a token says. Patterns are names of groups; `doc/*` is all that begin with `doc/`."""

    serial: int
    cluster: str
    name: str  # keys of publications are remembered by it
    publish: list[str]
    subscribe: list[str]
    until: int  # seconds since 1970
    create: list[str] = []

    def may_publish(self, group: str) -> bool:
        """Whether its holder may publish to `group`."""
        return any(fits(pattern, group) for pattern in self.publish)

    def may_create(self, group: str) -> bool:
        """Whether its holder may make, and remove, `group`."""
        return any(fits(pattern, group) for pattern in self.create)

    def may_subscribe(self, group: str) -> bool:
        """Whether its holder may read `group`."""
        return any(fits(pattern, group) for pattern in self.subscribe)


class _Token(msgspec.Struct, array_like=True, frozen=True):
    said: bytes  # a ClientPass; its serial as text, for it has more than 64 bits
    signature: bytes
    authorities: list[bytes]


class _Said(msgspec.Struct, array_like=True, frozen=True):
    serial: str
    cluster: str
    name: str
    publish: list[str]
    subscribe: list[str]
    until: int
    create: list[str] = []  # none in tokens of earlier versions


def fits(pattern: str, group: str) -> bool:
    """Whether a group is one that a pattern means."""
    if pattern.endswith("*"):
        return group.startswith(pattern[:-1])
    return group == pattern


def make_client_token(
    authority: Authority,
    name: str,
    publish: Sequence[str],
    subscribe: Sequence[str],
    lifetime: timedelta,
    create: Sequence[str] = (),
) -> str:
    """A new token for a client of this name; ConfigError for what cannot be in one."""
    if not 0 < len(name) <= LONGEST_NAME:
        raise ConfigError(f"--name {name!r}: expected 1 to {LONGEST_NAME} characters")
    for pattern in (*publish, *subscribe, *create):
        if not pattern or "*" in pattern[:-1]:
            raise ConfigError(f"{pattern!r}: expected the name of a group, or a prefix and *")
    serial, until = authority.enter_client(name, lifetime)
    said = _Said(
        str(serial),
        authority.cluster,
        name,
        [*publish],
        [*subscribe],
        int(until.timestamp()),
        [*create],
    )
    data = msgspec.msgpack.encode(said)
    token = _Token(
        data,
        authority.key.sign(_SIGNED_AS + data),
        [one.public_bytes(Encoding.DER) for one in authority.certificates],
    )
    text = base64.urlsafe_b64encode(msgspec.msgpack.encode(token)).decode().rstrip("=")
    return _PREFIX + text


def check_client_token(
    text: str,
    cluster: str,
    authorities: list[x509.Certificate],
    revoked: frozenset[int],
    now: datetime | None = None,
) -> ClientPass:
    """Who holds this token; WireError says why it is not believed."""
    token = _unpack(text)
    if not any(_is_signed(token, one) for one in authorities):
        raise WireError("the authority of this cluster did not sign this token")
    try:
        said = msgspec.msgpack.decode(token.said, type=_Said)
        serial = int(said.serial)
    except (msgspec.DecodeError, ValueError):
        raise WireError("this token says nothing that can be read") from None
    if said.cluster != cluster:
        raise WireError(f"this token is for cluster {said.cluster!r}")
    holder = ClientPass(
        serial, said.cluster, said.name, said.publish, said.subscribe, said.until, said.create
    )
    why = objection(holder, revoked, now)
    if why:
        raise WireError(why)
    return holder


def objection(holder: ClientPass, revoked: frozenset[int], now: datetime | None = None) -> str:
    """Why a token that was good is not believed any more; empty if it is."""
    if holder.serial in revoked:
        return "this token was revoked"
    if (now or datetime.now(UTC)).timestamp() >= holder.until:
        lapsed = datetime.fromtimestamp(holder.until, UTC)
        return f"this token lapsed at {lapsed:%Y-%m-%d %H:%M} UTC; ask for a new one"
    return ""


def authorities_in(text: str) -> list[x509.Certificate]:
    """By whom a client knows the nodes of its cluster; ConfigError if this is no token."""
    try:
        return [read_certificate(one) for one in _unpack(text).authorities]
    except WireError as error:
        raise ConfigError(str(error)) from None


def cluster_in(text: str) -> str:
    """Which cluster a token is for, as far as its holder can tell."""
    try:
        return msgspec.msgpack.decode(_unpack(text).said, type=_Said).cluster
    except (WireError, ValueError) as error:
        raise ConfigError(str(error)) from None


def _unpack(text: str) -> _Token:
    try:
        if not text.startswith(_PREFIX) or len(text) > LONGEST_TOKEN:
            raise ValueError
        data = text.strip().removeprefix(_PREFIX)
        packed = base64.urlsafe_b64decode(data + "=" * (-len(data) % 4))
        return msgspec.msgpack.decode(packed, type=_Token)
    except (ValueError, binascii.Error, msgspec.DecodeError):
        raise WireError("this is no token of `causalcast keys client`") from None


def _is_signed(token: _Token, authority: x509.Certificate) -> bool:
    try:
        public_key_of(authority).verify(token.signature, _SIGNED_AS + token.said)
    except (InvalidSignature, WireError):
        return False
    return True
