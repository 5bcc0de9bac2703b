"""The first frame on a link, each way: who speaks, and whether both speak the same language.

What must be equal is compared by a digest, and fact by fact where the digests differ, so that both
ends can log what to mend. A long fact, such as the graph of many nodes, is told by a digest of its
own: a greeting has few bytes, however many nodes there are. Whoever is refused, or only asks, gets
facts in full, so that somebody can say what differs.
"""

import hashlib
import json
from typing import Annotated, Any, Final

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
MOST_IN_REFUSAL: Final = Limit(
    "runtime.links.greeting.most_in_refusal",
    6 << 10,
    least=0,
    most=8 << 10,
    unit="bytes",
    about="facts in full for somebody who is refused; if there are more, long ones by a digest",
)
MOST_SHOWN: Final = 3  # differences of one fact
LONGEST_SHOWN: Final = 200  # characters of a value
GROUPS: Final = "groups"
NOTHING: Final = "nothing"
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
    direct: bool = False  # whether it takes requests beside the protocol

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
        unequal = what_differs(mine.facts, theirs.facts)
        found.extend(unequal or ["the messages of the protocol (another version of its file?)"])
    return found


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
    return Greeting(
        WIRE_VERSION, cluster, node, start, address, digest, facts, -1, life=who, direct=True
    )


def in_short(facts: dict[str, str]) -> dict[str, str]:
    """The same facts, long ones by a digest."""
    return {name: _in_short(fact) for name, fact in facts.items()}


def for_refused(facts: dict[str, str]) -> dict[str, str]:
    """What somebody who is refused is told: all of it, if that is not too much."""
    size = sum(len(name.encode()) + len(fact.encode()) for name, fact in facts.items())
    return facts if size <= MOST_IN_REFUSAL.value else in_short(facts)


def what_differs(ours: dict[str, str], theirs: dict[str, str]) -> list[str]:
    """In words everything that is not the same; nothing of what others say is believed."""
    found = []
    for name in sorted({*ours, *theirs}):
        here, there = ours.get(name), theirs.get(name)
        told = [None if fact is None else _in_short(fact) for fact in (here, there)]
        if told[0] != told[1]:
            found.append(printable(_in_words(name, here, there)))
    return found


def _in_short(fact: str) -> str:
    if len(fact) <= LONG_FACT.value:
        return fact
    name = hashlib.blake2b(fact.encode(), digest_size=8).hexdigest()
    return f"#{name} ({len(fact)} characters)"


def _in_words(name: str, here: str | None, there: str | None) -> str:
    ours, theirs = _read(here), _read(there)
    if name == GROUPS and isinstance(ours, list) and isinstance(theirs, list):
        return _groups_in_words(_founders(ours), _founders(theirs))
    if isinstance(ours, dict) and isinstance(theirs, dict):
        keys = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
        shown = [
            f"{name} {key}: {_shown(ours, key)} here, {_shown(theirs, key)} there"
            for key in keys[:MOST_SHOWN]
        ]
        return ", ".join(shown) + _more(keys)
    short = [None if fact is None else _in_short(fact) for fact in (here, there)]
    said = f"{name} {short[0]} here, {short[1]} there"
    if any(fact is not None and fact.startswith("#") for fact in short):
        said += " (too long for a greeting: see the log of the node that dialled, or both files)"
    return said


def _groups_in_words(ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    here, there = list(ours.items()), list(theirs.items())
    for one, other, where, lacking in (
        (here, there, "there", "here"),
        (there, here, "here", "there"),
    ):
        if other[: len(one)] == one:
            new = [repr(name) for name, _ in other[len(one) :]]
            names = ", ".join(new[:MOST_SHOWN]) + _more(new)
            return (
                f"groups {names} {where} and not {lacking}: add them at the end of [groups] "
                f"{lacking}, as they are {where}, and start the node {lacking} again"
            )
    if [*ours] == [*theirs]:
        changed = [name for name in ours if ours[name] != theirs[name]]
        shown = [
            f"group {name!r} begins with members {_shown(ours, name)} here, "
            f"{_shown(theirs, name)} there"
            for name in changed[:MOST_SHOWN]
        ]
        return ", ".join(shown) + _more(changed)
    lists = [_cut(", ".join(map(repr, names))) for names in (ours, theirs)]
    return f"groups {lists[0]} here, {lists[1]} there: they must be the same, in the same order"


def _founders(groups: list[Any]) -> dict[str, Any]:
    """Founding members by name, if they are told; whatever others say becomes something."""
    found: dict[str, Any] = {}
    for group in groups:
        if isinstance(group, list) and len(group) == 2:
            found[str(group[0])] = group[1]
        else:
            found[str(group)] = None
    return found


def _read(fact: str | None) -> object:
    try:
        return json.loads(fact or "")
    except (ValueError, RecursionError):
        return None


def _shown(values: dict[str, Any], key: str) -> str:
    return _cut(json.dumps(values[key])) if key in values else NOTHING


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…"


def _more(all_of_them: list[Any]) -> str:
    more = len(all_of_them) - MOST_SHOWN
    return f" and {more} more" if more > 0 else ""
