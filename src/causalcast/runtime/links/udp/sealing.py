"""Keys of the UDP transport: who may set up a session, and what seals its datagrams.

Both ends draw a key pair for each session (X25519) and prove that they belong to the cluster, so
that the session's keys are fresh, known to nobody else, and lost when the session ends. Datagrams
are sealed with AES-GCM under a counter that is never used twice; a counter that was seen is not
heard again.
"""

import hashlib
import hmac
import os
from typing import Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from causalcast.datagrams.sealed_bytes import COOKIE_BYTES, SEALED, SEALED_HEAD
from causalcast.errors import WireError
from causalcast.limits import Limit

REPLAY_WINDOW: Final = Limit(
    "runtime.links.udp.sealing.replay_window",
    1024,
    least=64,
    most=1 << 16,
    unit="datagrams",
    about="datagrams may overtake one another by so many",
)
_NUMBER_BYTES: Final = 4  # of a session's number that are drawn; as many say whose it is
MOST_SEALED: Final = 1 << 48  # datagrams under one key, far below the limits of AES-GCM


class Membership(Protocol):
    """How an end proves that it belongs to the cluster; certificates would be another way."""

    def prove(self, statement: bytes) -> bytes:
        """32 bytes that only a member can make for this statement."""

    def is_proof(self, statement: bytes, proof: bytes) -> bool:
        """Whether a member made it."""

    def secret(self) -> bytes:
        """What goes into the keys beside the exchange; may be empty."""


class ClusterKey:
    """Members are those who know one key."""

    def __init__(self, key: bytes) -> None:
        self._key = hashlib.blake2b(key, person=b"causalcast udp").digest()

    def prove(self, statement: bytes) -> bytes:
        return hmac.digest(self._key, statement, "sha256")

    def is_proof(self, statement: bytes, proof: bytes) -> bool:
        return hmac.compare_digest(self.prove(statement), proof)

    def secret(self) -> bytes:
        return self._key


def membership(cluster: str, key: bytes) -> ClusterKey:
    """How nodes of this cluster prove that they are. Without a key of its own the cluster's name
    must do: datagrams are sealed all the same, but whoever knows the name could work out how. Then
    TLS inside says who is who, or the cluster is on loopback."""
    return ClusterKey(key or cluster.encode())


class SessionNumbers:
    """Numbers of sessions that one node draws, and knows for its own after a restart, too.

    A node confirms that a session is over. About numbers of others it says nothing: any member's
    word would do, and whoever saw a number pass could collect it and end the session.
    """

    def __init__(self, membership: Membership, who: str) -> None:
        self._key = membership.prove(b"numbers of " + who.encode())

    def draw(self) -> int:
        """A new number."""
        drawn = os.urandom(_NUMBER_BYTES)
        return int.from_bytes(drawn + self._mark(drawn))

    def are_ours(self, number: int) -> bool:
        """Whether this node drew it, in this life or an earlier one."""
        data = number.to_bytes(2 * _NUMBER_BYTES)
        return hmac.compare_digest(self._mark(data[:_NUMBER_BYTES]), data[_NUMBER_BYTES:])

    def _mark(self, drawn: bytes) -> bytes:
        return hmac.digest(self._key, drawn, "sha256")[:_NUMBER_BYTES]


class Exchange:
    """One end's key pair of one session."""

    def __init__(self) -> None:
        self._private = X25519PrivateKey.generate()
        self.public = self._private.public_key().public_bytes_raw()

    def agree(self, theirs: bytes, membership: Membership, transcript: bytes) -> "SessionKeys":
        """The keys that both ends work out; WireError for a public key that is none."""
        try:
            shared = self._private.exchange(X25519PublicKey.from_public_bytes(theirs))
        except ValueError:
            raise WireError("a weak key") from None
        material = HKDF(SHA256(), 112, membership.secret(), b"session " + transcript).derive(shared)
        return SessionKeys(material)


class SessionKeys:
    """What a session needs: a proof key, a key and a token for each direction."""

    def __init__(self, material: bytes) -> None:
        self.proof_key = material[:32]
        self.caller_key, self.callee_key = material[32:64], material[64:96]
        self.caller_token = int.from_bytes(material[96:104])
        self.callee_token = int.from_bytes(material[104:112])

    def proof(self, transcript: bytes) -> bytes:
        """Shows that one has worked out the keys."""
        return hmac.digest(self.proof_key, transcript, "sha256")


class Sealer:
    """Seals what goes one way."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)
        self._counter = 0

    def seal(self, session: int, content: bytes) -> bytes:
        """The whole datagram, for the receiver's `session`."""
        self._counter = counter = self._counter + 1
        assert counter < MOST_SEALED
        head = SEALED_HEAD.pack(SEALED, session, counter)
        return head + self._cipher.encrypt(_nonce(counter), content, head)


class Opener:
    """Opens what comes the other way, each datagram once."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)
        self.highest = 0
        self._seen = 0  # bit i: the counter `highest - i` was seen

    def open(self, data: bytes | memoryview, counter: int) -> bytes:
        """The content; WireError for what is forged, damaged, or was opened before."""
        if self._is_old(counter):
            raise WireError("a replay")
        head = SEALED_HEAD.size
        try:
            content = self._cipher.decrypt(_nonce(counter), data[head:], data[:head])
        except InvalidTag:
            raise WireError("a forged datagram") from None
        self._mark(counter)
        return content

    def _is_old(self, counter: int) -> bool:
        age = self.highest - counter
        return (
            counter == 0 or age >= REPLAY_WINDOW.value or (age >= 0 and bool(self._seen >> age & 1))
        )

    def _mark(self, counter: int) -> None:
        if counter > self.highest:
            ahead = min(counter - self.highest, REPLAY_WINDOW.value)
            self._seen = (self._seen << ahead | 1) & ((1 << REPLAY_WINDOW.value) - 1)
            self.highest = counter
        else:
            self._seen |= 1 << (self.highest - counter)


class Cookies:
    """A caller shows with a cookie that it gets what is sent to its address."""

    def __init__(self) -> None:
        self._secrets = [os.urandom(32), os.urandom(32)]

    def make(self, caller: bytes) -> bytes:
        """The cookie for this caller, by its address and key."""
        return hmac.digest(self._secrets[0], caller, "sha256")[:COOKIE_BYTES]

    def is_good(self, cookie: bytes, caller: bytes) -> bool:
        """Whether it was made for this caller, not long ago."""
        return any(
            hmac.compare_digest(hmac.digest(one, caller, "sha256")[:COOKIE_BYTES], cookie)
            for one in self._secrets
        )

    def renew(self) -> None:
        """Cookies live for one to two of the times between two calls of this."""
        self._secrets = [os.urandom(32), self._secrets[0]]


def _nonce(counter: int) -> bytes:
    return counter.to_bytes(12)
