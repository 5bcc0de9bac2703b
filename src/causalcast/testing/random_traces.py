"""Random small runs, right by construction, and ways to damage them.

`good_run` plays an ideal causal multicast: overlapping groups, publishers from outside, crashes,
recoveries, late joiners, leavers, clocks that disagree. `damage` breaks a few things. Both depend
on the given random generator alone.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from causalcast.testing.draft_run import DraftMembership, DraftRow, DraftRun, message_id


@dataclass
class _Published:
    message: int
    group: int
    origin: int
    bit: int
    past: int = 0


@dataclass
class _Node:
    """What an ideal node knows."""

    id: int
    clock_error: int
    groups: set[int] = field(default_factory=set)
    known: int = 0  # causal past of its next publication
    waiting: dict[int, _Published] = field(default_factory=dict)  # to be delivered, by bit
    delivered: list[_Published] = field(default_factory=list)
    published: int = 0
    up: bool = True


class _IdealMulticast:
    """Plays a random run step by step; every step keeps all six guarantees possible."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.draft = DraftRun()
        self.draft.header.run_id = "random"
        self.messages: list[_Published] = []
        skew = random.choice([0, 0, 40, 400])
        self.nodes = [_Node(i, random.randint(-skew, skew)) for i in range(random.randint(2, 7))]
        self.time = 1000
        self.groups = list(range(random.choice([1, 1, 2, 3, 4])))
        for node in self.nodes:
            self.draft.logs[node.id] = []
        self._found_groups()

    def _found_groups(self) -> None:
        everybody = len(self.groups) == 1 and self.random.random() < 0.6
        for group in self.groups:
            size = self.random.randint(1, len(self.nodes))
            for node in self.nodes if everybody else self.random.sample(self.nodes, size):
                node.groups.add(group)
                self.draft.memberships.append(DraftMembership(group, node.id))

    def play(self, steps: int, changes: bool, finish: bool) -> DraftRun:
        header = self.draft.header
        header.complete = finish
        if self.random.random() < 0.2:
            header.redelivery = "after_recover"
        actions: list[Callable[[_Node], None]] = [self.publish, self.deliver, self.deliver]
        actions += [self.deliver_much]
        if changes:
            actions += [self.join, self.leave, self.crash_or_recover]
        for _ in range(steps):
            node = self.random.choice(self.nodes)
            if node.up:
                self.random.choice(actions)(node)
            elif self.random.random() < 0.5:
                self.crash_or_recover(node)
        if finish:
            for node in self.nodes:
                while node.up and node.waiting:
                    self.deliver(node)
        return self.draft

    def row(
        self, node: _Node, kind: str, message: int | None = None, group: int | None = None
    ) -> DraftRow:
        self.time += self.random.randint(1, 20)
        row = DraftRow(kind, message, group, max(0, self.time + node.clock_error))
        self.draft.logs[node.id].append(row)
        return row

    def publish(self, node: _Node) -> None:
        from_outside = self.random.random() < 0.3
        group = self.random.choice(self.groups if from_outside else sorted(node.groups) or [0])
        node.published += 1
        new = _Published(
            message_id(node.id, node.published), group, node.id, 1 << len(self.messages), node.known
        )
        self.messages.append(new)
        self.row(node, "publish", new.message, group)
        node.known |= new.bit
        for member in self.nodes:
            if group in member.groups:
                member.waiting[new.bit] = new
        if group in node.groups and self.random.random() < 0.9:
            self._deliver_now(node, new)

    def deliver(self, node: _Node) -> None:
        outstanding = sum(node.waiting)
        ready = [m for m in node.waiting.values() if not m.past & outstanding]
        if ready:
            self._deliver_now(node, self.random.choice(ready))

    def deliver_much(self, node: _Node) -> None:
        for _ in range(4):
            self.deliver(node)

    def _deliver_now(self, node: _Node, message: _Published) -> None:
        self.row(node, "deliver", message.message, message.group)
        node.known |= message.past | message.bit
        node.delivered.append(message)
        del node.waiting[message.bit]

    def join(self, node: _Node) -> None:
        open_to_it = [group for group in self.groups if group not in node.groups]
        if open_to_it:
            group = self.random.choice(open_to_it)
            node.groups.add(group)
            joined = self.row(node, "join", None, group)
            self.draft.memberships.append(DraftMembership(group, node.id, joined))

    def leave(self, node: _Node) -> None:
        if not node.groups or self.random.random() < 0.5:
            return
        group = self.random.choice(sorted(node.groups))
        node.groups.remove(group)
        node.waiting = {bit: m for bit, m in node.waiting.items() if m.group != group}
        left = self.row(node, "leave", None, group)
        current = [m for m in self.draft.memberships if (m.group, m.node) == (group, node.id)]
        current[-1].left = left

    def crash_or_recover(self, node: _Node) -> None:
        self.row(node, "crash" if node.up else "recover")
        node.up = not node.up
        if node.up and self.draft.header.redelivery == "after_recover":
            again = [m for m in node.delivered[-3:] if m.group in node.groups]
            for message in dict.fromkeys(m.bit for m in again):
                published = self.messages[message.bit_length() - 1]
                self.row(node, "deliver", published.message, published.group)


def good_run(random: Random) -> DraftRun:
    """A run in which nothing is wrong (if it is not complete, things may be missing at the end)."""
    world = _IdealMulticast(random)
    changes = random.random() < 0.6
    return world.play(random.randint(3, 60), changes, finish=random.random() < 0.85)


def damage(draft: DraftRun, random: Random) -> None:
    """Break one to three things, where there is something to break."""
    for _ in range(random.randint(1, 3)):
        random.choice(DAMAGES)(draft, random)


def _some_delivery(draft: DraftRun, random: Random) -> tuple[list[DraftRow], int] | None:
    places = [
        (log, place)
        for log in draft.logs.values()
        for place, row in enumerate(log)
        if row.kind == "deliver"
    ]
    return random.choice(places) if places else None


def swap_deliveries(draft: DraftRun, random: Random) -> None:
    """Two neighbouring deliveries of one node change places."""
    if found := _some_delivery(draft, random):
        log, place = found
        later = [i for i in range(place + 1, len(log)) if log[i].kind == "deliver"]
        if later:
            log[place], log[later[0]] = log[later[0]], log[place]


def delay_delivery(draft: DraftRun, random: Random) -> None:
    """A delivery happens later than it should."""
    if found := _some_delivery(draft, random):
        log, place = found
        log.insert(random.randint(place, len(log) - 1), log.pop(place))


def hurry_delivery(draft: DraftRun, random: Random) -> None:
    """A delivery happens earlier than it can: before its causes, or before it was published."""
    if found := _some_delivery(draft, random):
        log, place = found
        log.insert(random.randint(0, place), log.pop(place))


def lose_delivery(draft: DraftRun, random: Random) -> None:
    """A delivery never happens."""
    if found := _some_delivery(draft, random):
        log, place = found
        del log[place]


def repeat_delivery(draft: DraftRun, random: Random) -> None:
    """A message is delivered twice."""
    if found := _some_delivery(draft, random):
        log, place = found
        row = log[place]
        copy = DraftRow("deliver", row.message, row.group, row.at_us + 1)
        log.insert(random.randint(place + 1, len(log)), copy)


def invent_delivery(draft: DraftRun, random: Random) -> None:
    """A node delivers what nobody published."""
    if found := _some_delivery(draft, random):
        log, place = found
        unknown = message_id(random.choice(sorted(draft.logs)), 1_000_000)
        log.insert(place, DraftRow("deliver", unknown, log[place].group, log[place].at_us))


def mislabel_delivery(draft: DraftRun, random: Random) -> None:
    """A delivery names a group to which the message was not published."""
    if found := _some_delivery(draft, random):
        log, place = found
        group = log[place].group
        assert group is not None
        log[place] = DraftRow("deliver", log[place].message, group + 1, log[place].at_us)


def deliver_own_before_publish(draft: DraftRun, random: Random) -> None:
    """A publisher delivers its message before it publishes it."""
    log = random.choice(list(draft.logs.values()))
    for place, row in enumerate(log):
        if row.kind == "publish":
            own = [i for i, r in enumerate(log) if r.kind == "deliver" and r.message == row.message]
            if own and own[0] > place:
                log.insert(place, log.pop(own[0]))
                return


def deliver_at_a_stranger(draft: DraftRun, random: Random) -> None:
    """Somebody delivers a message, whether it is a member or not."""
    if found := _some_delivery(draft, random):
        log, place = found
        row = log[place]
        other = random.choice(list(draft.logs.values()))
        copy = DraftRow("deliver", row.message, row.group, row.at_us)
        other.insert(random.randint(0, len(other)), copy)


def deliver_after_leave(draft: DraftRun, random: Random) -> None:
    """A node that has left still delivers."""
    for log in draft.logs.values():
        left = [i for i, row in enumerate(log) if row.kind == "leave"]
        if left:
            before = [i for i in range(left[0]) if log[i].kind == "deliver"]
            if before:
                log.insert(left[0], log.pop(random.choice(before)))
                return


DAMAGES: list[Callable[[DraftRun, Random], None]] = [
    swap_deliveries,
    delay_delivery,
    hurry_delivery,
    lose_delivery,
    repeat_delivery,
    invent_delivery,
    mislabel_delivery,
    deliver_own_before_publish,
    deliver_at_a_stranger,
    deliver_after_leave,
]
