"""Bugs that this project once had, each as a mutant that puts it back, and where it is looked for.

What was found by strangers, by hand or by luck must be found by a search today: that is the
yardstick of the search.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from causalcast.swarm.campaign import Plan
from causalcast.swarm.mutant import Mutant
from causalcast.swarm.real_worlds import PLAIN

MOST_WORLDS: Final = 300  # a world of whole nodes costs as much as forty scenarios
DEARER: Final = 4
FIRST_ROUND: Final = 100  # seeds in each place before the next is tried; then five times as many
PIECE: Final = 100  # seeds that are tried before the others' turn comes; of whole nodes a quarter


@dataclass(frozen=True)
class Place:
    """Where a bug is looked for: seeds of a protocol, in the world of protocols or of nodes."""

    protocol: str
    options: Mapping[str, Any] = field(default_factory=dict)
    overlay: str = ""
    gone: bool = False
    for_good: bool = False
    nodes: bool = False
    tale: str = ""  # of whole nodes: only worlds that are about this; other seeds are passed over
    by: str = "both"
    small: bool = True  # limits are drawn, as whole nodes always do

    def plan(self) -> Plan:
        """The campaign that is run here, unless whole nodes are."""
        return Plan(
            self.protocol,
            dict(self.options),
            self.overlay,
            self.by,
            gives_up=self.gone,
            for_good=self.for_good,
            small_limits=self.small,
            facts=PLAIN,  # the seeds of the table are those of a world that tells nothing
        )

    def world_of(self, seed: int) -> str:
        """What kind of world a seed is here."""
        if self.nodes:
            return "nodes"
        if self.by == "stories":
            return "stories"
        return "adversary" if self.plan().is_adversary(seed) else "random"

    def most(self, asked: int) -> int:
        """How many seeds are tried here, if so many are asked for elsewhere."""
        return min(asked // DEARER, MOST_WORLDS) if self.nodes else asked

    def in_words(self) -> str:
        """The place as it stands in a table."""
        words = [self.protocol, *(f"{name}={value}" for name, value in self.options.items())]
        words += ["--gone"] * self.gone + ["--for-good"] * self.for_good
        words += [f"--overlay {self.overlay}"] * bool(self.overlay)
        words += ["--world nodes"] if self.nodes else ["--small-limits"] * self.small
        words += [f"({self.tale})"] * bool(self.tale)
        return " ".join(words)


@dataclass(frozen=True, kw_only=True)
class PastBug(Mutant):
    """A mutant that was no mutant once. `mechanism` says what went wrong."""

    mended: str  # the commit that mended it
    places: Sequence[Place]  # the cheapest first
    breaks: Sequence[str] = ()
    schedule: str = ""  # of tests/simulation/past_failures, which shows it by itself

    def rounds(self, most: int) -> Iterator[tuple[Place, range]]:
        """Some seeds of each place, then five times as many; in small pieces."""
        done, upto = 0, FIRST_ROUND
        while done < most:
            upto = min(upto, most)
            for place in self.places:
                for first in range(done, upto, PIECE):
                    last = min(first + PIECE, upto)
                    seeds = range(place.most(first), place.most(last))
                    if seeds:
                        yield place, seeds
            done, upto = upto, 5 * upto
