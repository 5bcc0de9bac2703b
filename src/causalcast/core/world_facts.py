"""What a protocol may know of the world that it runs in, beyond its inputs.

Each world sets these facts: the host of a real node, the simulations, the stage of transcripts. A
branch that depends on one is only as good as what is searched, so a scenario can say every one of
them (`[world]`), and the swarm draws them. `tests/tidy/test_world_facts.py` holds both to it.
"""

from typing import Final, final

from causalcast.core.ids import NodeId

NOBODY: Final[dict[NodeId, None]] = {}


@final
class WorldFacts:
    """The facts of one world, in the outbox of every step (`out.world`)."""

    def __init__(self, keeps_records: bool = True, links_lose_nothing: bool = False) -> None:
        # False in a world without a disk: what is persisted is lost, and nobody comes back.
        self.keeps_records = keeps_records
        # While they are up, as connections of TCP: all that was sent comes, once and in order.
        self.links_lose_nothing = links_lose_nothing
        # Whose link has not taken yet what it was given. Told at timers, for it is timers that
        # repeat messages; nobody at any other input.
        self.congested = NOBODY
