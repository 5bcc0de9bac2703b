"""A world without latencies: nothing happens unless somebody directs it.

What nodes send waits in one queue per direction of a link; timers wait until they are told to run
out. A step names what happens next (`arrive 0 1`, `crash 2`, …), so any interleaving can be written
down, replayed, searched for by an adversary, or enumerated. Links come up at once; that one is
lost is an item at the end of its queue, heard when it arrives.
"""

from collections.abc import Callable
from typing import Final, final

from causalcast.core.blueprint import Blueprint
from causalcast.core.effects import (
    CancelTimer,
    CloseLink,
    Hold,
    OpenLink,
    Release,
    Send,
    StartTimer,
)
from causalcast.core.ids import ANY_LINK, LinkId, NodeId, link_id
from causalcast.core.message import Message
from causalcast.core.world_facts import NOBODY
from causalcast.simulator.worlds.reading import hand_over
from causalcast.simulator.worlds.sim_node import Expiry, SimNode
from causalcast.simulator.worlds.simulated_world import SimulatedWorld
from causalcast.simulator.worlds.traffic import RECEIVE, SEND
from causalcast.simulator.worlds.world_plan import WorldPlan
from causalcast.trace.recorder import Recorder
from causalcast.wire.forms import Forms
from causalcast.wire.runs import in_runs

TimerKey = tuple[int, str, int]  # layer, name, subject
Way = tuple[NodeId, NodeId]  # from, to
LOST: Final = -1  # the layer of an item that says: this link is gone


@final
class Item:
    """What waits at the end of a link: a message, or the news that the link is lost."""

    __slots__ = ("data", "layer", "link", "message")

    def __init__(self, link: LinkId, layer: int, data: bytes, message: int) -> None:
        self.link = link
        self.layer = layer  # LOST for the news of a loss; then `data` is the reason
        self.data = data
        self.message = message  # the publication it carries, or -1


@final
class DirectedWorld(SimulatedWorld):
    """Nodes whose messages and timers wait for a director."""

    def __init__(
        self,
        blueprint: Blueprint,
        plan: WorldPlan,
        seed: str,
        recorder: Recorder,
        codec: Forms,
        turn_us: int,
    ) -> None:
        super().__init__(blueprint, plan, seed, recorder, codec, 0)
        self.steps.notes_touched = True
        self.queues: dict[Way, list[Item]] = {}  # none is empty
        self.links: list[dict[NodeId, LinkId]] = []  # of each node, as it believes
        self.live: dict[LinkId, None] = {}  # those that still carry something
        self.cuts: dict[Way, None] = {}
        self.suspicions: dict[tuple[NodeId, NodeId], None] = {}  # (who, whom), by a step
        self.held: dict[tuple[NodeId, int], int] = {}  # (who, what) -> the message it waits for
        self._turn_us = turn_us  # how far each turn moves the clock; 0: only timers do
        self._soon: list[Callable[[], None]] = []
        self._traces_messages = recorder.wants[SEND]

    def added(self, node: SimNode) -> None:
        self.links.append({})

    def start(self, absent: list[NodeId]) -> None:
        """Start everybody but the `absent`, and let them greet one another."""
        for node in self.nodes:
            if node.me in absent:
                continue
            if self.blueprint.overlay.static:
                self.lives.start_node(node.me, None)
            else:
                self.lives.join_in_turn(node.me)
                self._let_all_arrive()
        self._let_all_arrive()

    def _let_all_arrive(self) -> None:
        self.end_turn()
        while self.queues:
            self.let_arrive(next(iter(self.queues)), 0)
            self.end_turn()

    # What a director may let happen. Each is one turn; the director makes sure that it can be.

    def let_arrive(self, way: Way, index: int) -> None:
        """The item at `index` of a queue arrives."""
        item = self._take(way, index)
        sender, me = way
        node = self.nodes[me]
        if not node.up or self.links[me].get(sender) != item.link:
            self.shared.drop(me, sender, "link is no longer current")
        elif item.layer == LOST:
            del self.links[me][sender]
            node.stack.lose_link(sender, item.link, item.data.decode(), self.out)
            self.steps.finish(node, None)
        else:
            layer, first = self._look_at(way, item)
            run: list[Message] = [first]
            if self.shared.plan.read_us > 0:
                node.stack.heard(sender, self.out)
                run += self._continued(way, index, first)
                if len(run) > 1:
                    self.shared.count("run")
            self.steps.handled = first
            hand_over(node.stack, layer, sender, run, self.out)
            self.steps.finish(node, None)

    def _continued(self, way: Way, index: int, first: Message) -> list[Message]:
        """What waits behind it and continues it comes with it."""
        run = [first]
        while index < len(self.queues.get(way, [])):
            item = self.queues[way][index]
            if item.layer == LOST or item.link != self.links[way[1]].get(way[0]):
                break
            behind = self.codec.decode(item.data)[1]
            if len(in_runs([*run, behind])) > 1:
                break
            run.append(self._look_at(way, self._take(way, index))[1])
        return run[1:]

    def _look_at(self, way: Way, item: Item) -> tuple[int, Message]:
        """The layer that it is for, and the message as it came."""
        self.shared.count_message()
        layer, message = self.codec.decode(item.data)
        if self._traces_messages:
            about = self.codec.describe(message, len(item.data))
            self.shared.record_frame(RECEIVE, way[1], way[0], about)
        return layer, message

    def busy_peers(self, me: NodeId) -> dict[NodeId, None]:
        """To whom something waits, where this world tells of it."""
        if not self.shared.plan.tells_congestion():
            return NOBODY
        return {way[1]: None for way in self.queues if way[0] == me}

    def lose(self, way: Way, index: int) -> None:
        """The network loses one message."""
        self._take(way, index)
        self.shared.count("loss")
        self.shared.drop(way[0], way[1], "loss")

    def double(self, way: Way, index: int) -> None:
        """The network brings one message twice: a copy waits behind all others."""
        self.shared.count("duplication")
        self.queues[way].append(self.queues[way][index])

    def run_out(self, me: NodeId, key: TimerKey) -> None:
        """A timer runs out; the clock goes on to its instant, if that is still to come."""
        node = self.nodes[me]
        self.out.now = max(self.out.now, node.timers[key].at)
        del node.timers[key]
        self.out.world.congested = self.busy_peers(me)
        if self.out.world.congested:
            self.shared.count("congested")
        node.stack.expire(*key, self.out)
        self.out.world.congested = NOBODY
        self.steps.finish(node, None)

    def suspect(self, who: NodeId, whom: NodeId) -> None:
        """`who` believes that `whom` is down, until it is told otherwise."""
        self.shared.count("suspect")
        self.suspicions[who, whom] = None
        self.nodes[who].stack.suspect(whom, self.out)
        self.steps.finish(self.nodes[who], None)

    def trust(self, who: NodeId, whom: NodeId) -> None:
        """End a suspicion that a step had raised."""
        del self.suspicions[who, whom]
        self.nodes[who].stack.trust(whom, self.out)
        self.steps.finish(self.nodes[who], None)

    def cut(self, a: NodeId, b: NodeId) -> None:
        """The link between two nodes breaks, with all that is on it; dials fail until `heal`."""
        self.shared.count("cut")
        self.cuts[a, b] = self.cuts[b, a] = None
        link = self.links[a].get(b, self.links[b].get(a))
        if link is not None and link in self.live:
            self._break(a, b, link, "broken", 0)
            self._break(b, a, link, "broken", 0)
            del self.live[link]

    def heal(self, a: NodeId, b: NodeId) -> None:
        """Dials between two nodes succeed again."""
        del self.cuts[a, b], self.cuts[b, a]

    def end_turn(self) -> None:
        """Let happen what the turn led to by itself: links that come up, dials that fail."""
        while self._soon:
            self._soon.pop(0)()
        self.out.now += self._turn_us

    def plan(self, at: int, action: Callable[[], None]) -> None:
        """Whatever is planned happens at the end of the turn."""
        self._soon.append(action)

    # What nodes ask of this world

    def send(self, node: NodeId, effect: Send) -> None:
        """Into the queue, or wait for a dial where there is no link."""
        link = self.links[node].get(effect.to)
        if effect.link not in (ANY_LINK, link):
            self.shared.count("note.send_on_lost_link")
            self.shared.drop(node, effect.to, "link is no longer current")
        elif link is None:
            self.nodes[node].waiting_for_dial.setdefault(effect.to, []).append(effect)
            self._soon.append(lambda: self._dial(node, effect.to))
        elif link not in self.live:
            self.shared.drop(node, effect.to, "the link is lost")
        else:
            data = self.codec.encode(effect.message)
            about = self.codec.describe(effect.message, len(data))
            if self._traces_messages:
                self.shared.record_frame(SEND, node, effect.to, about)
            item = Item(link, effect.layer, data, about.message)
            self.queues.setdefault((node, effect.to), []).append(item)

    def open_link(self, node: NodeId, effect: OpenLink) -> None:
        """Dial at the end of the turn."""
        self._soon.append(lambda: self._dial(node, effect.to))

    def close_link(self, node: NodeId, effect: CloseLink) -> None:
        """The other end hears of it after all that was sent before."""
        link = self.links[node].pop(effect.to, None)
        if link is not None and link in self.live:
            self._break(node, effect.to, link, "closed", 1)
            self.queues.pop((effect.to, node), None)
            del self.live[link]

    def start_timer(self, node: NodeId, effect: StartTimer) -> None:
        """It runs out when it is told to."""
        key = (effect.layer, effect.name, effect.subject)
        expiry = Expiry(self.nodes[node], *key)
        expiry.at = self.out.now + effect.after
        self.nodes[node].timers.pop(key, None)
        self.nodes[node].timers[key] = expiry

    def cancel_timer(self, node: NodeId, effect: CancelTimer) -> None:
        """Forget it."""
        self.nodes[node].timers.pop((effect.layer, effect.name, effect.subject), None)

    def hold(self, node: NodeId, effect: Hold) -> None:
        """Record it, and remember it for whoever looks for weak spots."""
        super().hold(node, effect)
        self.held[node, effect.message] = effect.waits_for

    def release(self, node: NodeId, effect: Release) -> None:
        """It waits no longer."""
        super().release(node, effect)
        self.held.pop((node, effect.message), None)

    # Links

    def links_of(self, me: NodeId) -> list[NodeId]:
        return list(self.links[me])

    def sever(self, node: SimNode, reason: str, keep: float) -> None:
        """What was sent to the node is gone; the other ends hear of it when they come to it."""
        self.steps.touched[node.me] = None
        for peer, link in self.links[node.me].items():
            if link in self.live:
                self._break(node.me, peer, link, reason, keep)
                self.queues.pop((peer, node.me), None)
                del self.live[link]
        self.links[node.me] = {}
        self.suspicions = {pair: None for pair in self.suspicions if pair[0] != node.me}
        self.held = {pair: cause for pair, cause in self.held.items() if pair[0] != node.me}

    def _break(self, sender: NodeId, to: NodeId, link: LinkId, reason: str, keep: float) -> None:
        """Of the queue only the first `keep` is left, and then the news of the loss."""
        queue = self.queues.setdefault((sender, to), [])
        kept = int(len(queue) * keep)
        for _ in queue[kept:]:
            self.shared.count("lost_in_crash")
        queue[kept:] = [Item(link, LOST, reason.encode(), -1)]

    def _dial(self, me: NodeId, to: NodeId) -> None:
        dialler, other = self.nodes[me], self.nodes[to]
        if not dialler.up or to in self.links[me]:
            return
        dialler.dials += 1
        link = link_id(me, dialler.dials)
        if self._is_down(to) or (me, to) in self.cuts:
            self._refuse(dialler, to, link)
            return
        self.queues.pop((me, to), None)  # of a link that one end still believed in
        self.queues.pop((to, me), None)
        stale = self.links[to].pop(me, None)
        if stale is not None:
            self.live.pop(stale, None)
            other.stack.lose_link(me, stale, "broken", self.out)
            self.steps.finish(other, None)
        if not self._is_down(to):  # it may have crashed in the middle of that
            self.live[link] = None
            self.links[to][me] = link
            other.stack.link_up(me, link, False, self.out)
            self.steps.finish(other, None)
        if self._is_down(to):
            self._refuse(dialler, to, link)
            return
        self.links[me][to] = link
        dialler.stack.link_up(to, link, True, self.out)
        self.steps.finish(dialler, None)
        for effect in dialler.waiting_for_dial.pop(to, []):
            assert isinstance(effect, Send)
            self.send(me, effect)

    def _is_down(self, node: NodeId) -> bool:
        return not self.nodes[node].up

    def _refuse(self, dialler: SimNode, to: NodeId, link: LinkId) -> None:
        for _ in dialler.waiting_for_dial.pop(to, []):
            self.shared.drop(dialler.me, to, "dial refused")
        dialler.stack.lose_link(to, link, "refused", self.out)
        self.steps.finish(dialler, None)

    # Small things

    def _take(self, way: Way, index: int) -> Item:
        queue = self.queues[way]
        item = queue.pop(index)
        if not queue:
            del self.queues[way]
        return item
