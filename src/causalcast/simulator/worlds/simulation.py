"""A simulated run: all nodes, the loop that lets events happen to them, and what they ask for.

The same seed gives the same run, byte for byte: nothing here iterates over a set or asks a clock.
"""

from collections.abc import Callable
from typing import final

from causalcast.core.blueprint import Blueprint
from causalcast.core.effects import CancelTimer, CloseLink, OpenLink, Send, StartTimer
from causalcast.core.ids import ANY_LINK, NodeId
from causalcast.core.stack import MULTICAST
from causalcast.core.world_facts import NOBODY
from causalcast.simulator.worlds.congestion import Congestion
from causalcast.simulator.worlds.doubts import Doubts
from causalcast.simulator.worlds.link_faults import LinkFaults
from causalcast.simulator.worlds.links import Links
from causalcast.simulator.worlds.network import NetworkPlan
from causalcast.simulator.worlds.obstacles import Obstacles
from causalcast.simulator.worlds.schedule import Schedule
from causalcast.simulator.worlds.sim_node import Expiry, SimNode
from causalcast.simulator.worlds.simulated_world import SimulatedWorld
from causalcast.simulator.worlds.steps import NOTE, Call
from causalcast.simulator.worlds.traffic import Arrival, EncodedArrival, Passage, Traffic
from causalcast.simulator.worlds.world_plan import WorldPlan
from causalcast.trace.recorder import Recorder
from causalcast.wire.forms import Forms


@final
class Simulation(SimulatedWorld):
    """All nodes of a run, the network between them, and what is still to happen."""

    def __init__(
        self,
        blueprint: Blueprint,
        network: NetworkPlan,
        plan: WorldPlan,
        seed: str,
        recorder: Recorder,
        codec: Forms,
    ) -> None:
        super().__init__(blueprint, plan, seed, recorder, codec, network.sync_us)
        self.network = network
        self.schedule = Schedule(network.tick_us)
        self.traffic = Traffic(self.shared, self.steps, self.schedule, network, seed)
        obstacles = Obstacles()
        self.links = Links(self.shared, self.steps, self, self.traffic, obstacles, network)
        self.link_faults = LinkFaults(self.shared, self.links, obstacles)
        self.doubts = Doubts(self.shared, self.steps, self, self.traffic, network.detection_us)
        self.started_us = 0  # when the overlay was there, and what a scenario plans began
        self._latency = network.latency
        self._is_careful = self.traffic.is_careful
        self._congestion = Congestion(self.shared, network.bandwidth, seed)

    # Building

    def start(self, absent: list[NodeId]) -> None:
        """Start everybody but the `absent`; the links of the overlay stand from the beginning."""
        self.links.begin()
        for node in self.nodes:
            if node.me not in absent:
                self.lives.start_node(node.me, None)
        self.links.stand()

    def grow(self, absent: list[NodeId], every_us: int, settle_us: int) -> None:
        """Let everybody but the `absent` join, one after the other, and let the overlay settle."""
        present = [node.me for node in self.nodes if node.me not in absent]
        for place, me in enumerate(present):
            self._plan_join(me, place * every_us)
        self.run(len(present) * every_us + settle_us)
        self.started_us = self.out.now

    def _plan_join(self, me: NodeId, at: int) -> None:
        self.plan(at, lambda: self.lives.join_in_turn(me))

    # The loop

    def run(self, until: int) -> None:
        """Let everything happen that happens by `until`."""
        schedule, out, shared = self.schedule, self.out, self.shared
        steps, traffic = self.steps, self.traffic
        takes_short_way = not self.traffic.looks_at_messages() and not steps.invariants
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
                out.now = at
                if isinstance(event, Arrival):
                    channel = event.channel
                    if takes_short_way and channel.smooth:  # the same as `arrive`, without a look
                        shared.messages_handled += 1
                        out.layer = MULTICAST
                        channel.multicast.on_message(channel.source, event.message, out)
                        if notices or requests:
                            channel.receiver.stack.settle(out)
                        if effects or records:
                            steps.finish(channel.receiver, None)
                    else:
                        traffic.arrive(event)
                elif isinstance(event, Expiry):
                    self._expire(event)
                elif isinstance(event, EncodedArrival):
                    traffic.arrive(event)
                else:
                    event.happen()
        out.now = until

    def is_idle(self) -> bool:
        """Whether nothing is left to happen."""
        return not self.schedule.pending()

    def plan(self, at: int, action: Callable[[], None]) -> None:
        self.schedule.plan(max(at, self.out.now), Call(action))

    # What nodes ask for

    def send(self, node: NodeId, effect: Send) -> None:
        sender = self.nodes[node]
        channel = sender.channel_to(effect.to)
        if channel is None or (effect.link != ANY_LINK and effect.link != channel.link):
            self.links.send_later(sender, effect)
        elif self._is_careful or not channel.smooth or effect.layer != MULTICAST:
            self.traffic.send_carefully(sender, effect, channel)
        else:
            drawn = self._latency.drawn
            at = self.out.now + channel.fixed + (drawn.pop() if drawn else self._latency.draw())
            self.traffic.plan_arrival(Arrival(channel, effect.message), at)

    def open_link(self, node: NodeId, effect: OpenLink) -> None:
        self.links.dial(self.nodes[node], effect.to)

    def close_link(self, node: NodeId, effect: CloseLink) -> None:
        self.links.close(node, effect.to)

    def start_timer(self, node: NodeId, effect: StartTimer) -> None:
        owner = self.nodes[node]
        key = (effect.layer, effect.name, effect.subject)
        before = owner.timers.get(key)
        if before is not None:
            before.cancelled = True
        expiry = Expiry(owner, effect.layer, effect.name, effect.subject)
        owner.timers[key] = expiry
        self.schedule.plan(self.out.now + effect.after, expiry)

    def cancel_timer(self, node: NodeId, effect: CancelTimer) -> None:
        expiry = self.nodes[node].timers.pop((effect.layer, effect.name, effect.subject), None)
        if expiry is not None:
            expiry.cancelled = True

    def _expire(self, expiry: Expiry) -> None:
        if expiry.cancelled:
            return
        node = expiry.node
        if node.paused is not None:
            node.paused.append(expiry)
            return
        del node.timers[expiry.layer, expiry.name, expiry.subject]
        self.out.world.congested = self._congestion.around(node)
        node.stack.expire(expiry.layer, expiry.name, expiry.subject, self.out)
        self.out.world.congested = NOBODY
        self.steps.finish(node, None)

    # What its parts ask for

    def sever(self, node: SimNode, reason: str, keep: float) -> None:
        self.links.sever(node, reason, keep)

    def came_back(self, me: NodeId) -> None:
        self.doubts.end_silence(me)

    # What the scenario does

    def pause(self, me: NodeId) -> None:
        """The node stands still; what reaches it waits."""
        node = self.nodes[me]
        if not node.up or node.paused is not None:
            self.shared.count("fault_skipped")
            return
        self.shared.count("pause")
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
                self.traffic.arrive(event)
            elif isinstance(event, Expiry):
                self._expire(event)
            else:
                event.happen()

    def sample_state(self, every_us: int, until_us: int) -> None:
        """From time to time note how much each node keeps."""

        def sample() -> None:
            for node in self.nodes:
                if node.up:
                    size = sum(automaton.state_size() for automaton in node.stack.layers)
                    self.shared.recorder.add(node.me, self.out.now, NOTE, value=size, note="state")
            if self.out.now + every_us <= until_us:
                self.plan(self.out.now + every_us, sample)

        self.plan(self.out.now, sample)

    def calm_down(self) -> None:
        """End every fault that lasts or is still to come: nothing bad happens from now on."""
        self.link_faults.end_all()
        self.doubts.end_all()
        self._congestion.end()
        for node in self.nodes:
            node.crash_after = None
            self.resume(node.me)

    def _refresh_incoming(self, node: SimNode) -> None:
        for channel in node.channels.values():
            channel.back.refresh()
