"""Messages under way between simulated nodes: lost, doubled, late, and arriving."""

import random
from typing import Final, final

from mypy_extensions import mypyc_attr

from causalcast.core.effects import Send
from causalcast.core.ids import NodeId
from causalcast.core.message import Message
from causalcast.core.stack import MULTICAST
from causalcast.simulator.worlds.network import NetworkPlan
from causalcast.simulator.worlds.reading import hand_over, in_layered_runs
from causalcast.simulator.worlds.schedule import Event, Schedule
from causalcast.simulator.worlds.shared_state import SharedState
from causalcast.simulator.worlds.sim_node import Channel, SimNode
from causalcast.simulator.worlds.steps import Call, Steps
from causalcast.trace.recorder import code_of
from causalcast.wire.forms import Description, Forms
from causalcast.wire.framing import LENGTH_BYTES

SEND: Final = code_of("send")
RECEIVE: Final = code_of("receive")


@mypyc_attr(acyclic=True)  # many are made: the garbage collector need not look at them
class Passage(Event):
    """A message on its way through a channel."""

    __slots__ = ("channel", "message")

    def __init__(self, channel: Channel, message: Message) -> None:
        self.channel = channel
        self.message = message


@final
@mypyc_attr(acyclic=True)
class Arrival(Passage):
    """A message of the multicast layer arrives, as the object that was sent. Small: many fly."""

    __slots__ = ()


@final
@mypyc_attr(acyclic=True)
class EncodedArrival(Passage):
    """A message of any layer arrives, perhaps as bytes."""

    __slots__ = ("data", "layer")

    def __init__(self, channel: Channel, message: Message, layer: int, data: bytes | None) -> None:
        super().__init__(channel, message)
        self.layer = layer
        self.data = data


@final
class EncodedOnce:
    """The last message that was encoded: copies of one message mostly leave in a row."""

    def __init__(self, codec: Forms) -> None:
        self._codec = codec
        self._message: Message | None = None
        self._data = b""
        self._described: Description | None = None

    def data_of(self, message: Message) -> bytes:
        """The message as bytes."""
        if message is not self._message:
            self._data = self._codec.encode(message)
            self._message = message
            self._described = None
        return self._data

    def description_of(self, message: Message) -> Description:
        """What the trace says of it."""
        data = self.data_of(message)
        if self._described is None:
            self._described = self._codec.describe(message, len(data))
        return self._described


@final
class Traffic:
    """Brings messages through the channels that links give it.

    `is_careful`: messages may be lost or doubled, take their share of a bandwidth, or have to be
    encoded; otherwise nearly all take the short way of `Simulation.send`.
    """

    def __init__(
        self,
        shared: SharedState,
        steps: Steps,
        schedule: Schedule,
        network: NetworkPlan,
        seed: str,
    ) -> None:
        self._shared = shared
        self._out = shared.out
        self._steps = steps
        self._schedule = schedule
        self._network = network
        self._latency = network.latency
        self._rng = random.Random(f"{seed}/network")
        self._encoded = EncodedOnce(shared.codec)
        wants = shared.recorder.wants
        self._traces_messages = wants[SEND] or wants[RECEIVE]
        self._chancy = network.loss > 0 or network.duplication > 0
        self._limited = network.bandwidth.limited
        self._needs_bytes = self._limited or self._traces_messages or not network.shared_objects
        self.is_careful = self._chancy or self._needs_bytes
        self._fifo = network.fifo
        self._tick_us = network.tick_us
        self._read_us = shared.plan.read_us

    def looks_at_messages(self) -> bool:
        """Whether a message is decoded or recorded on its arrival, or read later."""
        looks = self._traces_messages or not self._network.shared_objects
        return looks or self._read_us > 0

    def arrive(self, arrival: Passage) -> None:
        """A message reaches the end of its channel: handle it, keep it, or drop it."""
        channel = arrival.channel
        node = channel.receiver
        if not channel.smooth:
            if not node.up:
                self._shared.drop(channel.target, channel.source, "receiver is down")
                return
            if node.paused is not None:
                node.paused.append(arrival)
                return
            if channel.cut:
                self._shared.count("lost_in_cut")
                self._shared.drop(channel.target, channel.source, "cut")
                return
            if not channel.current:
                self._shared.drop(channel.target, channel.source, "link is no longer current")
                return
            if not channel.known:
                channel.early.append(arrival)
                return
        if self._read_us > 0:
            channel.unread.append(arrival)
            if len(channel.unread) == 1:
                read = Call(lambda: self.read(channel))
                self._schedule.plan(self._out.now + self._read_us, read)
            return
        layer, message = self._look_at(arrival)
        node.stack.receive(layer, channel.source, message, self._out)
        self._steps.finish(node, None)

    def read(self, channel: Channel) -> None:
        """Whoever is at the end of a channel reads what came since it did so last, in one step."""
        node = channel.receiver
        if not channel.unread or channel.is_over():
            return
        if node.paused is not None:
            node.paused.append(Call(lambda: self.read(channel)))
            return
        unread, channel.unread = channel.unread, []
        stack, out = node.stack, self._out
        stack.heard(channel.source, out)
        out.closes_link = False
        arrived: list[tuple[int, Message]] = []
        for arrival in unread:
            assert isinstance(arrival, Passage)
            arrived.append(self._look_at(arrival))
        for layer, run in in_layered_runs(arrived):
            if len(run) > 1:
                self._shared.count("run")
            hand_over(stack, layer, channel.source, run, out)
            if out.closes_link:
                out.closes_link = False
                self._steps.finish(node, None)
                if channel.is_over():
                    return
        self._steps.finish(node, None)

    def _look_at(self, arrival: Passage) -> tuple[int, Message]:
        """The layer that it is for, and the message as it came."""
        self._shared.count_message()
        message = arrival.message
        layer = MULTICAST
        if isinstance(arrival, EncodedArrival):
            layer = arrival.layer
            if arrival.data is not None:
                message = self._shared.codec.decode(arrival.data)[1]
        if self._traces_messages:
            channel = arrival.channel
            self._record_message(RECEIVE, channel.target, channel.source, arrival.message)
        self._steps.handled = message
        return layer, message

    def send_carefully(self, sender: SimNode, effect: Send, channel: Channel) -> None:
        """Send through a channel with everything that can be configured."""
        if channel.cut:
            self._shared.count("lost_in_cut")
            self._shared.drop(sender.me, effect.to, "cut")
            return
        message = effect.message
        data: bytes | None = None
        at = self._out.now
        if self._needs_bytes:
            data = self._encoded.data_of(message)
            self._shared.sent.add(type(message), LENGTH_BYTES + len(data))
            if self._traces_messages:
                self._record_message(SEND, sender.me, effect.to, message)
            if self._limited:
                size = LENGTH_BYTES + len(data)
                at = self._network.bandwidth.departure(channel, sender.degree, size, at)
            if self._network.shared_objects:
                data = None
        at += self._latency.draw() + channel.fixed + channel.extra
        if self._chancy and self._rng.random() < self._network.loss:
            self._shared.count("loss")
            self._shared.drop(sender.me, effect.to, "loss")
            return
        self.plan_arrival(EncodedArrival(channel, message, effect.layer, data), at)
        if self._chancy and self._rng.random() < self._network.duplication:
            self._shared.count("duplication")
            again = at + self._latency.draw()
            self.plan_arrival(EncodedArrival(channel, message, effect.layer, data), again)

    def plan_arrival(self, arrival: Passage, at: int) -> None:
        """Let a message arrive at `at`, or as soon after as ticks and order allow."""
        if self._tick_us > 1:
            at += -at % self._tick_us
        if self._fifo:
            channel = arrival.channel
            if at < channel.last_arrival:
                at = channel.last_arrival
            channel.last_arrival = at
        self._schedule.plan(at, arrival)

    def _record_message(self, kind: int, node: NodeId, peer: NodeId, message: Message) -> None:
        self._shared.record_frame(kind, node, peer, self._encoded.description_of(message))

    def lose_under_way(self, node: SimNode, keep: float) -> None:
        """Of what the node has sent on each link, only the first `keep` still arrives.

        Crashes are rare and messages are many: so the schedule is searched here, and no message
        is counted when it is sent.
        """
        if keep >= 1:
            return
        under_way: dict[NodeId, list[Passage]] = {}
        for event in self._schedule.pending():
            if isinstance(event, Passage) and event.channel.source == node.me:
                under_way.setdefault(event.channel.target, []).append(event)
        for arrivals in under_way.values():
            for arrival in arrivals[int(len(arrivals) * keep) :]:
                self._shared.count("lost_in_crash")
                nowhere = Channel(node.me, arrival.channel.receiver, arrival.channel.link)
                nowhere.current = False
                arrival.channel = nowhere
