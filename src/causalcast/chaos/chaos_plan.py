"""What is to be done to which protocol."""

from dataclasses import dataclass, field
from typing import Final

NETWORK_FAULTS: Final = ("partition", "loss", "duplication", "reordering", "delay")
FAULTS: Final = ("kill", "pause", *NETWORK_FAULTS, "clock", "disk")


@dataclass
class ChaosPlan:
    """What is to be done to which protocol."""

    protocol: str = "locamu"
    options: dict[str, str] = field(default_factory=dict)
    overlay: str = ""  # none: the first that fits the protocol
    nodes: int = 5
    kills: int = 40
    faults: tuple[str, ...] = FAULTS
    seed: int = 0
    patience: float = 90.0  # seconds from the last fault until everybody has everything
