"""A simulated run: all nodes, the loop that lets events happen to them, and every fault.

The same seed gives the same run, byte for byte: nothing here iterates over a set or asks a clock.
"""

from typing import final

from causalcast.core.blueprint import Blueprint
from causalcast.core.ids import NodeId
from causalcast.core.stack import MULTICAST
from causalcast.simulator.worlds.linked_world import (
    Arrival,
    EncodedArrival,
    LinkedWorld,
    NetworkPlan,
    Passage,
    pair,
)
from causalcast.simulator.worlds.sim_node import Expiry, SimNode
from causalcast.simulator.worlds.steps import CRASH, NOTE, Call
from causalcast.trace.recorder import Recorder
from causalcast.wire.codec import Codec


@final
class Simulation(LinkedWorld):
    """All nodes of a run and what happens to them."""

    def __init__(
        self,
        blueprint: Blueprint,
        network: NetworkPlan,
        seed: str,
        recorder: Recorder,
        codec: Codec,
    ) -> None:
        super().__init__(blueprint, network, seed, recorder, codec)
        self._suspicions: dict[tuple[NodeId, NodeId], None] = {}  # (who, whom), by fault
        self._hanging: dict[NodeId, None] = {}
        self.started_us = 0  # when the overlay was there, and what a scenario plans began

    # Building

    def start(self, absent: list[NodeId]) -> None:
        """Start everybody but the `absent`; the links of the overlay stand from the beginning."""
        self._standing_dials = []
        for node in self.nodes:
            if node.me not in absent:
                self.start_node(node.me, None)
        dials, self._standing_dials = self._standing_dials, None
        self.stand_links(dials)

    def grow(self, absent: list[NodeId], every_us: int, settle_us: int) -> None:
        """Let everybody but the `absent` join, one after the other, and let the overlay settle."""
        present = [node.me for node in self.nodes if node.me not in absent]
        for place, me in enumerate(present):
            self._plan_join(me, place * every_us)
        self.run(len(present) * every_us + settle_us)
        self.started_us = self.now

    def _plan_join(self, me: NodeId, at: int) -> None:
        self.plan(at, lambda: self.join_in_turn(me))

    # The loop

    def run(self, until: int) -> None:
        """Let everything happen that happens by `until`."""
        schedule = self.schedule
        out = self.out
        takes_short_way = not self.looks_at_messages() and not self.invariants
        # The lists of the outbox are emptied, never replaced.
        notices, requests, effects, records = out.notices, out.requests, out.effects, out.records
        while schedule.turn_to(until):
            events = schedule.open
            position = schedule.position
            while position < len(events):  # it may grow meanwhile
                event = events[position]
                at = event.at
                if at > until:
                    break
                position += 1
                schedule.position = position
                self.now = out.now = at
                if isinstance(event, Arrival):
                    channel = event.channel
                    if takes_short_way and channel.smooth:  # the same as `arrive`, without a look
                        self.messages_handled += 1
                        out.layer = MULTICAST
                        channel.multicast.on_message(channel.source, event.message, out)
                        if notices or requests:
                            channel.receiver.stack.settle(out)
                        if effects or records:
                            self.finish(channel.receiver, None)
                    else:
                        self.arrive(event)
                elif isinstance(event, Expiry):
                    self.expire(event)
                elif isinstance(event, EncodedArrival):
                    self.arrive(event)
                else:
                    event.happen()
        self.now = out.now = until

    def is_idle(self) -> bool:
        """Whether nothing is left to happen."""
        return not self.schedule.pending()

    # What the scenario does

    def pause(self, me: NodeId) -> None:
        """The node stands still; what reaches it waits."""
        node = self.nodes[me]
        if not node.up or node.paused is not None:
            self.count("fault_skipped")
            return
        self.count("pause")
        node.paused = []
        self._refresh_incoming(node)

    def resume(self, me: NodeId) -> None:
        """The node goes on, with everything that waited, in its order."""
        node = self.nodes[me]
        if node.paused is None:
            return
        waiting = node.paused
        node.paused = None
        self._refresh_incoming(node)
        for event in waiting:  # at once: what arrives in this very instant must not overtake it
            if isinstance(event, Passage):
                self.arrive(event)
            elif isinstance(event, Expiry):
                self.expire(event)
            else:
                event.happen()

    def hang(self, me: NodeId, keep: float) -> None:
        """The node stops, and nobody hears that its links are gone, as when a machine freezes.

        Of what it had sent, the first `keep` of each link still arrives. After a while detectors
        notice its silence; nothing else ever tells the others.
        """
        node = self.nodes[me]
        if not node.up:
            self.count("fault_skipped")
            return
        self.count("hang")
        self.recorder.add(me, self.now, CRASH)
        node.up = False
        self._hanging[me] = None
        self._lose_under_way(node, keep)
        node.forget_volatile()
        self.plan(self.now + self.network.detection_us, lambda: self._notice_silence(me))

    def recover(self, me: NodeId) -> NodeId:
        """The node comes back; who had noticed its silence hears it again."""
        now_called = super().recover(me)
        if me in self._hanging:
            del self._hanging[me]
            self.trust(me, None)
        return now_called

    def _notice_silence(self, me: NodeId) -> None:
        for node in self.nodes:
            if me in node.channels:
                self._doubt(node, me)

    def _doubt(self, watcher: SimNode, silent: NodeId) -> None:
        if watcher.paused is not None:
            watcher.paused.append(Call(lambda: self._doubt(watcher, silent)))
        elif not self.nodes[silent].up:
            self.suspect(silent, watcher.me)

    def suspect(self, whom: NodeId, by: NodeId | None) -> None:
        """Let `by`, or everybody with a link to `whom`, suspect it until told otherwise."""
        for watcher in self._watchers(whom, by):
            self.count("suspect")
            self._suspicions[watcher.me, whom] = None
            watcher.stack.suspect(whom, self.out)
            self.finish(watcher, None)

    def trust(self, whom: NodeId, by: NodeId | None) -> None:
        """End suspicions of `whom` that a fault had raised; of one that hangs they stay."""
        if whom in self._hanging and not self.nodes[whom].up:
            return
        for who, suspected in list(self._suspicions):
            if suspected == whom and by in (None, who):
                del self._suspicions[who, suspected]
                watcher = self.nodes[who]
                if watcher.up:
                    watcher.stack.trust(whom, self.out)
                    self.finish(watcher, None)

    def delay(self, a: NodeId, b: NodeId, extra_us: int) -> None:
        """Messages between `a` and `b` take longer from now on."""
        self.count("delay")
        self._delays[pair(a, b)] = extra_us
        self._refresh(a, b)

    def cut(self, a: NodeId, b: NodeId, loud: bool) -> None:
        """Nothing passes between `a` and `b` any more; loudly, both ends hear of it."""
        self.count("cut")
        self._cuts[pair(a, b)] = None
        self._refresh(a, b)
        if loud:
            self._announce_loss(a, b)

    def partition(self, sides: list[list[NodeId]], loud: bool) -> None:
        """Nothing passes between the sides; nodes that are named in none stand on the first."""
        self.count("partition")
        self._sides = {node: number for number, side in enumerate(sides) for node in side}
        for a, b in self._linked_pairs():
            self._refresh(a, b)
            if loud and self._is_cut(a, b):
                self._announce_loss(a, b)

    def heal(self, a: NodeId | None, b: NodeId | None) -> None:
        """End the cut between `a` and `b`, or every cut and partition."""
        if a is None or b is None:
            self._cuts = {}
            self._sides = {}
            for one, other in self._linked_pairs():
                self._refresh(one, other)
        else:
            self._cuts.pop(pair(a, b), None)
            self._refresh(a, b)

    def sample_state(self, every_us: int, until_us: int) -> None:
        """From time to time note how much each node keeps."""

        def sample() -> None:
            for node in self.nodes:
                if node.up:
                    size = sum(automaton.state_size() for automaton in node.stack.layers)
                    self.recorder.add(node.me, self.now, NOTE, value=size, note="state")
            if self.now + every_us <= until_us:
                self.plan(self.now + every_us, sample)

        self.plan(self.now, sample)

    def calm_down(self) -> None:
        """End every fault that lasts or is still to come: nothing bad happens from now on."""
        self.heal(None, None)
        for a, b in list(self._delays):
            self._delays.pop((a, b))
            self._refresh(a, b)
        for who, whom in list(self._suspicions):
            self.trust(whom, who)
        for node in self.nodes:
            node.crash_after = None
            self.resume(node.me)

    # Small things

    def _refresh_incoming(self, node: SimNode) -> None:
        for channel in node.channels.values():
            channel.back.refresh()

    def _watchers(self, whom: NodeId, by: NodeId | None) -> list[SimNode]:
        if by is not None:
            found = [self.nodes[by]]
        else:
            found = [node for node in self.nodes if whom in node.channels]
        return [node for node in found if node.up and node.paused is None]
