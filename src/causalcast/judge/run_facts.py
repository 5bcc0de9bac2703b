"""A run as plain Python: every log as a list, every publication as a bit in an integer."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from causalcast.errors import TraceError
from causalcast.trace.plain_run import PlainRun

ORIGIN_SHIFT = 32


class Row(NamedTuple):
    """What the judge needs of one event; its place in the log is its `pos`."""

    kind: str
    message: int | None
    group: int | None
    attempt: int | None = None
    instant: int = 0
    """Rows of one instant are not ordered; without ties it is the row's place in its log."""


@dataclass(frozen=True)
class Publication:
    """One published message."""

    id: int
    origin: int
    group: int
    pos: int
    bit: int
    key: str | None = None
    causes: tuple[int, ...] = ()
    """What it declares to follow."""


@dataclass(frozen=True)
class Membership:
    """`node` belongs to `group` while `start <= pos < end`; late if it came during the run, shared
    if each message goes to one of several."""

    node: int
    group: int
    start: int
    end: int | None
    late: bool
    share: str | None = None

    @property
    def shared(self) -> bool:
        """Whether each message goes to one of several."""
        return self.share is not None

    def covers(self, pos: int) -> bool:
        """Whether a row at `pos` happened while it was a member."""
        return self.start <= pos and (self.end is None or pos < self.end)


class RunFacts:
    """Logs, publications and memberships of one run."""

    def __init__(self, run: PlainRun) -> None:
        self.header = run.header
        self.logs: dict[int, list[Row]] = {node: [] for node in run.nodes}
        self.at_us: dict[int, int] = {}
        self.keys: dict[int, str] = {}
        self.causes: dict[int, tuple[int, ...]] = {}
        self._read_logs(run)
        self.publications: dict[int, Publication] = {}
        self._number_publications()
        self.memberships: dict[int, list[Membership]] = {node: [] for node in self.logs}
        self._read_memberships(run)

    def _read_logs(self, run: PlainRun) -> None:
        for node, pos, kind, message, group, at_us, attempt, tied, key, causes in run.events:
            if node not in self.logs:
                raise TraceError(f"node {node} has a log but does not stand in nodes.parquet")
            log = self.logs[node]
            if pos != len(log):
                raise TraceError(f"the log of node {node} has a gap or repeats a position")
            if kind in ("publish", "deliver") and (message is None or group is None):
                raise TraceError(f"node {node}, pos {pos}: a {kind} without message or group")
            if kind == "publish" and message is not None:
                self.at_us[message] = at_us
                self.causes[message] = tuple(causes or ())
                if key is not None:
                    self.keys[message] = key
            before = log[-1].instant if log else -1
            instant = before if tied and log else before + 1
            log.append(Row(kind, message, group, attempt, instant))

    def _number_publications(self) -> None:
        """Give each publication a bit, in order of time: causes then mostly have lower bits."""
        found = [
            (self.at_us[row.message], row.message, node, row.group, pos)
            for node, log in self.logs.items()
            for pos, row in enumerate(log)
            if row.kind == "publish" and row.message is not None and row.group is not None
        ]
        for place, (_, message, node, group, pos) in enumerate(sorted(found)):
            if message in self.publications or message >> ORIGIN_SHIFT != node:
                raise TraceError(f"node {node}, pos {pos}: cannot publish message {message}")
            self.publications[message] = Publication(
                message, node, group, pos, 1 << place, self.keys.get(message), self.causes[message]
            )
        self.by_place = list(self.publications.values())
        self.declares_causes = any(p.causes for p in self.by_place)
        self.of_key: dict[str | None, int] = {}
        for publication in self.by_place:
            bits = self.of_key.get(publication.key, 0)
            self.of_key[publication.key] = bits | publication.bit

    def _read_memberships(self, run: PlainRun) -> None:
        for group, node, start, end, share in run.members:
            if node not in self.logs:
                raise TraceError(f"member {node} does not stand in nodes.parquet")
            log = self.logs[node]
            joined_here = (
                start < len(log) and log[start].kind == "join" and log[start].group in (group, None)
            )
            late = start > 0 or joined_here
            self.memberships[node].append(Membership(node, group, start, end, late, share))

    def ordered_with(self, publication: Publication) -> int:
        """The publications that are ordered with this one: of the same key, or without one."""
        if publication.key is None:
            return (1 << len(self.by_place)) - 1
        return self.of_key[publication.key] | self.of_key.get(None, 0)

    def in_bits(self, bits: int) -> Iterator[Publication]:
        """The publications of a bit set, oldest first."""
        while bits:
            lowest = bits & -bits
            yield self.by_place[lowest.bit_length() - 1]
            bits ^= lowest

    def is_down_at_the_end(self, node: int) -> bool:
        """Whether `node` crashed and did not come back."""
        changes = [row.kind for row in self.logs[node] if row.kind in ("crash", "recover")]
        return bool(changes) and changes[-1] == "crash"

    def final_membership(self, node: int, group: int) -> Membership | None:
        """The membership of `node` in `group` that lasts beyond its last row."""
        end_of_log = len(self.logs[node])
        for membership in self.memberships[node]:
            if membership.group == group and membership.covers(end_of_log):
                return membership
        return None
