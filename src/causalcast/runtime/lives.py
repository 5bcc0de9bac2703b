"""Who a node is beside its id, so that a disk that went back in time is noticed.

A node is its id, its incarnation, which is drawn when its storage is made, and its life, which is
drawn at each start. Its journal has all of them, it tells them in greetings, and its neighbours
write down what they were told, with the last number of it that came from it. Storage that was lost
has another incarnation; an older copy has other lives where the neighbours know better; and where
the end of a journal is missing, the next life begins with fewer numbers than are known. Such a node
would give out numbers a second time, and what it publishes would be taken for something old.
"""

from typing import Final

import msgspec

from causalcast.limits import Limit

UNKNOWN: Final = 0  # the incarnation of a node that keeps nothing over a restart
MOST_PAST: Final = Limit(
    "runtime.lives.most_past",
    32,
    least=1,
    most=1024,
    unit="lives",
    about="lives that a node tells of; further back only numbers tell",
)
ADVICE: Final = (
    "an older copy of a node's storage cannot go on in its name: start it under a new id with new "
    "storage"
)


class PastLife(msgspec.Struct, array_like=True, frozen=True):
    """One of the lives before."""

    life: int
    began: int  # the last number that the node had given out when it began


class Life(msgspec.Struct, array_like=True, frozen=True):
    """What a node says of itself."""

    incarnation: int = UNKNOWN
    start: int = 0  # how often it has started
    life: int = 0
    past: list[PastLife] = []  # the lives before, the last one first
    began: int = 0  # as for lives before

    def at(self, start: int) -> PastLife | None:
        """Its life after it had started so often; None if it does not say."""
        if start == self.start:
            return PastLife(self.life, self.began)
        back = self.start - start - 1
        return self.past[back] if 0 <= back < len(self.past) else None


class Known(msgspec.Struct, array_like=True, frozen=True):
    """What a neighbour knows of a node."""

    incarnation: int
    start: int
    life: int
    published: int  # the last number that came from it


def went_back(now: Life, known: Known | None) -> str:
    """In words why storage is older than what is known of its node; empty if it is not."""
    if known is None or UNKNOWN in (now.incarnation, known.incarnation):
        return ""
    if now.incarnation != known.incarnation:
        return "its storage is not the one that it had before"
    if now.start < known.start:
        return f"this is its start {now.start}, and its start {known.start} is known"
    then = now.at(known.start)
    if then is not None and then.life != known.life:
        return f"it was another life of it that began with its start {known.start}"
    if now.life == known.life:
        return ""
    following = now.at(known.start + 1) or PastLife(now.life, now.began)
    if following.began < known.published:
        return (
            f"its number {known.published} is known, and it had forgotten all after "
            f"{following.began}"
        )
    return ""
