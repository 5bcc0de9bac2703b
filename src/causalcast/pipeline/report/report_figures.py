"""What a report draws of one run: small tables, whoever aggregated them."""

from dataclasses import dataclass, field

TIME_BUCKETS = 80
BUCKETS_PER_OCTAVE = 4  # latency: fine enough to see two peaks, coarse enough to stay smooth


@dataclass
class NodeRow:
    """What one node did."""

    node: int
    published: int
    delivered: int
    duplicates: int
    held: int
    latency_p50_ms: float | None = None


@dataclass
class Change:
    """A node crashed, recovered, joined or left."""

    node: int
    at_us: int
    kind: str


@dataclass
class Figures:
    """Everything that is drawn about one run."""

    first_us: int = 0
    last_us: int = 0
    latency: list[tuple[int, int]] = field(default_factory=list)
    """(bucket, deliveries); bucket b begins at 2^(b / BUCKETS_PER_OCTAVE) microseconds."""
    over_time: list[tuple[int, int, int]] = field(default_factory=list)
    """(bucket of time, publications, deliveries)."""
    nodes: list[NodeRow] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    waited_for: list[tuple[int, int]] = field(default_factory=list)
    """(origin, how often others held something for one of its messages), most often first."""

    def sort(self) -> None:
        """Put everything into the order in which it is drawn."""
        self.waited_for.sort(key=lambda pair: (-pair[1], pair[0]))
        self.latency.sort()
        self.over_time.sort()
        self.nodes.sort(key=lambda node: node.node)
