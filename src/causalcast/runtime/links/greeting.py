"""The first frame on a link, each way: who speaks, and whether both speak the same language.

What must be equal is compared by a digest, and fact by fact where the digests differ, so that both
ends can log what to mend. A long fact, such as the graph of many nodes, is told by a digest of its
own: a greeting has few bytes, however many nodes there are. Whoever only asks gets facts in full.
"""

import hashlib
from typing import Annotated, Final

import msgspec

from causalcast.core.ids import NODE_LIMIT
from causalcast.errors import WireError
from causalcast.limits import Limit
from causalcast.printable import printable
from causalcast.runtime.lives import Known, Life
from causalcast.wire.forms import WIRE_VERSION

MAGIC: Final = b"CAUSALC1"
LIMIT: Final = Limit(
    "runtime.links.greeting.limit",
    1 << 16,
    least=56 << 10,
    most=1 << 20,
    unit="bytes",
    about="a greeting from somebody who dials: facts, lives, a list of revocations",
)
ANSWER_LIMIT: Final = Limit(
    "runtime.links.greeting.answer_limit",
    8 << 20,
    least=1 << 20,
    most=64 << 20,
    unit="bytes",
    about="the answer to somebody who only asks: whole groups and graphs",
)
LONG_FACT: Final = Limit(
    "runtime.links.greeting.long_fact",
    512,
    least=1,
    most=4096,
    unit="characters",
    about="a fact of a greeting; longer ones are told by a digest",
)
ANYBODY: Final = -1  # a caller who only wants to know who is there


class Greeting(msgspec.Struct, array_like=True, frozen=True):
    """What one end tells the other before anything else."""

    wire_version: int
    cluster: str
    node: Annotated[int, msgspec.Meta(ge=0, lt=NODE_LIMIT)]
    start: int  # how often this node has started: a greater one means it was away
    address: str  # where it listens
    digest: str  # of the messages and the facts
    facts: dict[str, str]  # what all nodes of a cluster must agree on, by name
    link: int  # the id of the link, chosen by the dialler
    wanted: int = ANYBODY  # whom the dialler means to reach
    refusal: str = ""  # in an answer: why there is no link
    revoked: bytes = b""  # the list of revocations that the speaker believes, over TLS
    certificate: bytes = b""  # with a token: a request for a certificate; its answer
    life: Life = Life()  # who it is beside its id
    known: Known | None = None  # what it knows of the one it speaks with

    def encode(self) -> bytes:
        """The body of the frame."""
        return MAGIC + msgspec.msgpack.encode(self)


def read_greeting(data: bytes | memoryview) -> Greeting:
    """The greeting in a frame's body; WireError if it is none."""
    if bytes(data[: len(MAGIC)]) != MAGIC:
        raise WireError("the first frame is no greeting of causalcast")
    try:
        return msgspec.msgpack.decode(data[len(MAGIC) :], type=Greeting)
    except (msgspec.DecodeError, ValueError) as error:
        raise WireError(f"the greeting cannot be read: {error}") from None


def differences(mine: Greeting, theirs: Greeting) -> list[str]:
    """Everything that keeps two nodes from speaking with one another, in words."""
    found = []
    if mine.wire_version != theirs.wire_version:
        found.append(f"wire version {mine.wire_version} here, {theirs.wire_version} there")
    if mine.cluster != theirs.cluster:
        found.append(f"cluster {mine.cluster!r} here, {theirs.cluster!r} there")
    if mine.node == theirs.node:
        found.append(f"both are node {mine.node}")
    if mine.digest != theirs.digest:
        ours, others = in_short(mine.facts), in_short(theirs.facts)
        unequal = [
            printable(f"{name} {ours.get(name)} here, {others.get(name)} there")
            for name in sorted({*ours, *others})
            if ours.get(name) != others.get(name)
        ]
        found.extend(unequal or ["the messages of the protocol (another version of its file?)"])
    return found


def in_short(facts: dict[str, str]) -> dict[str, str]:
    """The same facts, long ones by a digest."""
    return {name: _in_short(fact) for name, fact in facts.items()}


def _in_short(fact: str) -> str:
    if len(fact) <= LONG_FACT.value:
        return fact
    name = hashlib.blake2b(fact.encode(), digest_size=8).hexdigest()
    return f"#{name} ({len(fact)} characters)"


def first_greeting(
    cluster: str,
    node: int,
    start: int,
    address: str,
    digest: str,
    facts: dict[str, str],
    life: Life | None = None,
) -> Greeting:
    """What this node tells everybody; the link is filled in per dial."""
    who = life or Life()
    return Greeting(WIRE_VERSION, cluster, node, start, address, digest, facts, -1, life=who)
