"""The network under simulated nodes: links with an identity, messages on their way, cuts, delays.

Of two dials that cross, the smaller dialler's survives. What arrives before its receiver knows the
link waits; what arrives on a link that is no longer current is dropped.
"""

import random
from typing import Final, final

from mypy_extensions import mypyc_attr

from causalcast.core.blueprint import Blueprint
from causalcast.core.effects import CloseLink, OpenLink, Send
from causalcast.core.ids import ANY_LINK, LinkId, NodeId, dialler_of, link_id
from causalcast.core.message import Message
from causalcast.core.stack import MULTICAST
from causalcast.simulator.worlds.living_world import LivingWorld
from causalcast.simulator.worlds.network import Bandwidth, Latency
from causalcast.simulator.worlds.schedule import Event
from causalcast.simulator.worlds.sim_node import Channel, SimNode
from causalcast.simulator.worlds.steps import RECEIVE, SEND, Call
from causalcast.trace.recorder import Recorder
from causalcast.wire.codec import Codec, Description
from causalcast.wire.framing import LENGTH_BYTES

DIAL_TIMEOUT: Final = 1_000_000  # how long a dial into silence is waited for


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
class NetworkPlan:
    """What the scenario says about the network, the disk and the detector's delay."""

    def __init__(
        self,
        latency: Latency,
        bandwidth: Bandwidth,
        loss: float,
        duplication: float,
        fifo: bool,
        tick_us: int,
        shared_objects: bool,
        sync_us: int,
        detection_us: int,
    ) -> None:
        self.latency = latency
        self.bandwidth = bandwidth
        self.loss = loss
        self.duplication = duplication
        self.fifo = fifo
        self.tick_us = tick_us
        self.shared_objects = shared_objects
        self.sync_us = sync_us
        self.detection_us = detection_us


class LinkedWorld(LivingWorld):
    """Nodes that live and speak over links."""

    def __init__(
        self,
        blueprint: Blueprint,
        network: NetworkPlan,
        seed: str,
        recorder: Recorder,
        codec: Codec,
    ) -> None:
        super().__init__(blueprint, seed, recorder, codec, network.sync_us, network.tick_us)
        self.network = network
        self._rng = random.Random(f"{seed}/network")
        self._latency = network.latency
        self._chancy = network.loss > 0 or network.duplication > 0
        self._limited = network.bandwidth.limited
        self._traces_messages = recorder.wants[SEND] or recorder.wants[RECEIVE]
        self._needs_bytes = self._limited or self._traces_messages or not network.shared_objects
        self._careful = self._chancy or self._needs_bytes
        self._fifo = network.fifo
        self._tick_us = network.tick_us
        self._encoded_message: Message | None = None  # the last message that was encoded
        self._encoded_data = b""
        self._encoded_as: Description | None = None
        self._cuts: dict[tuple[NodeId, NodeId], None] = {}  # pairs between which nothing passes
        self._sides: dict[NodeId, int] = {}  # of a partition
        self._delays: dict[tuple[NodeId, NodeId], int] = {}
        # While the run begins: who dialled whom. These links stand from the beginning.
        self._standing_dials: list[tuple[NodeId, NodeId]] | None = None

    # Messages

    def looks_at_messages(self) -> bool:
        """Whether a message is decoded or recorded on its arrival."""
        return self._traces_messages or not self.network.shared_objects

    def arrive(self, arrival: Passage) -> None:
        """A message reaches the end of its channel: handle it, keep it, or drop it."""
        channel = arrival.channel
        node = channel.receiver
        if not channel.smooth:
            if not node.up:
                self.drop(channel.target, channel.source, "receiver is down")
                return
            if node.paused is not None:
                node.paused.append(arrival)
                return
            if channel.cut:
                self.count("lost_in_cut")
                self.drop(channel.target, channel.source, "cut")
                return
            if not channel.current:
                self.drop(channel.target, channel.source, "link is no longer current")
                return
            if not channel.known:
                channel.early.append(arrival)
                return
        self.count_message()
        message = arrival.message
        layer = MULTICAST
        if isinstance(arrival, EncodedArrival):
            layer = arrival.layer
            if arrival.data is not None:
                message = self.codec.decode(arrival.data)[1]
        if self._traces_messages:
            self._record_message(RECEIVE, node.me, channel.source, arrival.message)
        node.stack.receive(layer, channel.source, message, self.out)
        self.finish(node, None)

    def send(self, node: NodeId, effect: Send) -> None:
        channel = self.nodes[node].channel_to(effect.to)
        if (
            self._careful
            or channel is None
            or not channel.smooth
            or effect.layer != MULTICAST
            or (effect.link != ANY_LINK and effect.link != channel.link)
        ):
            self._send_carefully(self.nodes[node], effect, channel)
            return
        drawn = self._latency.drawn
        at = self.now + channel.fixed + (drawn.pop() if drawn else self._latency.draw())
        self._plan_arrival(Arrival(channel, effect.message), at)

    def _send_carefully(self, sender: SimNode, effect: Send, channel: Channel | None) -> None:
        """Send with everything that can be configured."""
        if channel is None or effect.link not in (ANY_LINK, channel.link):
            self._send_without_link(sender, effect)
            return
        if channel.cut:
            self.count("lost_in_cut")
            self.drop(sender.me, effect.to, "cut")
            return
        message = effect.message
        data: bytes | None = None
        at = self.now
        if self._needs_bytes:
            data = self._encode(message)
            if self._traces_messages:
                self._record_message(SEND, sender.me, effect.to, message)
            if self._limited:
                size = LENGTH_BYTES + len(data)
                at = self.network.bandwidth.departure(channel, sender.degree, size, at)
            if self.network.shared_objects:
                data = None
        at += self._latency.draw() + channel.fixed + channel.extra
        if self._chancy and self._rng.random() < self.network.loss:
            self.count("loss")
            self.drop(sender.me, effect.to, "loss")
            return
        self._plan_arrival(EncodedArrival(channel, message, effect.layer, data), at)
        if self._chancy and self._rng.random() < self.network.duplication:
            self.count("duplication")
            again = at + self._latency.draw()
            self._plan_arrival(EncodedArrival(channel, message, effect.layer, data), again)

    def _plan_arrival(self, arrival: Passage, at: int) -> None:
        if self._tick_us > 1:
            at += -at % self._tick_us
        if self._fifo:
            channel = arrival.channel
            if at < channel.last_arrival:
                at = channel.last_arrival
            channel.last_arrival = at
        self.schedule.plan(at, arrival)

    def _encode(self, message: Message) -> bytes:
        """Encode, once for all copies of one message that are sent in a row."""
        if message is not self._encoded_message:
            self._encoded_data = self.codec.encode(message)
            self._encoded_message = message
            self._encoded_as = None
        return self._encoded_data

    def _record_message(self, kind: int, node: NodeId, peer: NodeId, message: Message) -> None:
        if message is not self._encoded_message or self._encoded_as is None:
            data = self._encode(message)
            self._encoded_as = self.codec.describe(message, len(data))
        self.record_frame(kind, node, peer, self._encoded_as)

    # Links

    def open_link(self, node: NodeId, effect: OpenLink) -> None:
        self._dial(self.nodes[node], effect.to)

    def close_link(self, node: NodeId, effect: CloseLink) -> None:
        closer = self.nodes[node]
        channel = closer.drop_channel(effect.to)
        if channel is None:
            return
        other = self.nodes[effect.to]

        def heard() -> None:
            self._lose(other, node, channel.link, "closed")

        at = max(self.now + self._latency.draw(), channel.last_arrival)
        self.plan(at, heard)

    def stand_links(self, dials: list[tuple[NodeId, NodeId]]) -> None:
        """Let the links that were dialled before the run began stand at once.

        Node by node, so that what belongs to one node lies together in memory: at ten thousand
        nodes that decides the speed.
        """
        links: list[dict[NodeId, LinkId]] = [{} for _ in self.nodes]
        for me, to in dials:
            dialler = self.nodes[me]
            if self.nodes[to].up and to not in links[me]:
                dialler.dials += 1
                links[me][to] = links[to][me] = link_id(me, dialler.dials)
            elif not self.nodes[to].up:
                self._dial(dialler, to)  # it will come later, or never
        for node in self.nodes:
            for peer, link in links[node.me].items():
                channel = Channel(node.me, self.nodes[peer], link)
                channel.fixed = self._latency.of_pair(node.me, peer)
                channel.known = True
                node.add_channel(peer, channel)
        for node in self.nodes:
            for peer, channel in node.channels.items():
                channel.back = self.nodes[peer].channels[node.me]
                channel.refresh()
        for node in self.nodes:
            for peer, channel in list(node.channels.items()):
                self._link_up(node, peer, channel.link, dialler_of(channel.link) == node.me)

    def _dial(self, dialler: SimNode, to: NodeId) -> None:
        if to in dialler.channels or to in dialler.dialling:
            return
        if self._standing_dials is not None:
            self._standing_dials.append((dialler.me, to))
            return
        dialler.dials += 1
        link = link_id(dialler.me, dialler.dials)
        dialler.dialling[to] = link
        lives = dialler.lives

        def rings() -> None:
            self._answer(dialler, self.nodes[to], link, lives)

        self.plan(self.now + self._latency.draw(), rings)
        self.plan(self.now + DIAL_TIMEOUT, lambda: self._refused(dialler, to, link))

    def _answer(self, dialler: SimNode, other: SimNode, link: LinkId, lives: int) -> None:
        """The dial reaches the other end: it takes the link, or refuses."""
        me = dialler.me
        if self._is_cut(me, other.me):
            return  # into silence: the dialler gives up after a while
        if not other.up:
            self._refuse(dialler, other, link)
            return
        if other.paused is not None:
            other.paused.append(Call(lambda: self._answer(dialler, other, link, lives)))
            return
        if dialler.lives != lives or dialler.dialling.get(other.me) != link:
            return  # the dialler gave up or crashed meanwhile
        if me in other.dialling and other.me < me:
            return  # two dials crossed: the smaller dialler's survives
        other.dialling.pop(me, None)
        stale = other.channels.get(me)
        if stale is not None:
            self._lose(other, me, stale.link, "broken")
            if self._is_down(other.me):  # it crashed in the middle of that
                self._refuse(dialler, other, link)
                return
        to_other = Channel(me, other, link)
        to_me = Channel(other.me, dialler, link)
        to_other.fixed = to_me.fixed = self._latency.of_pair(me, other.me)
        to_other.back, to_me.back = to_me, to_other
        to_other.known = True
        other.add_channel(me, to_me)
        self._refresh_channel(to_other)
        self._refresh_channel(to_me)
        self._link_up(other, me, link, False)

        def answered() -> None:
            if dialler.paused is not None:
                dialler.paused.append(Call(answered))
            elif dialler.lives != lives or dialler.dialling.get(other.me) != link:
                self._announce_to(other, me, link, "broken")  # the dialler gave up or crashed
            elif other.channels.get(me) is not to_me:
                self._refused(dialler, other.me, link)
            else:
                self._answered(dialler, to_other)

        self.plan(self.now + self._latency.draw(), answered)

    def _refuse(self, dialler: SimNode, other: SimNode, link: LinkId) -> None:
        """Nobody is there: the dialler hears of it after a while."""
        after = self._latency.draw()
        self.plan(self.now + after, lambda: self._refused(dialler, other.me, link))

    def _answered(self, dialler: SimNode, channel: Channel) -> None:
        """The dialler learns that its link is there."""
        other = channel.target
        del dialler.dialling[other]
        dialler.add_channel(other, channel)
        channel.back.known = True
        self._refresh_channel(channel)  # it may have been cut, or slowed down, since it was made
        self._refresh_channel(channel.back)
        self._link_up(dialler, other, channel.link, True)
        early, channel.back.early = channel.back.early, []
        for event in early:  # at once: what arrives in this very instant must not overtake it
            assert isinstance(event, Passage)
            self.arrive(event)

    def _link_up(self, node: SimNode, peer: NodeId, link: LinkId, dialled: bool) -> None:
        node.stack.link_up(peer, link, dialled, self.out)
        self.finish(node, None)
        for effect in node.waiting_for_dial.pop(peer, []):
            assert isinstance(effect, Send)
            self.send(node.me, effect)

    def _refused(self, dialler: SimNode, to: NodeId, link: LinkId) -> None:
        if dialler.paused is not None:
            dialler.paused.append(Call(lambda: self._refused(dialler, to, link)))
        elif dialler.up and dialler.dialling.get(to) == link:
            del dialler.dialling[to]
            for _ in dialler.waiting_for_dial.pop(to, []):
                self.drop(dialler.me, to, "dial refused")
            dialler.stack.lose_link(to, link, "refused", self.out)
            self.finish(dialler, None)

    def _send_without_link(self, sender: SimNode, effect: Send) -> None:
        if effect.link != ANY_LINK:
            self.count("note.send_on_lost_link")
            self.drop(sender.me, effect.to, "link is no longer current")
            return
        sender.waiting_for_dial.setdefault(effect.to, []).append(effect)
        self._dial(sender, effect.to)

    def _lose(self, node: SimNode, peer: NodeId, link: LinkId, reason: str) -> None:
        """The node hears that a link is gone, if it is still the current one."""
        channel = node.channels.get(peer)
        if node.paused is not None:
            node.paused.append(Call(lambda: self._lose(node, peer, link, reason)))
        elif node.up and channel is not None and channel.link == link:
            node.drop_channel(peer)
            node.stack.lose_link(peer, link, reason, self.out)
            self.finish(node, None)

    def sever(self, node: SimNode, reason: str, keep: float) -> None:
        """The other ends hear of it after a while."""
        self._lose_under_way(node, keep)
        for peer, channel in node.channels.items():
            self._announce_to(self.nodes[peer], node.me, channel.link, reason)
        for peer, link in node.dialling.items():  # the peer may know the link already
            self._announce_to(self.nodes[peer], node.me, link, reason)

    def _lose_under_way(self, node: SimNode, keep: float) -> None:
        """Of what the node has sent on each link, only the first `keep` still arrives.

        Crashes are rare and messages are many: so the schedule is searched here, and no message
        is counted when it is sent.
        """
        if keep >= 1:
            return
        under_way: dict[NodeId, list[Passage]] = {}
        for event in self.schedule.pending():
            if isinstance(event, Passage) and event.channel.source == node.me:
                under_way.setdefault(event.channel.target, []).append(event)
        for arrivals in under_way.values():
            for arrival in arrivals[int(len(arrivals) * keep) :]:
                self.count("lost_in_crash")
                nowhere = Channel(node.me, arrival.channel.receiver, arrival.channel.link)
                nowhere.current = False
                arrival.channel = nowhere

    def _announce_loss(self, a: NodeId, b: NodeId) -> None:
        """Both ends of a link hear that it broke; whoever answered a dial is an end already."""
        channel = self.nodes[a].channels.get(b) or self.nodes[b].channels.get(a)
        if channel is not None:
            # What was lost on it leaves a gap, so it must carry nothing more, healed or not.
            for one in (channel, channel.back):
                one.current = False
                one.refresh()
            self._announce_to(self.nodes[a], b, channel.link, "broken")
            self._announce_to(self.nodes[b], a, channel.link, "broken")

    def _announce_to(self, node: SimNode, peer: NodeId, link: LinkId, reason: str) -> None:
        def heard() -> None:
            self._lose(node, peer, link, reason)

        self.plan(self.now + self.network.detection_us, heard)

    # Cuts and delays

    def _is_down(self, node: NodeId) -> bool:
        return not self.nodes[node].up

    def _is_cut(self, a: NodeId, b: NodeId) -> bool:
        return pair(a, b) in self._cuts or self._sides.get(a, 0) != self._sides.get(b, 0)

    def _refresh(self, a: NodeId, b: NodeId) -> None:
        """Let the channels between two nodes know what holds for them now."""
        for one, other in ((a, b), (b, a)):
            channel = self.nodes[one].channels.get(other)
            if channel is not None:
                self._refresh_channel(channel)

    def _refresh_channel(self, channel: Channel) -> None:
        channel.cut = self._is_cut(channel.source, channel.target)
        channel.extra = self._delays.get(pair(channel.source, channel.target), 0)
        channel.refresh()

    def _linked_pairs(self) -> list[tuple[NodeId, NodeId]]:
        """Every two nodes with a link, though only one of them may know it yet."""
        linked = (pair(node.me, peer) for node in self.nodes for peer in node.channels)
        return list(dict.fromkeys(linked))


def pair(a: NodeId, b: NodeId) -> tuple[NodeId, NodeId]:
    """Two nodes in a fixed order."""
    return (a, b) if a < b else (b, a)
