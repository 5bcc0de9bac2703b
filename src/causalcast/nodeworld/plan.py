"""What is going to happen in a world."""

from dataclasses import dataclass, field
from typing import Final

from causalcast.limits import limits_of
from causalcast.nodeworld.drawn_limits import ROOMS

UNTIL: Final = 6.0  # seconds in which things happen; then comes the calm
LATENCIES: Final = (0.1, 1.0, 20.0, 200.0)  # milliseconds
SLOWEST: Final = 20_000  # bytes per second
OF_TIME: Final = ("s", "us", "times")  # units of limits that say how often things happen


@dataclass
class Event:
    """Something that happens to somebody."""

    at: float
    kind: str
    machines: tuple[int, ...] = ()
    value: float = 0.0


@dataclass
class Plan:
    """A world, and everything that befalls it."""

    seed: int
    protocol: str
    machines: int
    overlay: str
    options: str
    groups: str
    limits: dict[str, int]  # of the file of each node
    latency_ms: float
    bytes_per_second: int  # of each way; 0: as many as come
    largest_piece: int
    sync_ms: float
    level: str  # of the trace
    largest_body: int
    publications: int  # of each application at most
    is_joined: bool = False  # nodes join, and are somebody new in every life
    is_open: bool = False  # nodes join, and come back as who they were
    is_durable: bool = True  # else nodes keep nothing, and nobody may die
    events: list[Event] = field(default_factory=list)
    drawn_limits: dict[str, float] = field(default_factory=dict)  # by name; those of the file, too
    until: float = UNTIL  # seconds in which things happen
    pours: bool = False  # applications publish without waiting for receipts
    clients: int = 0  # programs that use the doors of nodes
    client_events: list[Event] = field(default_factory=list)
    kept_for_clients: int = 10_000  # messages, for those that come back
    newcomers: dict[int, float] = field(
        default_factory=dict
    )  # machines, and when they join a group
    state_bytes: int = 0  # of what they are given, beside what was said
    has_readers: bool = False  # with names, at nodes
    makes_groups: bool = False  # applications and clients make groups, and remove them
    may_be_removed: bool = False  # members remove one of them, rightly or not
    tale: str = ""  # what the world is about, if it is about something

    def draws_times(self) -> bool:
        """Whether limits are drawn that say how often things happen."""
        every = limits_of(*ROOMS)
        return any(name in every and every[name].unit in OF_TIME for name in self.drawn_limits)

    def forget_drawn_times(self) -> None:
        """Things happen as often as they do in nodes as they are shipped."""
        every = limits_of(*ROOMS)
        for name in list(self.drawn_limits):
            if name in every and every[name].unit in OF_TIME:
                del self.drawn_limits[name]
