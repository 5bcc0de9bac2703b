"""The steps of a directed run: what they are called, when they can happen, and how a run ends.

    publish NODE GROUP          its application publishes
    arrive FROM TO [INDEX]      the next item of that queue arrives (INDEX: a later one)
    bring FROM TO               items arrive until one that carries a publication has
    lose FROM TO [INDEX]        the network loses one message
    double FROM TO [INDEX]      the network brings one message twice
    expire NODE TIMER [SUBJECT] a timer runs out
    crash NODE [KEEP]           it stops; the first KEEP (0 to 1) of what it sent still arrives
    crash_in_step NODE EFFECTS  it stops in the middle of its next step
    recover NODE                it comes back with what it had persisted
    compact NODE                its records are replaced by a snapshot
    suspect NODE PEER           NODE believes that PEER is down
    trust NODE PEER             … and no longer
    cut NODE PEER               their link breaks, and dials fail
    heal NODE PEER              … and no longer
    join NODE GROUP             it becomes a member, or asks to
    leave NODE GROUP            it is no member any more
    gone NODE PEER              NODE is told that PEER, which is down, never comes back
    order NODE WORD [I] [J]     an operator orders that at NODE, such as `part 0 1`

A step that cannot happen is skipped and counted: so a list stays playable when others are left out.
"""

from collections.abc import Callable, Sequence
from typing import Final

from causalcast.core.ids import GroupId, NodeId
from causalcast.simulator.worlds.directed_world import LOST, DirectedWorld, TimerKey, Way

Step = tuple[str | int | float, ...]
SHAPES: Final = {
    "publish": "node group",
    "arrive": "node node [index]",
    "bring": "node node",
    "lose": "node node [index]",
    "double": "node node [index]",
    "expire": "node timer [subject]",
    "crash": "node [share]",
    "crash_in_step": "node count",
    "recover": "node",
    "compact": "node",
    "suspect": "node node",
    "trust": "node node",
    "cut": "node node",
    "heal": "node node",
    "join": "node group",
    "leave": "node group",
    "gone": "node node",
    "order": "node word [index] [index]",
}
LIMIT: Final = 200  # rounds of timers after which the end of a run is given up
QUIET: Final = 8  # rounds in which nobody sent anything: nothing more will come


class Director:
    """Lets steps happen in a directed world."""

    def __init__(self, world: DirectedWorld, fifo: bool) -> None:
        self.world = world
        self._fifo = fifo
        groups = world.blueprint.groups.names
        self._groups = {name: GroupId(number) for number, name in enumerate(groups)}

    def do(self, step: Step) -> bool:
        """Let `step` happen; False if it cannot happen now."""
        verb = str(step[0])
        handler: Callable[..., bool] = getattr(self, f"_{verb}")
        if not self._all_there(step) or not handler(*step[1:]):
            self.world.shared.count("step_skipped")
            return False
        self.world.end_turn()
        return True

    def _all_there(self, step: Step) -> bool:
        """Whether its nodes exist: a node that comes back as somebody new may not have yet."""
        count = len(self.world.nodes)
        kinds = SHAPES[str(step[0])].split()
        for word, kind in zip(step[1:], kinds, strict=False):
            if kind == "node" and isinstance(word, int) and word >= count:
                return False
        return True

    def timer(self, me: NodeId, name: str, subject: int) -> TimerKey | None:
        """The running timer of that name, if there is one."""
        for key in self.world.nodes[me].timers:
            if key[1:] == (name, subject):
                return key
        return None

    # The end of a run

    def complete(self, recover_all: bool) -> bool:
        """End every fault, let everything arrive and all timers run out until all is quiet.

        False if it did not become quiet: then somebody goes on sending for ever.
        """
        self._end_faults(recover_all)
        quiet = 0
        for _ in range(LIMIT):
            spoke = self._empty_queues()
            timers = self._timers_in_order()
            if not timers and not self.world.queues:
                return True
            for me, key in timers:
                if key in self.world.nodes[me].timers:  # nobody stopped it meanwhile
                    self.world.run_out(me, key)
                    self.world.end_turn()
                    spoke = self._empty_queues() or spoke
            quiet = 0 if spoke else quiet + 1
            if quiet == QUIET:
                return True
        return False

    def _end_faults(self, recover_all: bool) -> None:
        world = self.world
        for a, b in list(world.cuts):
            if (a, b) in world.cuts:
                world.heal(a, b)
        for node in list(world.nodes):
            node.crash_after = None
            if recover_all and not node.up and not node.left and not node.gone:
                world.lives.recover(node.me)
                world.end_turn()
        world.lives.repeat_orders()
        world.end_turn()
        for who, whom in list(world.suspicions):
            if world.nodes[who].up and world.nodes[whom].up:
                world.trust(who, whom)
                world.end_turn()
        for who, whom in self._overlooked():
            world.suspect(who, whom)
            world.end_turn()

    def _overlooked(self) -> list[Way]:
        """Who should suspect whom by now: a node that stays down is suspected in the end by all who
        keep links to it, also by those who never had one."""
        world = self.world
        if not world.blueprint.overlay.static:
            return []
        down = [node for node in world.nodes if not node.up and not node.left]
        reach = world.blueprint.reach()
        near = {node.me: world.blueprint.topology.distances(node.place, reach) for node in down}
        return [
            (node.me, other.me)
            for other in down
            for node in world.nodes
            if node.up and node.place in near[other.me]
        ]

    def _empty_queues(self) -> bool:
        """Let everything arrive, link by link; whether there was anything but losses."""
        spoke = False
        while self.world.queues:
            for way in list(self.world.queues):
                if way in self.world.queues:
                    spoke = spoke or self.world.queues[way][0].layer != LOST
                    self.world.let_arrive(way, 0)
                    self.world.end_turn()
        return spoke

    def _timers_in_order(self) -> list[tuple[NodeId, TimerKey]]:
        running = [
            (expiry.at, node.me, key)
            for node in self.world.nodes
            if node.up
            for key, expiry in node.timers.items()
        ]
        return [(me, key) for _, me, key in sorted(running)]

    # One method per verb

    def _publish(self, me: int, group: str) -> bool:
        node = self.world.nodes[me]
        body = f"{me}.{node.published + 1}".encode()
        return node.up and self.world.lives.publish(NodeId(me), self._groups[group], body)

    def _arrive(self, sender: int, to: int, index: int = 0) -> bool:
        way = NodeId(sender), NodeId(to)
        queue = self.world.queues.get(way, [])
        if index >= len(queue) or (index > 0 and (self._fifo or queue[index].layer == LOST)):
            return False
        self.world.let_arrive(way, index)
        return True

    def _bring(self, sender: int, to: int) -> bool:
        way = NodeId(sender), NodeId(to)
        if all(item.message < 0 for item in self.world.queues.get(way, [])):
            return False
        while way in self.world.queues:  # what arrives may be the end of all that is behind it
            is_publication = self.world.queues[way][0].message >= 0
            self.world.let_arrive(way, 0)
            if is_publication:
                break
            self.world.end_turn()
        return True

    def _lose(self, sender: int, to: int, index: int = 0) -> bool:
        way = self._message(sender, to, index)
        if way is None:
            return False
        self.world.lose(way, index)
        return True

    def _double(self, sender: int, to: int, index: int = 0) -> bool:
        way = self._message(sender, to, index)
        if way is None or self.world.queues[way][-1].layer == LOST:
            return False
        self.world.double(way, index)
        return True

    def _expire(self, me: int, name: str, subject: int = 0) -> bool:
        key = self.timer(NodeId(me), name, subject)
        if key is None or not self.world.nodes[me].up:
            return False
        self.world.run_out(NodeId(me), key)
        return True

    def _crash(self, me: int, keep: float = 0.0) -> bool:
        if not self.world.nodes[me].up:
            return False
        self.world.lives.crash(NodeId(me), keep)
        return True

    def _crash_in_step(self, me: int, after_effects: int) -> bool:
        node = self.world.nodes[me]
        if not node.up or node.crash_after is not None:
            return False
        self.world.lives.crash_in_next_step(NodeId(me), after_effects)
        return True

    def _recover(self, me: int) -> bool:
        node = self.world.nodes[me]
        if node.up or node.left:
            return False
        self.world.lives.recover(NodeId(me))
        return True

    def _compact(self, me: int) -> bool:
        if not self.world.nodes[me].up:
            return False
        self.world.lives.compact(NodeId(me))
        return True

    def _suspect(self, who: int, whom: int) -> bool:
        if not self.world.nodes[who].up or (who, whom) in self.world.suspicions:
            return False
        self.world.suspect(NodeId(who), NodeId(whom))
        return True

    def _trust(self, who: int, whom: int) -> bool:
        if (who, whom) not in self.world.suspicions:
            return False
        self.world.trust(NodeId(who), NodeId(whom))
        return True

    def _cut(self, a: int, b: int) -> bool:
        if (a, b) in self.world.cuts:
            return False
        self.world.cut(NodeId(a), NodeId(b))
        return True

    def _heal(self, a: int, b: int) -> bool:
        if (a, b) not in self.world.cuts:
            return False
        self.world.heal(NodeId(a), NodeId(b))
        return True

    def _join(self, me: int, group: str) -> bool:
        if not self.world.nodes[me].up or self._is_asked_for(me, group):
            return False
        self.world.lives.join_group(NodeId(me), self._groups[group])
        return True

    def _leave(self, me: int, group: str) -> bool:
        if not self.world.nodes[me].up or not self._is_asked_for(me, group):
            return False
        self.world.lives.leave_group(NodeId(me), self._groups[group])
        return True

    def _is_asked_for(self, me: int, group: str) -> bool:
        node, number = self.world.nodes[me], self._groups[group]
        return number in node.groups or node.stack.is_joining(number)

    def _gone(self, me: int, peer: int) -> bool:
        if not self.world.nodes[me].up or self.world.nodes[peer].up:
            return False
        return self.world.lives.command(NodeId(me), f"gone {peer}")

    def _order(self, me: int, *words: str | int) -> bool:
        return self.world.lives.command(NodeId(me), " ".join(str(word) for word in words))

    def _message(self, sender: int, to: int, index: int) -> Way | None:
        way = NodeId(sender), NodeId(to)
        queue = self.world.queues.get(way, [])
        return way if index < len(queue) and queue[index].layer != LOST else None


def text_of(step: Step) -> str:
    """A step as people write it."""
    return " ".join(str(word) for word in step)


def parse(text: str, nodes: int, groups: Sequence[str]) -> Step:
    """A step from its text; raises ValueError that says what was expected."""
    verb, *words = text.split() or [""]
    if verb not in SHAPES:
        raise ValueError(f"a step that begins with one of {', '.join(SHAPES)}")
    shape = SHAPES[verb].split()
    required = [kind for kind in shape if not kind.startswith("[")]
    if not len(required) <= len(words) <= len(shape):
        raise ValueError(f"'{verb} {SHAPES[verb].upper()}'")
    values: list[str | int | float] = [verb]
    for word, kind in zip(words, shape, strict=False):
        values.append(_value(word, kind.strip("[]"), nodes, groups))
    return tuple(values)


def _value(word: str, kind: str, nodes: int, groups: Sequence[str]) -> str | int | float:
    if kind == "group":
        if word not in groups:
            raise ValueError(f"a group ({', '.join(groups)}), not {word!r}")
        return word
    if kind in ("timer", "word"):
        return word
    try:
        number = float(word) if kind == "share" else int(word)
    except ValueError:
        raise ValueError(f"a {kind}, not {word!r}") from None
    most = {"node": nodes - 1, "share": 1}.get(kind)
    if number < 0 or (most is not None and number > most):
        raise ValueError(f"a {kind} from 0 to {most}, not {word}")
    return number
