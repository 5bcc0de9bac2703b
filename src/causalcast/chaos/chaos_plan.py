"""What is to be done to which protocol."""

from dataclasses import dataclass, field
from typing import Final

NETWORK_FAULTS: Final = (
    "partition",
    "one_way",
    "slow_route",
    "loss",
    "duplication",
    "reordering",
    "delay",
)
FAULTS: Final = ("kill", "kill_at_start", "stop", "pause", *NETWORK_FAULTS, "clock", "disk")
TLS: Final = ("on", "off", "both")


@dataclass
class ChaosPlan:
    """What is to be done to which protocol."""

    protocol: str = "locamu"
    options: dict[str, str] = field(default_factory=dict)
    overlay: str = ""  # none: the first that fits the protocol
    nodes: int = 5
    kills: int = 40  # of nodes that are up
    seconds: float = 0.0  # of faults, over all rounds; 0: as long as the kills take
    rate: float = 0.0  # publications of a node per second; 0: as many as it lets in
    tls: str = "on"  # or off, or both: every other round
    small_limits: bool = False  # of nodes, drawn for each round
    watch: bool = False  # Spark judges while it goes on, too
    faults: tuple[str, ...] = FAULTS
    seed: int = 0
    patience: float = 90.0  # seconds from the last fault until everybody has everything

    def has_tls(self, round_number: int) -> bool:
        """Whether the nodes of a round speak TLS."""
        return self.tls == "on" or (self.tls == "both" and round_number % 2 == 1)
