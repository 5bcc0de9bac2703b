"""Checks one run while its rows come in, node by node in the order of `pos`, nodes in any order.

Per node it keeps what precedes its next publication (`seen`) and, per origin, the first message
that is owed to it and not there yet (`next`). A delivery is in order iff nothing in its past is
still to come. A delivery whose publication has not been read waits, and the later rows of its node
with it.

That something is missing is never certain while a run goes on. What a member that is up lacks for
longer than it should, though another one has it, is *overdue*: told once, and once more when it
came. Ages are in seconds of watching, so that a watch that was down blames nobody for it.

State is bounded. The past of a message is forgotten once everybody has it. When too much is in
flight, nobody waits any longer for those who are down, then for those who lack the oldest messages
(a killed node cannot say that it is down); when too many rows wait for publications that nobody
wrote, the rows are passed over. Both are counted.

It raises no false alarm about safety. What a late member turns out to be owed only by what it
delivers later is left to `verify`, which sees the whole run.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from causalcast.errors import TraceError
from causalcast.pipeline.check.checks.finding import Finding

ORIGIN_SHIFT = 32
NUMBER_MASK = (1 << ORIGIN_SHIFT) - 1
MOST_IN_FLIGHT = 20_000  # messages kept for those who lack them; beyond, nobody waits for them
MOST_HAD = 1_000_000  # pairs of node and message in flight: about 100 MB
MOST_ROWS_WAITING = 500_000

LiveRow = tuple[int, str, int | None, int | None]  # pos, kind, message, group


@dataclass
class _InFlight:
    """A published message that somebody may still deliver."""

    group: int
    past: Any
    lacking: set[int]
    since: float = 0.0
    """When its publication was read, in seconds of watching."""
    had: set[int] = field(default_factory=set)
    told: set[int] = field(default_factory=set)
    """Who was told to be late with it."""


@dataclass
class _Node:
    """What is known of one node."""

    id: int
    next_pos: int = 0
    ready: deque[LiveRow] = field(default_factory=deque)
    beyond_a_gap: dict[int, LiveRow] = field(default_factory=dict)
    seen: Any = field(default_factory=lambda: np.zeros(0, np.int64))
    next: Any = field(default_factory=lambda: np.ones(0, np.int64))
    published: int = 0
    groups: dict[int, int | None] = field(default_factory=dict)
    """Current groups; for late members how much it had published when it joined."""
    entries: dict[tuple[int, int], int] = field(default_factory=dict)
    """Late members: (group, origin) to the number of the first message delivered."""
    has: set[int] = field(default_factory=set)
    """Messages in flight that it has, published or delivered."""
    since_recovery: set[int] = field(default_factory=set)
    """Where a recovery excuses repeats: what it delivered since the last one."""
    recovered: bool = False
    up: bool = True
    stopped_in: list[int] = field(default_factory=list)
    """The groups it was in when it was stopped in good order."""


class LiveCheck:
    """The state of one run, bounded by what is on its way.

    Large because all properties are judged in one pass over the same state, which
    is saved and read back as a whole.
    """

    def __init__(self, members: dict[int, set[int]], redelivery: bool = False) -> None:
        self.redelivery = redelivery
        self.nodes: dict[int, _Node] = {}
        self.columns: dict[int, int] = {}
        self.in_flight: dict[int, _InFlight] = {}
        self.members: dict[int, set[int]] = {}
        self.rows_done = 0
        self.deliveries = 0
        self.unchecked = 0
        """Rows that could not be judged: deliveries of what was forgotten, by nodes struck off that
        came back, and rows that waited too long."""
        self.violations = 0
        self.seconds = 0.0
        """How long this run has been watched."""
        self.overdue = 0
        """How many deliveries are told to be late and have not come yet."""
        self.struck_off: set[int] = set()
        """Nodes that were not waited for any longer."""
        self._found: list[Finding] = []
        self._caught_up: list[Finding] = []
        self._had = 0
        self._passed_over: dict[int, set[int]] = {}  # deliveries that waited too long
        self._forgotten: dict[int, int] = {}  # the last ones, and their groups
        self._origins: list[int] = []
        self.learn_members(members)

    def learn_members(self, members: dict[int, set[int]]) -> None:
        """Founding members that were not known yet."""
        for group, nodes in members.items():
            for node in nodes - self.members.setdefault(group, set()):
                state = self._node(node)
                if state.next_pos == 0 and group not in state.groups:
                    state.groups[group] = None
                    self.members[group].add(node)

    def feed(self, node: int, rows: list[LiveRow]) -> None:
        """Rows of one node, in any order; a gap in `pos` is waited for."""
        state = self._node(node)
        for row in rows:
            if row[0] >= state.next_pos:
                state.beyond_a_gap[row[0]] = row
        while state.next_pos in state.beyond_a_gap:
            state.ready.append(state.beyond_a_gap.pop(state.next_pos))
            state.next_pos += 1

    def settle(self) -> list[Finding]:
        """Go on with all nodes as far as they can; what was found."""
        self._go_on()
        while sum(len(node.ready) for node in self.nodes.values()) > MOST_ROWS_WAITING:
            self._pass_over_first_rows()
            self._go_on()
        self._keep_in_bounds()
        found, self._found = self._found, []
        self.violations += len(found)
        return found

    def _go_on(self) -> None:
        moved = True
        while moved:
            moved = False
            for node in list(self.nodes.values()):
                while node.ready and self._step(node, node.ready[0]):
                    node.ready.popleft()
                    self.rows_done += 1
                    moved = True

    def finish(self) -> list[Finding]:
        """No more rows will come: what still waits, waits for what nobody published."""
        found = self.settle()
        while stuck := [node for node in self.nodes.values() if node.ready]:
            to_come = {row[2] for node in stuck for row in node.ready if row[1] == "publish"}
            ghosts = [node for node in stuck if node.ready[0][2] not in to_come]
            for node in ghosts or stuck[:1]:
                pos, _, message, _ = node.ready.popleft()
                assert message is not None
                if ghosts:
                    self._note("no_creation", "unpublished", node, message, pos)
                else:
                    publisher = self._node(message >> ORIGIN_SHIFT)
                    self._note("no_creation", "cycle", publisher, message, None)
            found += self.settle()
        return found

    def late(self, grace: float) -> list[Finding]:
        """Deliveries that have been owed for `grace` seconds of watching, each told once.

        `validity`: its publisher is up and still a member, and has not delivered it. `agreement`: a
        member that is up has delivered it, another one has not.
        """
        found = []
        for message, flight in self.in_flight.items():
            if self.seconds - flight.since < grace:
                break  # the others were published later
            for node in sorted(flight.lacking - flight.told):
                guarantee = self._lacks(node, message, flight)
                if guarantee is not None:
                    flight.told.add(node)
                    found.append(Finding(guarantee, "overdue", node, message))
        self.overdue += len(found)
        return found

    def caught_up(self) -> list[Finding]:
        """What was overdue and is not any longer, since this was asked last."""
        came, self._caught_up = self._caught_up, []
        return came

    def _lacks(self, node: int, message: int, flight: _InFlight) -> str | None:
        """The guarantee that is broken if `node` never delivers a message in flight."""
        state = self.nodes[node]
        if not state.up or flight.group not in state.groups:
            return None
        if message >> ORIGIN_SHIFT == node:
            return "validity"
        others = (self.nodes[other] for other in flight.had)
        delivered = any(other.up and flight.group in other.groups for other in others)
        return "agreement" if delivered and self._owed(state, message, flight) else None

    def rows_waiting(self) -> int:
        """Rows that cannot be judged yet."""
        return sum(len(n.ready) + len(n.beyond_a_gap) for n in self.nodes.values())

    def pending(self) -> int:
        """Messages that a member which is up still lacks."""
        return sum(
            any(self.nodes[node].up for node in flight.lacking)
            for flight in self.in_flight.values()
        )

    def _node(self, node: int) -> _Node:
        if node not in self.nodes:
            self.nodes[node] = _Node(node)
        return self.nodes[node]

    def _step(self, node: _Node, row: LiveRow) -> bool:
        pos, kind, message, group = row
        if kind == "deliver":
            assert message is not None
            return self._deliver(node, pos, message, group)
        if kind == "publish":
            assert message is not None and group is not None
            self._publish(node, message, group)
        elif kind == "crash":
            node.up = False
        elif kind == "recover":
            node.up = node.recovered = True
            node.since_recovery.clear()
            self._return(node)
        elif kind == "join" and group is not None:
            node.groups[group] = node.published
            self.members.setdefault(group, set()).add(node.id)
        elif kind == "leave":
            if group is None:  # it leaves the run: it was stopped, and may be started again
                node.stopped_in = list(node.groups)
            for left in list(node.groups) if group is None else [group]:
                self._leave(node, left)
        return True

    def _publish(self, node: _Node, message: int, group: int) -> None:
        column = self._column(node.id)
        past = self._grown(node).seen.copy()
        node.published = message & NUMBER_MASK
        node.seen[column] = node.published
        node.has.add(message)
        lacking = set(self.members.get(group, ()))
        flight = self.in_flight[message] = _InFlight(group, past, lacking, self.seconds)
        for early in self._passed_over.pop(message, ()):
            self._take(self.nodes[early], message, flight)
        if message in self.in_flight:
            self._forget_if_everybody_has(message)

    def _deliver(self, node: _Node, pos: int, message: int, group: int | None) -> bool:
        flight = self.in_flight.get(message)
        origin, number = message >> ORIGIN_SHIFT, message & NUMBER_MASK
        if flight is None and number > self._node(origin).published:
            if origin != node.id:
                return False
            self._note("no_creation", "before_publish", node, message, pos)
            self._pass_over(node, message)
            return True
        self.deliveries += 1
        if flight is None:
            self._deliver_forgotten(node, pos, message, group)
            return True
        if group != flight.group:
            self._note("no_creation", "wrong_group", node, message, pos)
        elif flight.group not in node.groups:
            self._note("no_creation", "not_a_member", node, message, pos)
        if node.id in flight.had:
            if not self._excused(node, message):
                self._note("no_duplication", "repeated", node, message, pos)
        else:
            self._enter(node, flight.group, origin, number)
            self._check_order(node, pos, message, flight)
        self._take(node, message, flight)
        return True

    def _deliver_forgotten(self, node: _Node, pos: int, message: int, group: int | None) -> None:
        """Whoever was a member all the time has had it; of others nobody remembers."""
        of_message = self._forgotten.get(message, group)
        always_member = of_message in node.groups and node.groups[of_message] is None
        if group != of_message:
            self._note("no_creation", "wrong_group", node, message, pos)
        elif group not in node.groups:
            self._note("no_creation", "not_a_member", node, message, pos)
        if not always_member or node.id in self.struck_off:
            self.unchecked += 1
        elif not self._excused(node, message):
            self._note("no_duplication", "repeated", node, message, pos)
        self._remember_since_recovery(node, message)
        column = self._column(message >> ORIGIN_SHIFT)
        seen = self._grown(node).seen
        seen[column] = max(seen[column], message & NUMBER_MASK)

    def _excused(self, node: _Node, message: int) -> bool:
        """Whether a repeated delivery is one that a recovery excuses."""
        return self.redelivery and node.recovered and message not in node.since_recovery

    def _remember_since_recovery(self, node: _Node, message: int) -> None:
        if self.redelivery and node.recovered and len(node.since_recovery) < MOST_IN_FLIGHT:
            node.since_recovery.add(message)

    def _check_order(self, node: _Node, pos: int, message: int, flight: _InFlight) -> None:
        self._grown(node)
        origin, number = message >> ORIGIN_SHIFT, message & NUMBER_MASK
        column = self._column(origin)
        before = self._first_missing(node, column, origin, number - 1)
        if before is not None:
            self._note("fifo_order", "inversion", node, message, pos, before)
        past = flight.past
        behind = np.flatnonzero(node.next[: len(past)] <= past)
        cause = before
        for place in behind.tolist() if cause is None else ():
            cause = self._first_missing(node, place, self._origins[place], int(past[place]))
            if cause is not None:
                break
        if cause is not None:
            self._note("causal_order", "inversion", node, message, pos, cause)

    def _first_missing(self, node: _Node, column: int, origin: int, upto: int) -> int | None:
        """The first message of an origin, up to a number, that is owed here and not there."""
        while node.next[column] <= upto:
            message = origin << ORIGIN_SHIFT | int(node.next[column])
            flight = self.in_flight.get(message)
            if flight is not None and message not in node.has and self._owed(node, message, flight):
                return message
            node.next[column] += 1
        return None

    def _owed(self, node: _Node, message: int, flight: _InFlight) -> bool:
        if flight.group not in node.groups:
            return False
        joined_after = node.groups[flight.group]
        if joined_after is None:
            return True
        entry = node.entries.get((flight.group, message >> ORIGIN_SHIFT))
        if entry is not None and message & NUMBER_MASK >= entry:
            return True
        own = self.columns.get(node.id)
        return own is not None and own < len(flight.past) and flight.past[own] > joined_after

    def _enter(self, node: _Node, group: int, origin: int, number: int) -> None:
        """A late member comes in, per origin, with the first message it delivers."""
        if node.groups.get(group) is not None and (group, origin) not in node.entries:
            node.entries[group, origin] = number
            column = self._column(origin)
            pointers = self._grown(node).next
            pointers[column] = min(pointers[column], number)

    def _take(self, node: _Node, message: int, flight: _InFlight) -> None:
        seen = self._grown(node).seen
        np.maximum(seen[: len(flight.past)], flight.past, out=seen[: len(flight.past)])
        column = self._column(message >> ORIGIN_SHIFT)
        node.seen[column] = max(node.seen[column], message & NUMBER_MASK)
        node.has.add(message)
        self._remember_since_recovery(node, message)
        if node.id not in flight.had:
            flight.had.add(node.id)
            self._had += 1
        self._no_longer_lacks(node.id, message, flight)
        self._forget_if_everybody_has(message)

    def _no_longer_lacks(self, node: int, message: int, flight: _InFlight) -> None:
        flight.lacking.discard(node)
        if node in flight.told:
            flight.told.discard(node)
            self.overdue -= 1
            guarantee = "validity" if message >> ORIGIN_SHIFT == node else "agreement"
            self._caught_up.append(Finding(guarantee, "overdue", node, message))

    def _return(self, node: _Node) -> None:
        """Who was stopped is in its groups again. What was forgotten while it was away may still
        come: so it counts as a late member."""
        for group in node.stopped_in:
            node.groups[group] = node.published
            self.members.setdefault(group, set()).add(node.id)
        node.stopped_in = []

    def _leave(self, node: _Node, group: int) -> None:
        node.groups.pop(group, None)
        self.members.get(group, set()).discard(node.id)
        node.entries = {key: n for key, n in node.entries.items() if key[0] != group}
        for message, flight in list(self.in_flight.items()):
            if flight.group == group:
                self._no_longer_lacks(node.id, message, flight)
                self._forget_if_everybody_has(message)

    def _forget_if_everybody_has(self, message: int) -> None:
        flight = self.in_flight[message]
        if flight.lacking:
            return
        del self.in_flight[message]
        self._had -= len(flight.had)
        self._forgotten[message] = flight.group
        if len(self._forgotten) > MOST_IN_FLIGHT:
            del self._forgotten[next(iter(self._forgotten))]
        for node in (*flight.had, message >> ORIGIN_SHIFT):
            self.nodes[node].has.discard(message)

    def _keep_in_bounds(self) -> None:
        """Nobody waits for ever: that would keep everything."""
        if self._too_much_in_flight():
            down = {node.id for node in self.nodes.values() if not node.up}
            for message, flight in list(self.in_flight.items()):
                self._strike_off(message, flight, flight.lacking & down)
        while self._too_much_in_flight():
            message, flight = next(iter(self.in_flight.items()))
            self._strike_off(message, flight, set(flight.lacking))
        for node in self.nodes.values():
            if len(node.beyond_a_gap) > MOST_ROWS_WAITING:
                raise TraceError(
                    f"the log of node {node.id} has a gap at pos {node.next_pos}:"
                    f" {len(node.beyond_a_gap):,} later rows have come"
                )

    def _too_much_in_flight(self) -> bool:
        return len(self.in_flight) > MOST_IN_FLIGHT or self._had > MOST_HAD

    def _strike_off(self, message: int, flight: _InFlight, nodes: set[int]) -> None:
        self.struck_off |= nodes
        flight.lacking -= nodes
        self.overdue -= len(flight.told & nodes)
        flight.told -= nodes
        self._forget_if_everybody_has(message)

    def _pass_over_first_rows(self) -> None:
        """Deliveries of what nobody has published so far, though many rows have come since."""
        for node in self.nodes.values():
            if node.ready:
                _, _, message, _ = node.ready.popleft()
                assert message is not None
                self.unchecked += 1
                self._pass_over(node, message)

    def _pass_over(self, node: _Node, message: int) -> None:
        """A delivery that came before its publication was read."""
        self._passed_over.setdefault(message, set()).add(node.id)
        if len(self._passed_over) > MOST_IN_FLIGHT:
            del self._passed_over[next(iter(self._passed_over))]

    def _column(self, origin: int) -> int:
        if origin not in self.columns:
            self.columns[origin] = len(self.columns)
            self._origins.append(origin)
        return self.columns[origin]

    def _grown(self, node: _Node) -> _Node:
        """Room in a node's vectors for every origin that is known."""
        lack = len(self.columns) - len(node.seen)
        if lack > 0:
            node.seen = np.concatenate([node.seen, np.zeros(lack, np.int64)])
            node.next = np.concatenate([node.next, np.ones(lack, np.int64)])
        return node

    def _note(
        self, guarantee: str, kind: str, node: _Node, message: int, pos: int | None,
        cause: int | None = None,
    ) -> None:  # fmt: skip
        self._found.append(Finding(guarantee, kind, node.id, message, pos, cause))
