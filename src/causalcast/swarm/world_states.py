"""States of a directed world as small tuples: kept, compared, and put back into the world.

What repeats is kept once and called by number: the memory of a node (its automata, timers, disk),
an item of a queue, a log. A step that only one node notices is the same whatever the others do, so
what it does is remembered: most steps of a search then never touch the world.

Two states count as equal only if every node's memory in its order, every queue and every log are.
"""

import inspect
import pickle
from collections.abc import Hashable
from typing import Any, Generic, NamedTuple, TypeVar

from causalcast.core.ids import LinkId, NodeId
from causalcast.errors import ConfigError
from causalcast.simulator.directed_run import DirectedRun
from causalcast.simulator.scenarios.director import Step
from causalcast.simulator.worlds.directed_world import LOST, Item, Way
from causalcast.simulator.worlds.sim_node import Disk, Expiry, SimNode

Row = tuple[Any, ...]
Log = tuple[Row, ...]
Queue = tuple[int, ...]
Key = TypeVar("Key", bound=Hashable)


def is_interpreted() -> bool:
    """Whether the memory of nodes can be copied: compiled objects keep it to themselves."""
    return inspect.isfunction(SimNode.__init__)


class State(NamedTuple):
    """Everything that decides what can happen next, and what has happened."""

    memories: tuple[int, ...]
    queues: tuple[tuple[Way, Queue], ...]  # in the order of ways
    links: tuple[tuple[tuple[NodeId, LinkId], ...], ...]
    live: tuple[LinkId, ...]
    suspicions: tuple[tuple[NodeId, NodeId], ...]
    cuts: tuple[Way, ...]
    now: int
    logs: tuple[int, ...]


class Effect(NamedTuple):
    """What a step does that only one node notices."""

    memory: int
    sends: tuple[tuple[NodeId, Queue], ...]
    rows: Log
    links: tuple[tuple[NodeId, LinkId], ...]
    now: int


class NodeFacts(NamedTuple):
    """What a search must know of a node without waking it."""

    up: bool
    left: bool
    place: NodeId
    timers: tuple[tuple[str, int], ...]
    dials: int


class Numbers(Generic[Key]):
    """Gives equal things the same number."""

    def __init__(self) -> None:
        self._of: dict[Key, int] = {}
        self.things: list[Key] = []

    def of(self, thing: Key) -> int:
        """The number of a thing; a new one if it was never seen."""
        number = self._of.get(thing)
        if number is None:
            number = self._of[thing] = len(self.things)
            self.things.append(thing)
        return number


class WorldStates:
    """Takes states out of a directed world and puts them back."""

    def __init__(self, run: DirectedRun, timers_in_order: bool = True) -> None:
        """`timers_in_order`: states differ if the same timers were started in another order."""
        self._run = run
        self._timers_in_order = timers_in_order
        self.world = run.simulation
        self._memories: Numbers[bytes] = Numbers()
        self._items: Numbers[tuple[LinkId, int, bytes, int]] = Numbers()
        self._logs: Numbers[Log] = Numbers()
        self._facts: dict[int, NodeFacts] = {}
        self._loaded: list[int] = []  # which memory each node of the world has now
        self._effects: dict[tuple[Any, ...], Effect | None] = {}

    def first(self) -> State:
        """The state that the world is in now."""
        self.world.steps.touched = {node.me: None for node in self.world.nodes}
        nothing = self._logs.of(())
        empty = State((), (), (), (), (), (), 0, tuple(nothing for _ in self.world.nodes))
        return self._take(empty)

    def after(self, state: State, step: Step) -> State:
        """The state that a step leads to. Exceptions of automata pass through."""
        if step[0] == "cut":
            return self._after_cut(state, NodeId(int(step[1])), NodeId(int(step[2])))
        key = self._local_key(state, step)
        if key is not None and self._effects.get(key) is not None:
            effect = self._effects[key]
            assert effect is not None
            return self._apply(state, step, effect)
        self.restore(state)
        self.world.steps.touched = {}
        try:
            self._run.director.do(step)
        except Exception:
            self.forget_world()
            raise
        after = self._take(state)
        if key is not None and key not in self._effects:
            self._effects[key] = self._effect(state, step, after)
        return after

    def restore(self, state: State) -> None:
        """Put a state back into the world."""
        world = self.world
        loaded, self._loaded = self._loaded, list(state.memories)
        loaded += [-1] * (len(state.memories) - len(loaded))
        del world.nodes[len(state.memories) :]
        for me, memory in enumerate(state.memories):
            if loaded[me] != memory:
                self._load(me, memory)
        items = self._items.things
        world.queues = {way: [Item(*items[i]) for i in queue] for way, queue in state.queues}
        world.links = [dict(links) for links in state.links]
        world.live = dict.fromkeys(state.live)
        world.suspicions = dict.fromkeys(state.suspicions)
        world.cuts = dict.fromkeys(state.cuts)
        world.out.now = state.now
        world.shared.recorder.take()

    def forget_world(self) -> None:
        """The world is no longer in the state that was put into it last."""
        self._loaded = []
        out = self.world.out
        out.effects.clear()
        out.records.clear()
        out.notices.clear()
        out.requests.clear()

    def facts(self, memory: int) -> NodeFacts:
        """What is known of the node with this memory."""
        return self._facts[memory]

    def item(self, number: int) -> tuple[LinkId, int, bytes, int]:
        """Link, layer, data and publication of an item."""
        return self._items.things[number]

    def log(self, number: int) -> Log:
        """The rows of a log, without times."""
        return self._logs.things[number]

    def logs_now(self, before: State) -> tuple[int, ...]:
        """The logs of `before` with all rows that were written since it was put back."""
        rows: dict[int, list[Row]] = {}
        for node, _, *rest in self.world.shared.recorder.take():
            rows.setdefault(node, []).append((node, 0, *rest))  # times differ in vain
        logs = [*before.logs, *[self._logs.of(())] * (len(self.world.nodes) - len(before.logs))]
        for me, new in rows.items():
            logs[me] = self._logs.of((*self._logs.things[logs[me]], *new))
        return tuple(logs)

    def _after_cut(self, state: State, a: NodeId, b: NodeId) -> State:
        """Break a live link, as the world does. Nodes notice when they hear of the loss."""
        link = dict(state.links[a])[b]
        loss = (self._items.of((link, LOST, b"broken", -1)),)
        return state._replace(
            queues=tuple(sorted({**dict(state.queues), (a, b): loss, (b, a): loss}.items())),
            live=tuple(other for other in state.live if other != link),
            cuts=(*state.cuts, (a, b), (b, a)),
        )

    # Steps that only one node notices

    def _local_key(self, state: State, step: Step) -> tuple[Any, ...] | None:
        """All that decides the outcome of such a step; none if it may concern other nodes, too."""
        verb = step[0]
        plan = self.world.shared.plan
        if plan.read_us > 0 and verb == "arrive":
            return None  # others may come with it
        if verb == "arrive":
            me, index = int(step[2]), int(step[3]) if len(step) > 3 else 0
            queue = dict(state.queues)[NodeId(int(step[1])), NodeId(me)]
            what: tuple[Any, ...] = (step[1], queue[index])
        elif verb in ("expire", "publish"):
            me, what = int(step[1]), step[2:]
            if verb == "expire" and plan.tells_congestion():
                what += tuple(way[1] for way, _ in state.queues if way[0] == me)
        else:
            return None
        links = tuple((peer, link, link in state.live) for peer, link in state.links[me])
        return (verb, what, me, state.memories[me], links, state.cuts, state.now)

    def _effect(self, state: State, step: Step, after: State) -> Effect | None:
        """What the step did, if nobody else noticed."""
        me = NodeId(int(step[2] if step[0] == "arrive" else step[1]))
        alone = set(self.world.steps.touched) <= {me} and len(after.memories) == len(state.memories)
        others = [links for node, links in enumerate(state.links) if node != me]
        same = others == [links for node, links in enumerate(after.links) if node != me]
        if not alone or not same or after.live != state.live:
            return None
        before = dict(self._without_item(state, step))
        sends = tuple(
            (way[1], queue[len(before.get(way, ())) :])
            for way, queue in after.queues
            if way[0] == me and len(queue) > len(before.get(way, ()))
        )
        new = len(self.log(state.logs[me]))
        rows = self.log(after.logs[me])[new:]
        return Effect(after.memories[me], sends, rows, after.links[me], after.now)

    def _apply(self, state: State, step: Step, effect: Effect) -> State:
        me = NodeId(int(step[2] if step[0] == "arrive" else step[1]))
        queues = self._without_item(state, step)
        if effect.sends:
            grown = dict(queues)
            for to, items in effect.sends:
                grown[me, to] = (*grown.get((me, to), ()), *items)
            queues = tuple(sorted(grown.items()))
        logs = state.logs
        if effect.rows:
            log = self._logs.of((*self.log(logs[me]), *effect.rows))
            logs = (*logs[:me], log, *logs[me + 1 :])
        memories = (*state.memories[:me], effect.memory, *state.memories[me + 1 :])
        links = (*state.links[:me], effect.links, *state.links[me + 1 :])
        return state._replace(
            memories=memories, queues=queues, links=links, now=effect.now, logs=logs
        )

    def _without_item(self, state: State, step: Step) -> tuple[tuple[Way, Queue], ...]:
        if step[0] != "arrive":
            return state.queues
        arrives = (step[1], step[2])
        index = int(step[3]) if len(step) > 3 else 0
        shorter = [
            (way, queue[:index] + queue[index + 1 :] if way == arrives else queue)
            for way, queue in state.queues
        ]
        return tuple((way, queue) for way, queue in shorter if queue)

    # Out of the world, and back

    def _take(self, before: State) -> State:
        world = self.world
        memories = [*before.memories, *[-1] * (len(world.nodes) - len(before.memories))]
        for me in world.steps.touched:
            memories[me] = self._memory(world.nodes[me])
        self._loaded = list(memories)
        return State(
            tuple(memories),
            tuple(
                (way, tuple(self._items.of((i.link, i.layer, i.data, i.message)) for i in queue))
                for way, queue in sorted(world.queues.items())
            ),
            tuple(tuple(links.items()) for links in world.links),
            tuple(world.live),
            tuple(world.suspicions),
            tuple(world.cuts),
            world.now,
            self.logs_now(before),
        )

    def _memory(self, node: SimNode) -> int:
        timers = [(key, expiry.at) for key, expiry in node.timers.items()]
        if not self._timers_in_order:
            timers.sort()
        disk = (node.disk.records, node.disk.published)
        plain = (
            node.me,
            node.place,
            node.up,
            node.came,
            node.left,
            node.gone,
            node.lives,
            node.dials,
            node.published,
        )
        try:
            memory = pickle.dumps((node.stack, node.groups, timers, disk, plain), 5)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            name = self.world.blueprint.protocol.name
            raise ConfigError(f"{name} cannot be explored: {error}") from None
        number = self._memories.of(memory)
        names = tuple((key[1], key[2]) for key, _ in timers)
        self._facts[number] = NodeFacts(node.up, node.left, node.place, names, node.dials)
        return number

    def _load(self, me: int, memory: int) -> None:
        stack, groups, timers, disk, plain = pickle.loads(self._memories.things[memory])
        node = SimNode(plain[0], plain[1], stack)
        node.groups = groups
        node.up, node.came, node.left, node.gone = plain[2:6]
        node.lives, node.dials, node.published = plain[6:]
        node.disk = Disk()
        node.disk.records, node.disk.published = disk
        for key, at in timers:
            expiry = Expiry(node, *key)
            expiry.at = at
            node.timers[key] = expiry
        if me == len(self.world.nodes):
            self.world.nodes.append(node)
        else:
            self.world.nodes[me] = node
