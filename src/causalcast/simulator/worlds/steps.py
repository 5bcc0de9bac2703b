"""Steps of simulated nodes: what one asks for happens when it is over, the disk first."""

from collections.abc import Callable
from typing import Final, final

from causalcast.core.effects import Deliver, Duplicate, Effect, Joined
from causalcast.core.ids import GroupId, NodeId
from causalcast.core.message import Message, Publication
from causalcast.core.spec import Invariant
from causalcast.core.world import World, is_timer, perform
from causalcast.simulator.worlds.schedule import Event
from causalcast.simulator.worlds.shared_state import SharedState
from causalcast.simulator.worlds.sim_node import Entry, SimNode
from causalcast.trace.kinds import NONE
from causalcast.trace.recorder import code_of

PUBLISH: Final = code_of("publish")
LEAVE: Final = code_of("leave")
NOTE: Final = code_of("note")


@final
class Call(Event):
    """Anything else: a dial, a fault, a publication."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self.action = action

    def happen(self) -> None:
        self.action()


class PlanningWorld(World):
    """What the parts of a simulated world ask of the whole, beside the effects of steps."""

    def plan(self, at: int, action: Callable[[], None]) -> None:
        """Let `action` happen at `at`."""
        raise AssertionError("a simulated world must know what is to happen when")

    def crash(self, node: SimNode, keep: float) -> None:
        """A node that is up stops; of what it had sent, the first `keep` of each link arrives."""
        raise AssertionError("a simulated world must know how nodes crash")

    def sever(self, node: SimNode, reason: str, keep: float) -> None:
        """Break all links of a node that goes down; the first `keep` of what it sent arrives."""
        raise AssertionError("a simulated world must know how links break")

    def added(self, node: SimNode) -> None:
        """A node was added; it has not started yet."""

    def came_back(self, me: NodeId) -> None:
        """A node that had crashed has recovered."""


@final
class Steps:
    """Ends the steps of nodes, one at a time: durable entries, then effects, then invariants."""

    def __init__(self, shared: SharedState, world: PlanningWorld, sync_us: int) -> None:
        self._shared = shared
        self._out = shared.out
        self._world = world
        self._sync_us = sync_us
        self.leaving: GroupId | None = None  # by the step that is going on
        self.invariants: list[Invariant] = []  # must hold after every step
        self.broken: list[str] = []  # those that did not, and where
        self.notes_touched = False  # whether somebody wants to know who took a step
        self.touched: dict[NodeId, None] = {}  # who did, since it was emptied
        self.handled: Message | None = None  # the message that the step is about, if it is
        self.observer: Callable[[SimNode, Message | None, list[Effect]], None] | None = None

    def finish(self, node: SimNode, publication: Publication | None) -> None:
        """Let the effects of a step happen: its durable entry first."""
        assert node.up  # who is down takes no steps
        effects = self._out.effects
        if self.notes_touched:
            self.touched[node.me] = None
        if self.observer is not None:
            handled, self.handled = self.handled, None
            self.observer(node, handled, effects)
        if node.crash_after is not None and self._does_something(publication):
            self._finish_half(node, publication, effects)
        elif self._sync_us > 0:
            self._finish_slowly(node, publication, effects)
        else:
            entry = self._take_entry(publication)
            if entry is not None:
                self._make_durable(node, entry)
            perform(effects, node.me, self._world)  # starts no step, so nothing is added meanwhile
            if entry is not None:
                self._conclude(node, entry)
        effects.clear()
        if self.invariants:
            self._check_invariants(node)

    def _does_something(self, publication: Publication | None) -> bool:
        out = self._out
        some = bool(out.effects or out.records) or self.leaving is not None
        return some or publication is not None

    def _check_invariants(self, node: SimNode) -> None:
        for invariant in self.invariants:
            if node.up and not invariant(node.stack.multicast):
                name = invariant.__name__
                self._shared.count(f"broken.{name}")
                self.broken.append(f"{name} at node {node.me}")
                self._shared.recorder.add(
                    node.me, self._out.now, NOTE, note=f"broken invariant {name}"
                )

    def _finish_half(
        self, node: SimNode, publication: Publication | None, effects: list[Effect]
    ) -> None:
        """The node crashes in the middle of this step; its durable entry counts as one effect."""
        assert node.crash_after is not None
        left = node.crash_after
        # Duplicates are told at some levels of the trace only, and must not shift the crash.
        effects = [effect for effect in effects if not isinstance(effect, Duplicate)]
        entry = self._take_entry(publication)
        if node.disk.waiting or (entry is not None and self._sync_us > 0):
            left = 0  # what others could see would have had to wait for the disk
        if entry is not None and left > 0:
            self._make_durable(node, entry)
            # What is in the same entry has happened.
            perform([e for e in effects if isinstance(e, (Deliver, Joined))], node.me, self._world)
            effects = [e for e in effects if not isinstance(e, (Deliver, Joined))]
            self._conclude(node, entry)
            left -= 1
        elif entry is not None:
            left = 0
        perform(effects[:left], node.me, self._world)
        self._shared.count("crash_in_step")
        self._world.crash(node, 1.0)

    def _finish_slowly(
        self, node: SimNode, publication: Publication | None, effects: list[Effect]
    ) -> None:
        """Timers act at once; what others can see waits for the disk, in the order of steps."""
        visible = [effect for effect in effects if not is_timer(effect)]
        perform([effect for effect in effects if is_timer(effect)], node.me, self._world)
        entry = self._take_entry(publication)
        if entry is None and not node.disk.waiting:
            perform(visible, node.me, self._world)
            return
        node.disk.waiting.append((entry, visible))
        if len(node.disk.waiting) == 1:
            self._sync(node)

    def _sync(self, node: SimNode) -> None:
        lives, flushed = node.lives, node.disk.flushed

        def synced() -> None:
            if node.lives != lives or not node.up or node.disk.flushed != flushed:
                return
            self._let_out(node)
            if node.disk.waiting and node.up:
                self._sync(node)

        entry = node.disk.waiting[0][0]
        self._world.plan(self._out.now + (0 if entry is None else self._sync_us), synced)

    def flush(self, node: SimNode) -> None:
        """Wait for the disk: everything that waits behind a sync happens now."""
        node.disk.flushed += 1  # the sync that is under way has nothing left to let out
        while node.disk.waiting:
            self._let_out(node)

    def _let_out(self, node: SimNode) -> None:
        """The next step's entry is durable: what others can see of it happens."""
        entry, visible = node.disk.waiting.pop(0)
        if entry is not None:
            self._make_durable(node, entry)
        perform(visible, node.me, self._world)
        if entry is not None:
            self._conclude(node, entry)

    def _take_entry(self, publication: Publication | None) -> Entry | None:
        records, joins = self._out.records, self._out.joins
        if publication is None and not records and not joins and self.leaving is None:
            return None
        encoded = [(record.layer, self._shared.codec.encode(record.message)) for record in records]
        records.clear()
        entry = Entry(publication, encoded)
        if joins:
            entry.joined, self._out.joins = joins, []
        entry.left, self.leaving = self.leaving, None
        return entry

    def _conclude(self, node: SimNode, entry: Entry) -> None:
        """After everything else of a step: what it left, it was a member of until now."""
        if entry.left is not None:
            node.groups = {other: None for other in node.groups if other != entry.left}
            self._shared.recorder.add(node.me, self._out.now, LEAVE, group=entry.left)

    def _make_durable(self, node: SimNode, entry: Entry) -> None:
        if self._out.world.keeps_records:
            node.disk.records.extend(entry.records)
        publication = entry.publication
        if publication is not None:
            node.disk.published += 1
            self._shared.recorder.add(
                node.me,
                self._out.now,
                PUBLISH,
                publication.id,
                publication.group,
                NONE,
                len(publication.body),
            )
