"""The life of simulated nodes: they start, publish, crash, come back, join and leave groups.

What lies between the nodes is not known here: a crash or a return means the same in every world.
"""

import random
from typing import Final, final

from causalcast.core.blueprint import Blueprint
from causalcast.core.ids import GroupId, NodeId, message_id
from causalcast.core.message import Publication
from causalcast.core.outbox import Record
from causalcast.core.stack import Stack
from causalcast.simulator.worlds.shared_state import SharedState
from causalcast.simulator.worlds.sim_node import SimNode
from causalcast.simulator.worlds.steps import LEAVE, PlanningWorld, Steps
from causalcast.trace.recorder import code_of

CRASH: Final = code_of("crash")
RECOVER: Final = code_of("recover")


@final
class Lives:
    """Nodes made from one blueprint, and what can happen to each of them."""

    def __init__(
        self,
        shared: SharedState,
        steps: Steps,
        world: PlanningWorld,
        blueprint: Blueprint,
        seed: str,
    ) -> None:
        self._shared = shared
        self._nodes = shared.nodes
        self._out = shared.out
        self._steps = steps
        self._world = world
        self._blueprint = blueprint
        self._seed = seed
        self._contact_rng = random.Random(f"{seed}/contacts")
        self.publications = 0

    def add_node(self, place: NodeId, newcomer: bool = False) -> SimNode:
        """A new node, not started yet, in `place` of the graph."""
        me = NodeId(len(self._nodes))
        node = SimNode(me, place, self._build(me, place, 0, newcomer))
        node.degree = len(self._blueprint.topology.neighbours[place])
        self._nodes.append(node)
        self._world.added(node)
        return node

    def start_node(self, me: NodeId, via: NodeId | None) -> None:
        """Start a node for the first time, through a contact where one is given."""
        node = self._nodes[me]
        node.up = node.came = True
        node.stack.groups = node.groups
        node.stack.start(self._out)
        self._steps.finish(node, None)
        if via is not None:
            node.stack.join(via, self._out)
            self._steps.finish(node, None)

    def publish(self, me: NodeId, group: GroupId, body: bytes) -> bool:
        """Let a node publish; False if it is down or stands still."""
        node = self._nodes[me]
        if not node.up or node.paused is not None:
            self._shared.count("publication_skipped")
            return False
        if node.stack.multicast.refusal(group, joining=False):
            self._shared.count("publication_refused")
            return False
        node.published += 1
        self.publications += 1
        publication = Publication(message_id(me, node.published), group, body)
        node.stack.publish(publication, self._out)
        self._steps.finish(node, publication)
        return True

    def crash(self, me: NodeId, keep: float) -> None:
        """The node stops; of what it had sent, the first `keep` of each link still arrives."""
        node = self._nodes[me]
        if not node.up:
            self._shared.count("fault_skipped")
            return
        self._shared.count("crash")
        self._shared.recorder.add(me, self._out.now, CRASH)
        node.up = False
        self._world.sever(node, "crashed", keep)
        node.forget_volatile()

    def crash_in_next_step(self, me: NodeId, after_effects: int) -> None:
        """The node stops in the middle of its next step."""
        node = self._nodes[me]
        if node.up:
            node.crash_after = after_effects
        else:
            self._shared.count("fault_skipped")

    def recover(self, me: NodeId) -> NodeId:
        """The node comes back; the id under which it does is returned."""
        node = self._nodes[me]
        reborn = self._blueprint.protocol.restart == "reborn"
        has_its_past = reborn or self._shared.plan.keeps_records
        if node.up or node.left or not node.came or not has_its_past:
            self._shared.count("fault_skipped")
            return me
        node.gone = False  # it does come back, whatever was said
        self._shared.count("recover")
        if reborn:
            now_called = self._be_reborn(node)
            self._world.came_back(me)
            return now_called
        self._shared.recorder.add(me, self._out.now, RECOVER)
        node.lives += 1
        node.up = True
        node.stack = self._build(me, node.place, node.lives)
        node.stack.groups = node.groups
        records = [
            Record(layer, self._shared.codec.decode(data)[1]) for layer, data in node.disk.records
        ]
        node.stack.recover(records, self._out)
        self._steps.finish(node, None)
        self._world.came_back(me)
        return me

    def command(self, me: NodeId, words: str) -> bool:
        """An operator tells a node to do something; False if it cannot be carried out."""
        node = self._nodes[me]
        command = self._blueprint.command(words)
        if not node.up or node.paused is not None or node.stack.multicast.objection(command):
            self._shared.count("fault_skipped")
            return False
        if self._blueprint.protocol.commands[command.name].gives_up:
            self._shared.count("gone")
            self._nodes[command.arguments[0]].gone = True
        else:
            self._shared.count("order")
        node.stack.command(command, self._out)
        self._steps.finish(node, None)
        return True

    def repeat_orders(self) -> None:
        """Whoever said that a node never comes back says it again, everywhere: the first time it
        may have been lost in a crash."""
        if not self._blueprint.protocol.agrees_on_members:
            return
        for gone in [node for node in self._nodes if node.gone and not node.up]:
            for node in list(self._nodes):
                if node.up:
                    self.command(node.me, f"gone {gone.me}")

    def join_again(self) -> None:
        """A node that came through somebody who died before it heard of others asks another one, as
        real nodes ask their contacts until they take part. Of HyParView that is not expected: an
        overlay that mends itself may fall into parts, and is judged part by part."""
        if not self._blueprint.overlay.complete:
            return
        for node in list(self._nodes):
            if node.up and not node.gone and not node.stack.multicast.takes_part():
                contact = self._contact_for(node.me, None)
                if contact is not None:
                    node.stack.join(contact, self._out)
                    self._steps.finish(node, None)

    def compact(self, me: NodeId) -> None:
        """Replace the records of each layer that offers a snapshot by that snapshot."""
        node = self._nodes[me]
        if not node.up or node.disk.waiting:
            self._shared.count("fault_skipped")
            return
        self._shared.count("compact")
        records = node.disk.records
        for layer, automaton in enumerate(node.stack.layers):
            snapshot = automaton.snapshot()
            if snapshot is not None:
                records = [record for record in records if record[0] != layer]
                records += [(layer, self._shared.codec.encode(message)) for message in snapshot]
        node.disk.records = records

    def _be_reborn(self, dead: SimNode) -> NodeId:
        """Come back as somebody new, in the same place and the same groups."""
        dead.left = True
        node = self.add_node(dead.place, True)
        self.start_node(node.me, self._contact_for(node.me, None))
        for group in dead.groups:
            self.join_group(node.me, group)
            self._steps.flush(node)
        return node.me

    def enter(self, me: NodeId, via: NodeId | None) -> None:
        """A node that was absent so far comes, as a late member of its groups."""
        node = self._nodes[me]
        if node.came:
            self._shared.count("fault_skipped")
            return
        self._shared.count("join")
        groups, node.groups = node.groups, {}
        node.lives += 1
        node.stack = self._build(me, node.place, node.lives, True)
        self.start_node(me, self._contact_for(me, via))
        for group in groups:
            self.join_group(me, group)
            self._steps.flush(node)

    def leave(self, me: NodeId) -> None:
        """The node leaves the overlay and the run in good order."""
        node = self._nodes[me]
        if not node.up:
            self._shared.count("fault_skipped")
            return
        self._shared.count("leave")
        self._steps.flush(node)
        for group in list(node.groups):
            self.leave_group(me, group)
            self._steps.flush(node)
            if self._fell(node):  # in the middle of that step
                return
        node.stack.leave(self._out)
        self._steps.finish(node, None)
        self._steps.flush(node)
        if self._fell(node):
            return
        self._shared.recorder.add(me, self._out.now, LEAVE)
        node.up = False
        node.left = True
        self._world.sever(node, "closed", 1.0)
        node.forget_volatile()

    def _fell(self, node: SimNode) -> bool:
        return not node.up

    def join_group(self, me: NodeId, group: GroupId) -> None:
        """The node becomes a member during the run, or asks to, as soon as that is durable."""
        node = self._nodes[me]
        is_asked_for = group in node.groups or node.stack.is_joining(group)
        if not node.up or is_asked_for or self._is_changing(node):
            self._shared.count("fault_skipped")
            return
        if node.stack.multicast.refusal(group, joining=True):
            self._shared.count("join_refused")
            return
        self._shared.count("join_group")
        node.stack.join_group(group, self._out)
        self._steps.finish(node, None)

    def leave_group(self, me: NodeId, group: GroupId) -> None:
        """The node is no member any more, and asks for it no longer, as soon as that is durable."""
        node = self._nodes[me]
        is_asked_for = group in node.groups or node.stack.is_joining(group)
        if not node.up or not is_asked_for or self._is_changing(node):
            self._shared.count("fault_skipped")
            return
        self._shared.count("leave_group" if group in node.groups else "join_withdrawn")
        self._steps.leaving = group if group in node.groups else None
        node.stack.leave_group(group, self._out)
        self._steps.finish(node, None)

    def _is_changing(self, node: SimNode) -> bool:
        """Whether a change of its groups still waits for the disk."""
        entries = [entry for entry, _ in node.disk.waiting if entry is not None]
        return any(entry.joined or entry.left is not None for entry in entries)

    def join_in_turn(self, me: NodeId) -> None:
        """A founder of an overlay that nodes join one after the other: the first one is there
        alone, each later one comes through one that is there already."""
        newcomer = any(node.up for node in self._nodes)
        node = self._nodes[me]
        if newcomer:
            node.stack = self._build(me, node.place, node.lives, True)
        self.start_node(me, self._contact_for(me, None))

    def _contact_for(self, me: NodeId, via: NodeId | None) -> NodeId | None:
        """Through whom a newcomer joins; on a graph that is given it needs nobody."""
        if via is not None or self._blueprint.overlay.static:
            return via
        others = [node.me for node in self._nodes if node.up and node.me != me]
        return self._contact_rng.choice(others) if others else None

    def _build(self, me: NodeId, place: NodeId, lives: int, newcomer: bool = False) -> Stack:
        return self._blueprint.build(me, f"{self._seed}/{lives}", place, newcomer)
