"""Links between simulated nodes: dialled, answered, lost. Each has an identity.

Of two dials that cross, the smaller dialler's survives. What arrives before its receiver knows the
link waits; what arrives on a link that is no longer current is dropped.
"""

from typing import Final, final

from causalcast.core.effects import Send
from causalcast.core.ids import ANY_LINK, LinkId, NodeId, dialler_of, link_id
from causalcast.simulator.worlds.network import NetworkPlan
from causalcast.simulator.worlds.obstacles import Obstacles, pair
from causalcast.simulator.worlds.shared_state import SharedState
from causalcast.simulator.worlds.sim_node import Channel, SimNode
from causalcast.simulator.worlds.steps import Call, PlanningWorld, Steps
from causalcast.simulator.worlds.traffic import Passage, Traffic

DIAL_TIMEOUT: Final = 1_000_000  # how long a dial into silence is waited for


@final
class Links:
    """Makes and breaks links, and tells both ends when they would hear of it."""

    def __init__(
        self,
        shared: SharedState,
        steps: Steps,
        world: PlanningWorld,
        traffic: Traffic,
        obstacles: Obstacles,
        network: NetworkPlan,
    ) -> None:
        self._shared = shared
        self._nodes = shared.nodes
        self._out = shared.out
        self._steps = steps
        self._world = world
        self._traffic = traffic
        self._obstacles = obstacles
        self._latency = network.latency
        self._detection_us = network.detection_us
        # While the run begins: who dialled whom. These links stand from the beginning.
        self._standing_dials: list[tuple[NodeId, NodeId]] | None = None

    def begin(self) -> None:
        """The run begins: links that are dialled from now on stand at once, see `stand`."""
        self._standing_dials = []

    def close(self, node: NodeId, to: NodeId) -> None:
        """A node hangs up; the other end hears of it after all that was sent before."""
        channel = self._nodes[node].drop_channel(to)
        if channel is None:
            return
        other = self._nodes[to]

        def heard() -> None:
            self._lose(other, node, channel.link, "closed")

        at = max(self._out.now + self._latency.draw(), channel.last_arrival)
        self._world.plan(at, heard)

    def stand(self) -> None:
        """Let the links that were dialled before the run began stand at once.

        Node by node, so that what belongs to one node lies together in memory: at ten thousand
        nodes that decides the speed.
        """
        dials, self._standing_dials = self._standing_dials or [], None
        links: list[dict[NodeId, LinkId]] = [{} for _ in self._nodes]
        for me, to in dials:
            dialler = self._nodes[me]
            if self._nodes[to].up and to not in links[me]:
                dialler.dials += 1
                links[me][to] = links[to][me] = link_id(me, dialler.dials)
            elif not self._nodes[to].up:
                self.dial(dialler, to)  # it will come later, or never
        for node in self._nodes:
            for peer, link in links[node.me].items():
                channel = Channel(node.me, self._nodes[peer], link)
                channel.fixed = self._latency.of_pair(node.me, peer)
                channel.known = True
                node.add_channel(peer, channel)
        for node in self._nodes:
            for peer, channel in node.channels.items():
                channel.back = self._nodes[peer].channels[node.me]
                channel.refresh()
        for node in self._nodes:
            for peer, channel in list(node.channels.items()):
                self._link_up(node, peer, channel.link, dialler_of(channel.link) == node.me)

    def dial(self, dialler: SimNode, to: NodeId) -> None:
        """Dial a peer, unless there is a link or a dial already."""
        if to in dialler.channels or to in dialler.dialling:
            return
        if self._standing_dials is not None:
            self._standing_dials.append((dialler.me, to))
            return
        self._shared.count_dial(dialler.me)
        dialler.dials += 1
        link = link_id(dialler.me, dialler.dials)
        dialler.dialling[to] = link
        lives = dialler.lives

        def rings() -> None:
            self._answer(dialler, self._nodes[to], link, lives)

        self._world.plan(self._out.now + self._latency.draw(), rings)
        self._world.plan(self._out.now + DIAL_TIMEOUT, lambda: self._refused(dialler, to, link))

    def _answer(self, dialler: SimNode, other: SimNode, link: LinkId, lives: int) -> None:
        """The dial reaches the other end: it takes the link, or refuses."""
        me = dialler.me
        if self._obstacles.is_cut(me, other.me):
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

        self._world.plan(self._out.now + self._latency.draw(), answered)

    def _refuse(self, dialler: SimNode, other: SimNode, link: LinkId) -> None:
        """Nobody is there: the dialler hears of it after a while."""
        after = self._latency.draw()
        self._world.plan(self._out.now + after, lambda: self._refused(dialler, other.me, link))

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
            self._traffic.arrive(event)

    def _link_up(self, node: SimNode, peer: NodeId, link: LinkId, dialled: bool) -> None:
        node.stack.link_up(peer, link, dialled, self._out)
        self._steps.finish(node, None)
        for effect in node.waiting_for_dial.pop(peer, []):
            assert isinstance(effect, Send)
            self._world.send(node.me, effect)

    def _refused(self, dialler: SimNode, to: NodeId, link: LinkId) -> None:
        if dialler.paused is not None:
            dialler.paused.append(Call(lambda: self._refused(dialler, to, link)))
        elif dialler.up and dialler.dialling.get(to) == link:
            del dialler.dialling[to]
            for _ in dialler.waiting_for_dial.pop(to, []):
                self._shared.drop(dialler.me, to, "dial refused")
            dialler.stack.lose_link(to, link, "refused", self._out)
            self._steps.finish(dialler, None)

    def send_later(self, sender: SimNode, effect: Send) -> None:
        """The link for a message is not there: dial, unless it was meant for that link alone."""
        if effect.link != ANY_LINK:
            self._shared.count("note.send_on_lost_link")
            self._shared.drop(sender.me, effect.to, "link is no longer current")
            return
        sender.waiting_for_dial.setdefault(effect.to, []).append(effect)
        self.dial(sender, effect.to)

    def _lose(self, node: SimNode, peer: NodeId, link: LinkId, reason: str) -> None:
        """The node hears that a link is gone, if it is still the current one."""
        channel = node.channels.get(peer)
        if node.paused is not None:
            node.paused.append(Call(lambda: self._lose(node, peer, link, reason)))
            return
        if node.up and channel is not None and channel.back.unread:
            self._traffic.read(channel.back)  # it came before the link was gone
            channel = node.channels.get(peer)
        if node.up and channel is not None and channel.link == link:
            node.drop_channel(peer)
            node.stack.lose_link(peer, link, reason, self._out)
            self._steps.finish(node, None)

    def sever(self, node: SimNode, reason: str, keep: float) -> None:
        """All links of a node break; the other ends hear of it after a while."""
        self._traffic.lose_under_way(node, keep)
        for peer, channel in node.channels.items():
            self._announce_to(self._nodes[peer], node.me, channel.link, reason)
        for peer, link in node.dialling.items():  # the peer may know the link already
            self._announce_to(self._nodes[peer], node.me, link, reason)

    def announce_loss(self, a: NodeId, b: NodeId) -> None:
        """Both ends of a link hear that it broke; whoever answered a dial is an end already."""
        channel = self._nodes[a].channels.get(b) or self._nodes[b].channels.get(a)
        if channel is not None:
            # What was lost on it leaves a gap, so it must carry nothing more, healed or not.
            for one in (channel, channel.back):
                one.current = False
                one.refresh()
            self._announce_to(self._nodes[a], b, channel.link, "broken")
            self._announce_to(self._nodes[b], a, channel.link, "broken")

    def _announce_to(self, node: SimNode, peer: NodeId, link: LinkId, reason: str) -> None:
        def heard() -> None:
            self._lose(node, peer, link, reason)

        self._world.plan(self._out.now + self._detection_us, heard)

    # What holds between two nodes now

    def _is_down(self, node: NodeId) -> bool:
        return not self._nodes[node].up

    def refresh(self, a: NodeId, b: NodeId) -> None:
        """Let the channels between two nodes know what holds for them now."""
        for one, other in ((a, b), (b, a)):
            channel = self._nodes[one].channels.get(other)
            if channel is not None:
                self._refresh_channel(channel)

    def _refresh_channel(self, channel: Channel) -> None:
        channel.cut = self._obstacles.is_cut(channel.source, channel.target)
        channel.extra = self._obstacles.delay_of(channel.source, channel.target)
        channel.refresh()

    def linked_pairs(self) -> list[tuple[NodeId, NodeId]]:
        """Every two nodes with a link, though only one of them may know it yet."""
        linked = (pair(node.me, peer) for node in self._nodes for peer in node.channels)
        return list(dict.fromkeys(linked))
