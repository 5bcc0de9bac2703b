"""What a simulated world is like for those who live in it: the facts that protocols may know."""

from typing import Final, final

NEVER: Final = 0.0  # no link is ever told to be congested


@final
class WorldPlan:
    """The table `world` of a scenario. By default nothing is known, as in a world of datagrams.

    `congestion`: at a timer each link counts as congested with this chance; where a director lets
    messages arrive, those on which something waits do. `tells_bandwidth`: those count as congested
    that still have something to send. `read_us`: what comes from a peer within this time is read
    at once, and messages that continue one another are handed over as a run.
    """

    def __init__(
        self,
        links_lose_nothing: bool = False,
        keeps_records: bool = True,
        congestion: float = NEVER,
        tells_bandwidth: bool = False,
        read_us: int = 0,
    ) -> None:
        self.links_lose_nothing = links_lose_nothing
        self.keeps_records = keeps_records
        self.congestion = congestion
        self.tells_bandwidth = tells_bandwidth
        self.read_us = read_us

    def tells_congestion(self) -> bool:
        """Whether anybody is ever told that a link is congested."""
        return self.congestion > NEVER or self.tells_bandwidth
