"""Steps of simulated nodes: what one asks for happens when it is over, the disk first.

This part of the world knows nodes, time, timers, disks and the trace; `living_world` adds what can
happen to a node, `linked_world` the network, `simulation` the faults of links and the loop.
"""

from collections.abc import Callable
from typing import Final, final

from causalcast.core.effects import (
    Belief,
    CancelTimer,
    Deliver,
    Duplicate,
    Effect,
    Hold,
    Joined,
    Note,
    Release,
    Stable,
    StartTimer,
)
from causalcast.core.ids import GroupId, NodeId
from causalcast.core.message import Publication
from causalcast.core.outbox import Outbox
from causalcast.core.spec import Invariant
from causalcast.core.world import World, is_timer, perform
from causalcast.simulator.worlds.schedule import Event, Schedule
from causalcast.simulator.worlds.sim_node import Entry, Expiry, SimNode
from causalcast.trace.recorder import NONE, Recorder, code_of
from causalcast.wire.codec import Codec, Description

PUBLISH: Final = code_of("publish")
DELIVER: Final = code_of("deliver")
SEND: Final = code_of("send")
RECEIVE: Final = code_of("receive")
DUPLICATE: Final = code_of("duplicate")
HOLD: Final = code_of("hold")
RELEASE: Final = code_of("release")
DROP: Final = code_of("drop")
CRASH: Final = code_of("crash")
RECOVER: Final = code_of("recover")
JOIN: Final = code_of("join")
LEAVE: Final = code_of("leave")
SUSPECT: Final = code_of("suspect")
TRUST: Final = code_of("trust")
NOTE: Final = code_of("note")


@final
class Call(Event):
    """Anything else: a dial, a fault, a publication."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self.action = action

    def happen(self) -> None:
        self.action()


class SteppingWorld(World):
    """Nodes that take steps, one at a time."""

    def __init__(self, recorder: Recorder, codec: Codec, sync_us: int, tick_us: int) -> None:
        self.now = 0
        self.nodes: list[SimNode] = []
        self.messages_handled = 0
        self.most_messages = 0  # so many may be handled; 0: no limit
        self.schedule = Schedule(tick_us)
        self.recorder = recorder
        self.codec = codec
        self.fired: dict[str, int] = {}  # how often each kind of fault, and each note, happened
        self.out = Outbox()
        self.leaving: GroupId | None = None  # by the step that is going on
        self.listener: Callable[[NodeId, Publication], None] | None = None  # hears of deliveries
        self.invariants: list[Invariant] = []  # must hold after every step
        self.broken: list[str] = []  # those that did not, and where
        self._sync_us = sync_us
        self.out.tells_duplicates = recorder.wants[DUPLICATE]

    def plan(self, at: int, action: Callable[[], None]) -> None:
        """Let `action` happen at `at`."""
        self.schedule.plan(max(at, self.now), Call(action))

    def count_message(self) -> None:
        """One more message is handled; a protocol that goes on for ever is stopped."""
        self.messages_handled += 1
        if self.most_messages and self.messages_handled > self.most_messages:
            raise AssertionError("a storm")  # also where asserts are left out

    def count(self, kind: str) -> None:
        """One more of that kind happened."""
        self.fired[kind] = self.fired.get(kind, 0) + 1

    def links_of(self, me: NodeId) -> list[NodeId]:
        """The peers to which the node knows a link."""
        return list(self.nodes[me].channels)

    def record_frame(self, kind: int, node: NodeId, peer: NodeId, about: Description) -> None:
        """A frame left for `peer`, or came from there."""
        self.recorder.add(
            node,
            self.now,
            kind,
            about.message,
            about.group,
            peer,
            about.payload_bytes,
            about.metadata_bytes,
            about.clock_entries,
            note=about.name,
        )

    def drop(self, node: NodeId, peer: NodeId, reason: str) -> None:
        """A frame was lost or refused."""
        self.recorder.add(node, self.now, DROP, peer=peer, note=reason)

    def crash(self, me: NodeId, keep: float) -> None:
        """The node stops; of what it had sent, the first `keep` of each link still arrives."""
        raise AssertionError("a simulation must know how to crash nodes")

    # Steps

    def finish(self, node: SimNode, publication: Publication | None) -> None:
        """Let the effects of a step happen: its durable entry first."""
        assert node.up  # who is down takes no steps
        out = self.out
        effects = out.effects
        if node.crash_after is not None and self._does_something(publication):
            self._finish_half(node, publication, effects)
        elif self._sync_us > 0:
            self._finish_slowly(node, publication, effects)
        else:
            entry = self._take_entry(publication)
            if entry is not None:
                self._make_durable(node, entry)
            perform(effects, node.me, self)  # starts no step, so nothing is added meanwhile
            if entry is not None:
                self._conclude(node, entry)
        effects.clear()
        if self.invariants:
            self._check_invariants(node)

    def _does_something(self, publication: Publication | None) -> bool:
        out = self.out
        some = bool(out.effects or out.records) or self.leaving is not None
        return some or publication is not None

    def _check_invariants(self, node: SimNode) -> None:
        for invariant in self.invariants:
            if node.up and not invariant(node.stack.multicast):
                name = invariant.__name__
                self.count(f"broken.{name}")
                self.broken.append(f"{name} at node {node.me}")
                self.recorder.add(node.me, self.now, NOTE, note=f"broken invariant {name}")

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
            perform([e for e in effects if isinstance(e, (Deliver, Joined))], node.me, self)
            effects = [e for e in effects if not isinstance(e, (Deliver, Joined))]
            self._conclude(node, entry)
            left -= 1
        elif entry is not None:
            left = 0
        perform(effects[:left], node.me, self)
        self.count("crash_in_step")
        self.crash(node.me, 1.0)

    def _finish_slowly(
        self, node: SimNode, publication: Publication | None, effects: list[Effect]
    ) -> None:
        """Timers act at once; what others can see waits for the disk, in the order of steps."""
        visible = [effect for effect in effects if not is_timer(effect)]
        perform([effect for effect in effects if is_timer(effect)], node.me, self)
        entry = self._take_entry(publication)
        if entry is None and not node.disk.waiting:
            perform(visible, node.me, self)
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
        self.plan(self.now + (0 if entry is None else self._sync_us), synced)

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
        perform(visible, node.me, self)
        if entry is not None:
            self._conclude(node, entry)

    def _take_entry(self, publication: Publication | None) -> Entry | None:
        records, joins = self.out.records, self.out.joins
        if publication is None and not records and not joins and self.leaving is None:
            return None
        encoded = [(record.layer, self.codec.encode(record.message)) for record in records]
        records.clear()
        entry = Entry(publication, encoded)
        if joins:
            entry.joined, self.out.joins = joins, []
        entry.left, self.leaving = self.leaving, None
        return entry

    def _conclude(self, node: SimNode, entry: Entry) -> None:
        """After everything else of a step: what it left, it was a member of until now."""
        if entry.left is not None:
            node.groups = {other: None for other in node.groups if other != entry.left}
            self.recorder.add(node.me, self.now, LEAVE, group=entry.left)

    def _make_durable(self, node: SimNode, entry: Entry) -> None:
        node.disk.records.extend(entry.records)
        publication = entry.publication
        if publication is not None:
            node.disk.published += 1
            self.recorder.add(
                node.me,
                self.now,
                PUBLISH,
                publication.id,
                publication.group,
                NONE,
                len(publication.body),
            )

    def expire(self, expiry: Expiry) -> None:
        if expiry.cancelled:
            return
        node = expiry.node
        if node.paused is not None:
            node.paused.append(expiry)
            return
        del node.timers[expiry.layer, expiry.name, expiry.subject]
        node.stack.expire(expiry.layer, expiry.name, expiry.subject, self.out)
        self.finish(node, None)

    # What nodes ask of this world

    def deliver(self, node: NodeId, effect: Deliver) -> None:
        publication = effect.publication
        if publication.group in self.nodes[node].groups:
            if self.listener is not None:
                self._tell_listener(node, publication)
            self.recorder.add(
                node,
                self.now,
                DELIVER,
                publication.id,
                publication.group,
                NONE,
                len(publication.body),
            )

    def joined(self, node: NodeId, effect: Joined) -> None:
        owner = self.nodes[node]
        owner.groups = {**owner.groups, effect.group: None}
        owner.stack.note_joined(effect.group)
        self.recorder.add(node, self.now, JOIN, group=effect.group)

    def _tell_listener(self, node: NodeId, publication: Publication) -> None:
        listener = self.listener
        assert listener is not None
        self.plan(self.now, lambda: listener(node, publication))  # after the step: it may publish

    def start_timer(self, node: NodeId, effect: StartTimer) -> None:
        owner = self.nodes[node]
        key = (effect.layer, effect.name, effect.subject)
        before = owner.timers.get(key)
        if before is not None:
            before.cancelled = True
        expiry = Expiry(owner, effect.layer, effect.name, effect.subject)
        owner.timers[key] = expiry
        self.schedule.plan(self.now + effect.after, expiry)

    def cancel_timer(self, node: NodeId, effect: CancelTimer) -> None:
        expiry = self.nodes[node].timers.pop((effect.layer, effect.name, effect.subject), None)
        if expiry is not None:
            expiry.cancelled = True

    def hold(self, node: NodeId, effect: Hold) -> None:
        note = f"waits for {effect.words()}"
        self.recorder.add(node, self.now, HOLD, effect.message, value=effect.waits_for, note=note)

    def release(self, node: NodeId, effect: Release) -> None:
        self.recorder.add(node, self.now, RELEASE, effect.message)

    def duplicate(self, node: NodeId, effect: Duplicate) -> None:
        self.recorder.add(node, self.now, DUPLICATE, effect.message)

    def stable(self, node: NodeId, effect: Stable) -> None:
        self.recorder.add(node, self.now, NOTE, effect.message, note="stable")

    def belief(self, node: NodeId, effect: Belief) -> None:
        self.recorder.add(node, self.now, TRUST if effect.up else SUSPECT, peer=effect.peer)

    def note(self, node: NodeId, effect: Note) -> None:
        self.count(f"note.{effect.name}")
        self.recorder.add(node, self.now, NOTE, value=effect.subject, note=effect.name)
