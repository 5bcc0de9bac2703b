"""What all simulated worlds have: nodes that take steps and live, and a trace of what they ask for.

What lies between the nodes is left to each: `simulation` puts a network with latencies there,
`directed_world` queues that somebody empties in an order of his choice.
"""

from collections.abc import Callable
from typing import Final

from causalcast.core.blueprint import Blueprint
from causalcast.core.effects import (
    Belief,
    Deliver,
    Duplicate,
    Expelled,
    Hold,
    Joined,
    Note,
    Release,
    Stable,
)
from causalcast.core.ids import GroupId, NodeId
from causalcast.core.made_groups import NEWS
from causalcast.core.message import Publication
from causalcast.simulator.worlds.lives import Lives
from causalcast.simulator.worlds.shared_state import DUPLICATE, SharedState
from causalcast.simulator.worlds.sim_node import SimNode
from causalcast.simulator.worlds.steps import NOTE, PlanningWorld, Steps
from causalcast.simulator.worlds.world_plan import WorldPlan
from causalcast.trace.kinds import NONE
from causalcast.trace.recorder import Recorder, code_of
from causalcast.wire.forms import Forms

DELIVER: Final = code_of("deliver")
HOLD: Final = code_of("hold")
RELEASE: Final = code_of("release")
JOIN: Final = code_of("join")
LEAVE: Final = code_of("leave")
SUSPECT: Final = code_of("suspect")
TRUST: Final = code_of("trust")


class SimulatedWorld(PlanningWorld):
    """Nodes, their steps and their lives, and the effects that only leave a row in the trace.

    A base class and not a part, for the sake of speed: `perform` calls the world once for every
    effect, and a part behind it would be a second call each.
    """

    def __init__(
        self,
        blueprint: Blueprint,
        plan: WorldPlan,
        seed: str,
        recorder: Recorder,
        codec: Forms,
        sync_us: int,
    ) -> None:
        self.blueprint = blueprint
        self.shared = SharedState(recorder, codec, plan)
        self.nodes = self.shared.nodes
        self.out = self.shared.out
        self.codec = codec
        self.fired = self.shared.fired
        self.steps = Steps(self.shared, self, sync_us)
        self.lives = Lives(self.shared, self.steps, self, blueprint, seed)
        self._ends = blueprint.protocol.ends
        self.listener: Callable[[NodeId, Publication], None] | None = None  # hears of deliveries
        # Hears of news of groups, in the step that delivers them.
        self.on_news: Callable[[NodeId, Publication], None] | None = None

    @property
    def now(self) -> int:
        """The time, in microseconds."""
        return self.out.now

    def links_of(self, me: NodeId) -> list[NodeId]:
        """The peers to which the node knows a link."""
        return list(self.nodes[me].channels)

    def crash(self, node: SimNode, keep: float) -> None:
        self.lives.crash(node.me, keep)

    # What nodes ask of this world

    def deliver(self, node: NodeId, effect: Deliver) -> None:
        publication = effect.publication
        if publication.group in self.nodes[node].groups:
            if self.listener is not None:
                self._tell_listener(node, publication)
            self.shared.recorder.add(
                node,
                self.out.now,
                DELIVER,
                publication.id,
                publication.group,
                NONE,
                len(publication.body),
            )
        elif publication.group == NEWS and self.on_news is not None:
            self.on_news(node, publication)

    def enter(self, node: NodeId, group: GroupId) -> None:
        """A node is a member of a group that was made now, as it was said before."""
        owner = self.nodes[node]
        owner.groups = {**owner.groups, group: None}
        owner.stack.note_joined(group)
        self.shared.recorder.add(node, self.out.now, JOIN, group=group)

    def end(self, node: NodeId, group: GroupId) -> None:
        """A group was removed: a node that was in it is so no longer."""
        owner = self.nodes[node]
        if group in owner.groups:
            owner.groups = {other: None for other in owner.groups if other != group}
            owner.stack.groups = owner.groups
            self.shared.recorder.add(node, self.out.now, LEAVE, group=group)

    def joined(self, node: NodeId, effect: Joined) -> None:
        owner = self.nodes[node]
        owner.groups = {**owner.groups, effect.group: None}
        owner.stack.note_joined(effect.group)
        self.shared.recorder.add(node, self.out.now, JOIN, group=effect.group)

    def expelled(self, node: NodeId, effect: Expelled) -> None:
        owner = self.nodes[node]
        for group in owner.groups:
            self.shared.recorder.add(node, self.out.now, LEAVE, group=group)
        owner.groups = {}
        owner.stack.note_expelled()

    def _tell_listener(self, node: NodeId, publication: Publication) -> None:
        listener = self.listener
        assert listener is not None
        self.plan(
            self.out.now, lambda: listener(node, publication)
        )  # after the step: it may publish

    def hold(self, node: NodeId, effect: Hold) -> None:
        note = f"waits for {effect.words()}"
        self.shared.recorder.add(
            node, self.out.now, HOLD, effect.message, value=effect.waits_for, note=note
        )

    def release(self, node: NodeId, effect: Release) -> None:
        self.shared.recorder.add(node, self.out.now, RELEASE, effect.message)

    def duplicate(self, node: NodeId, effect: Duplicate) -> None:
        self.shared.recorder.add(node, self.out.now, DUPLICATE, effect.message)

    def stable(self, node: NodeId, effect: Stable) -> None:
        self.shared.recorder.add(node, self.out.now, NOTE, effect.message, note="stable")

    def belief(self, node: NodeId, effect: Belief) -> None:
        self.shared.recorder.add(
            node, self.out.now, TRUST if effect.up else SUSPECT, peer=effect.peer
        )

    def note(self, node: NodeId, effect: Note) -> None:
        self.shared.count(f"note.{effect.name}")
        self.shared.recorder.add(node, self.out.now, NOTE, value=effect.subject, note=effect.name)
        if effect.name in self._ends:
            self.plan(self.out.now, lambda: self.lives.crash(node, 1.0))
