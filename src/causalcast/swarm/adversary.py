"""A director that looks at the nodes and does what hurts.

Random schedules seldom build the long chains of causes over slow links, jumps and crashes that
break protocols. This one prefers to: answer at the node that delivered last, so that publications
form chains; keep a cause from somebody until its effect is there; let new publications overtake
old ones; keep most links slow for a while; let a node suspect everybody between it and a far one;
crash a node while it has something in flight, has the last copy of a publication, holds something
back, or is in the middle of a step or a handshake. It stays within what the protocol promises to
survive. Every step is written down before it happens, so the run can be repeated from the list.
"""

import random
from collections.abc import Callable, Mapping
from typing import Any

from causalcast.core.ids import NodeId
from causalcast.core.message import Publication
from causalcast.core.spec import ProtocolSpec
from causalcast.core.topology import Topology
from causalcast.simulator.directed_run import DirectedRun
from causalcast.simulator.scenarios.director import SHAPES, Step, text_of
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.simulator.scenarios.world_table import may_come_back
from causalcast.simulator.worlds.directed_world import LOST, Way
from causalcast.swarm.generate import Draw, may_join, promises_without_the_dead, toml_text
from causalcast.swarm.real_worlds import tell

SIZES = (2, 3, 3, 4, 4, 5, 6, 7, 9)
FEWEST_STEPS, MOST_STEPS = 20, 120
MOST_PUBLICATIONS = 8
SLOW_SHARE = 0.6  # of all links, at any time
TOLD_WITHIN = 2  # hops: who is told that somebody is gone
HALF = 0.5
TALKS = 0.8  # of all runs in which members may change, so many are made of talks
TALK_MOVES = 8, 40
TALK_STEPS = 60  # so much arrives at most when some nodes talk among themselves
RACE_STEPS = 15  # so long an effect may take to overtake its cause

Tactic = Callable[[], list[Step]]


class Adversary:
    """Directs one run from one seed.

    Large because each thing that it may do is a short method here: all draw from one
    generator, and the order in which they do so decides what a seed means.
    """

    def __init__(
        self,
        run: DirectedRun,
        rng: random.Random,
        beyond: bool,
        gives_up: bool = False,
        doubts: bool = False,
    ) -> None:
        self.run = run
        # Where the dead stay dead, some are taken for dead, rightly or not, also on a mesh.
        self._doubts = doubts and not run.scenario.recover_all
        self._beyond = beyond  # what the protocol promises to survive
        self._gives_up = gives_up  # nodes that are down: some are declared gone for good
        self.steps: list[Step] = []
        self.before_step: Callable[[int], None] = lambda number: None  # hears of each step
        self.before_rest: Callable[[], None] = lambda: None
        self._rng = rng
        self._world = run.simulation
        self._spec = run.scenario.blueprint.protocol
        self._topology = run.scenario.blueprint.topology
        # Whoever fell without a disk cannot come back, so nobody falls.
        self._forgets = not may_come_back(self._spec, run.scenario.world)
        self._groups = run.scenario.blueprint.groups.names
        self._publications = rng.randint(2, MOST_PUBLICATIONS)
        self._slow: dict[Way, None] = {}
        self._last = NodeId(rng.randrange(len(self._world.nodes)))  # who delivered last
        self._newest = -1  # what it delivered
        self._race: tuple[NodeId, int] | None = None  # who must not get which message for now
        self._race_ends = 0  # at this many steps
        self._age: dict[int, int] = {}  # publications in the order of their first delivery
        self._holders: dict[int, dict[NodeId, None]] = {}  # who was ever handed which publication
        self._world.listener = self._on_delivery
        self._moves = 0  # if not 0, so many
        self._removable: list[int] = []
        if self._spec.agrees_on_members:
            founders = int(run.scenario.blueprint.protocol_options["founders"])
            count = (founders or len(self._world.nodes)) - 1
            self._removable = rng.sample(range(len(self._world.nodes)), count // 2)
        self._tactics = self._choose_tactics()
        self._redraw_slow_links()

    def play(self, moves: int | None = None) -> None:
        """Direct until enough has happened, then let everything come to rest."""
        if moves is None:
            moves = self._moves or self._rng.randint(FEWEST_STEPS, MOST_STEPS)
        for _ in range(moves):
            if self._rng.random() < 0.05:
                self._redraw_slow_links()
            self._do(self._pick())
        self._come_to_rest()

    def play_again(self, steps: list[Step]) -> None:
        """Do what was done in another run, but nothing that the protocol cannot survive."""
        for step in steps:
            if self._names_what_is_here(step) and self._may_happen(step):
                self._do([step])

    def _names_what_is_here(self, step: Step) -> bool:
        kinds = SHAPES[str(step[0])].split()
        named = list(zip(step[1:], kinds, strict=False))
        nodes = [int(word) for word, kind in named if kind == "node"]
        here = max(nodes, default=0) < len(self._world.nodes) and len(set(nodes)) == len(nodes)
        return here and all(word in self._groups for word, kind in named if kind == "group")

    def _may_happen(self, step: Step) -> bool:
        if step[0] in ("crash", "crash_in_step"):
            return self._may_fall(NodeId(int(step[1])))
        if step[0] in ("lose", "double"):
            return self._spec.needs.links == "any" and not self.run.scenario.network.fifo
        if step[0] == "recover":
            return not self._world.nodes[int(step[1])].gone  # who is given up stays away
        if step[0] == "gone":
            near = self._topology.distances(self._place(NodeId(int(step[2]))), TOLD_WITHIN)
            return int(step[1]) in near
        return True

    def _come_to_rest(self) -> None:
        self.before_rest()
        self.run.complete()

    def _do(self, steps: list[Step]) -> None:
        for step in steps:
            self.steps.append(step)  # before it happens: it may be the last
            self.before_step(len(self.steps))
            self.run.director.do(step)

    def _choose_tactics(self) -> list[tuple[float, Tactic]]:
        loses = self._spec.needs.links == "any" and not self.run.scenario.network.fifo
        if self._removable and loses and not self._forgets and self._rng.random() < TALKS:
            self._moves = self._rng.randint(*TALK_MOVES)
            return [
                (6, self._publish),
                (6, self._publish_unheard),
                (30, self._talk),
                (6, self._remove),
                (3, self._crash),
                (4, self._recover),
                (2, self._compact),
                (5, self._lose_much),
                (3, self._arrive),
                (1, self._change_group),
            ]
        tactics: list[tuple[float, Tactic]] = [
            (14, self._publish),
            (50, self._arrive),
            (5, self._expire),
            (12, self._open_jump),
            (6, self._trust),
        ]
        if not self._gives_up:  # who is gone may be the one that admits new members
            tactics += [(3, self._change_group)]
        if self._spec.tolerates is not None or self._beyond:
            tactics += (
                [(2, self._cut), (3, self._heal)]
                if self._forgets
                else [
                    (3, self._crash),
                    (1, self._crash_in_step),
                    (6 if self.run.scenario.recover_all else 1, self._recover),
                    (2, self._compact),
                    (2, self._cut),
                    (3, self._heal),
                ]
            )
        if self._gives_up:
            tactics += [(4, self._give_up)]
        if self._spec.command_plans is not None:
            tactics += [(4, self._order)]
        if self._removable:
            tactics += [(10, self._remove), (30, self._talk)]
        if self._spec.needs.links == "any" and not self.run.scenario.network.fifo:
            tactics += [(3, self._lose), (3, self._double)]
            if self._removable:
                tactics += [(8, self._publish_unheard)]
        return tactics

    def _pick(self) -> list[Step]:
        weights = [weight for weight, _ in self._tactics]
        tactics = [tactic for _, tactic in self._tactics]
        return self._rng.choices(tactics, weights)[0]()

    # What hurts

    def _publish(self) -> list[Step]:
        if self._publications == 0:
            return self._arrive()
        node = self._last if self._rng.random() < 0.7 else self._some_node()
        if not self._world.nodes[node].up:
            return []
        self._publications -= 1
        if node == self._last and self._rng.random() < 0.7:
            self._start_race()
        return [("publish", node, self._rng.choice(self._groups))]

    def _start_race(self) -> None:
        """Somebody who lacks what is being answered shall get the answer first."""
        has = self._holders.get(self._newest, {})
        lacking = [node.me for node in self._world.nodes if node.up and node.me not in has]
        if lacking:
            self._race = (self._rng.choice(lacking), self._newest)
            self._race_ends = len(self.steps) + RACE_STEPS

    def _is_kept_back(self, way: Way, index: int) -> bool:
        if self._race is None or len(self.steps) > self._race_ends:
            return False
        return self._race == (way[1], self._world.queues[way][index].message)

    def _arrive(self) -> list[Step]:
        ways = [way for way in self._world.queues if not self._is_kept_back(way, 0)]
        fast = [way for way in ways if way not in self._slow]
        if fast and self._rng.random() < 0.9:
            ways = fast
        if not ways:
            return self._expire()
        if self._rng.random() < 0.5:
            way = max(ways, key=self._novelty)
        else:
            way = self._rng.choice(ways)
        return [("arrive", *way, *self._index(way))]

    def _novelty(self, way: Way) -> tuple[int, int]:
        """Jumps over a node first, then publications that nobody has been handed for long."""
        message = self._world.queues[way][0].message
        sender, to = self._place(way[0]), self._place(way[1])
        jump = to not in self._topology.neighbours[sender]
        return int(jump), self._age.get(message, len(self._age)) if message >= 0 else -1

    def _index(self, way: Way) -> tuple[int, ...]:
        queue = self._world.queues[way]
        if self.run.scenario.network.fifo or self._rng.random() < 0.7:
            return ()
        index = self._rng.randrange(len(queue))
        kept_back = queue[index].layer == LOST or self._is_kept_back(way, index)
        return () if kept_back else (index,)

    def _expire(self) -> list[Step]:
        timers = [
            (node.me, key) for node in self._world.nodes if node.up for key in sorted(node.timers)
        ]
        if not timers:
            return []
        me, (_, name, subject) = self._rng.choice(timers)
        return [("expire", me, name, subject)]

    def _open_jump(self) -> list[Step]:
        """Let a node suspect everybody between it and a far one."""
        start = self._last if self._rng.random() < 0.5 else self._some_node()
        if not self._world.nodes[start].up:
            return []
        distances = self._topology.distances(self._place(start), 4)
        far = [node for node, hops in distances.items() if hops >= 2]
        if not far:
            return self._doubt(start)
        path = _path(self._topology, self._place(start), self._rng.choice(far))
        return [("suspect", start, between) for between in path[1:-1]]

    def _doubt(self, who: NodeId) -> list[Step]:
        """Where all are linked there is nobody between: suspect anybody, now and then."""
        others = [node.me for node in self._world.nodes if node.me != who]
        if not self._doubts or self._rng.random() < 0.7:
            return []
        return [("suspect", who, self._rng.choice(others))]

    def _trust(self) -> list[Step]:
        suspicions = list(self._world.suspicions)
        return [("trust", *self._rng.choice(suspicions))] if suspicions else []

    def _crash(self) -> list[Step]:
        victims = [victim for victim in self._victims() if self._may_fall(victim)]
        if not victims:
            return []
        keep = self._rng.choice([0.0, 0.0, 0.5, 1.0])
        return [("crash", self._rng.choice(victims), keep)]

    def _victims(self) -> list[NodeId]:
        """Those whose fall hurts most now: the last copy, messages in flight, a handshake."""
        senders = [way[0] for way in self._world.queues]
        kind = self._rng.randrange(4)
        if kind == 0:
            flying = [
                (way[0], item.message)
                for way, queue in self._world.queues.items()
                for item in queue
                if item.message >= 0
            ]
            last = [who for who, message in flying if len(self._holders.get(message, {})) == 1]
            return last or senders
        if kind == 1:
            return senders
        if kind == 2:
            greeting = [
                way[1]
                for way, queue in self._world.queues.items()
                if any(item.message < 0 for item in queue)
            ]
            return greeting or senders
        return [who for who, _ in self._world.held] or [self._some_node()]

    def _crash_in_step(self) -> list[Step]:
        """In the middle of the step that the next item leads to."""
        ways = [way for way in self._world.queues if self._may_fall(way[1])]
        if not ways:
            return []
        way = self._rng.choice(ways)
        return [("crash_in_step", way[1], self._rng.randrange(5)), ("arrive", *way)]

    def _recover(self) -> list[Step]:
        down = [n.me for n in self._world.nodes if not n.up and not n.left and not n.gone]
        return [("recover", self._rng.choice(down))] if down else []

    def _give_up(self) -> list[Step]:
        """Declare somebody gone that fell; now and then another node is told so as well."""
        down = [node.me for node in self._world.nodes if not node.up and not node.left]
        if not down:
            return self._crash()
        peer = self._rng.choice(down)
        near = self._topology.distances(self._place(peer), TOLD_WITHIN)
        return [("gone", self._rng.choice(list(near)), peer)]

    def _remove(self) -> list[Step]:
        """Order that a member is removed: one that fell, or one that is well."""
        peer = NodeId(self._rng.choice(self._removable))
        steps: list[Step] = []
        if self._rng.random() < 0.6 and not self._forgets and self._world.nodes[peer].up:
            steps.append(("crash", peer, self._rng.choice([0.0, 0.5, 1.0])))
        return [*steps, ("order", self._some_node(), "gone", peer)]

    def _lose_much(self) -> list[Step]:
        """Half of what is under way never arrives."""
        for way in list(self._world.queues):
            for index in range(len(self._world.queues[way]) - 1, -1, -1):
                if self._rng.random() < HALF:
                    self._do([("lose", *way, index)])
        return []

    def _publish_unheard(self) -> list[Step]:
        """A publication that reaches nobody; others hear of it when members report."""
        up = [node.me for node in self._world.nodes if node.up]
        if self._publications == 0 or not up:
            return []
        node = self._rng.choice(up)
        self._publications -= 1
        before = {way: len(queue) for way, queue in self._world.queues.items()}
        self._do([("publish", node, self._rng.choice(self._groups))])
        for way in [way for way in self._world.queues if way[0] == node]:
            for index in range(len(self._world.queues[way]) - 1, before.get(way, 0) - 1, -1):
                self._do([("lose", *way, index)])
        return []

    def _talk(self) -> list[Step]:
        """Some nodes talk among themselves: timers of one run out, again and again, and what is
        between them arrives. So members agree on something while others are out of reach."""
        up = [node.me for node in self._world.nodes if node.up]
        if len(up) < 2:
            return []
        some = self._rng.sample(up, self._rng.randint(2, len(up)))
        for _ in range(self._rng.randint(1, 3)):
            for _, name, subject in sorted(self._world.nodes[some[0]].timers):
                if self._world.nodes[some[0]].up:
                    self._do([("expire", some[0], name, subject)])
                    self._arrive_among(some)
        return []

    def _arrive_among(self, some: list[NodeId]) -> None:
        for _ in range(self._rng.choice([3, 10, TALK_STEPS, TALK_STEPS])):
            ways = [way for way in self._world.queues if way[0] in some and way[1] in some]
            if not ways:
                return
            way = self._rng.choice(ways)
            self._do([("arrive", *way)])

    def _order(self) -> list[Step]:
        """An operator orders something, and the applications concerned leave their groups."""
        blueprint = self.run.scenario.blueprint
        assert self._spec.command_plans is not None
        plans = self._spec.command_plans(blueprint.protocol_options, self._topology)
        if not plans:
            return []
        plan = self._rng.choice(plans)
        order = self._rng.choice(plan.commands)
        steps: list[Step] = [("order", self._rng.choice(plan.at), *_words(order))]
        if order == plan.commands[0]:
            leaving = [("leave", node, group) for node in plan.leavers for group in self._groups]
            steps += [step for step in leaving if self._is_member(*step[1:])]
        return steps

    def _is_member(self, node: NodeId, group: str) -> bool:
        number = self.run.scenario.blueprint.groups.id_of(group)
        return number in self._world.nodes[node].groups

    def _waits_for_admission(self, node: NodeId, group: str) -> bool:
        number = self.run.scenario.blueprint.groups.id_of(group)
        return self._world.nodes[node].stack.is_joining(number)

    def _compact(self) -> list[Step]:
        """A snapshot, and a crash that makes the node live from it."""
        holding = [who for who, _ in self._world.held]
        node = self._rng.choice(holding) if holding else self._some_node()
        steps: list[Step] = [("compact", node)]
        if self._may_fall(node):
            steps.append(("crash", node, 1.0))
            if self._spec.restart == "resume" and self._rng.random() < 0.5:
                steps.append(("recover", node))
                self._last = node  # so that it publishes soon, from what it knows now
        return steps

    def _cut(self) -> list[Step]:
        ways = list(self._world.queues)
        return [("cut", *self._rng.choice(ways))] if ways else []

    def _heal(self) -> list[Step]:
        cuts = list(self._world.cuts)
        return [("heal", *self._rng.choice(cuts))] if cuts else []

    def _lose(self) -> list[Step]:
        ways = list(self._world.queues)
        return [("lose", *self._rng.choice(ways))] if ways else []

    def _double(self) -> list[Step]:
        ways = list(self._world.queues)
        return [("double", *self._rng.choice(ways))] if ways else []

    def _change_group(self) -> list[Step]:
        """Somebody joins; or, less often, leaves, or both."""
        node, group = self._some_node(), self._rng.choice(self._groups)
        if self._waits_for_admission(node, group):
            return [("leave", node, group)] if self._rng.random() < 0.3 else []
        if not self._is_member(node, group):
            return [("join", node, group)] if may_join(self._spec) else []
        leaves_and_returns = [("leave", node, group), ("join", node, group)]
        most = 2 if may_join(self._spec) else 1
        return list(leaves_and_returns[: self._rng.randint(0, most)])

    # Small things

    def _on_delivery(self, node: NodeId, publication: Publication) -> None:
        self._last = node
        self._newest = publication.id
        self._age.setdefault(publication.id, len(self._age))
        self._holders.setdefault(publication.id, {})[node] = None

    def _redraw_slow_links(self) -> None:
        nodes = range(len(self._world.nodes))
        ways = [(NodeId(a), NodeId(b)) for a in nodes for b in nodes if a != b]
        self._slow = {way: None for way in ways if self._rng.random() < SLOW_SHARE}

    def _may_fall(self, victim: NodeId) -> bool:
        """Whether the protocol promises to survive it, with all that are down already."""
        if self._beyond:
            return self._world.nodes[victim].up
        down = [n.place for n in self._world.nodes if not n.up and not n.left]
        seed = str(self.run.scenario.seed)
        place = self._place(victim)
        return self._world.nodes[victim].up and self.run.scenario.blueprint.tolerates(
            [*down, place], seed
        )

    def _some_node(self) -> NodeId:
        return NodeId(self._rng.randrange(len(self._world.nodes)))

    def _place(self, node: NodeId) -> NodeId:
        return self._world.nodes[node].place


def draw_stage(
    spec: ProtocolSpec,
    seed: int,
    options: Mapping[str, Any],
    overlay: str = "",
    for_good: bool = False,
    facts: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]:
    """Head and tables of a scenario without steps: who is there, how links behave, and whether
    those that are down at the end come back. `facts`: what protocols are told of the world."""
    draw = Draw(spec, seed, options, overlay, SIZES)
    head = {"protocol": spec.name, "seed": seed, "steps": []}
    fifo = draw.links == "fifo" or draw.rng.random() < 0.5
    groups = draw.groups()
    may_stay_down = for_good or promises_without_the_dead(spec)
    recover_all = not may_stay_down or draw.rng.random() < 0.5
    tables: list[tuple[str, dict[str, Any]]] = [
        ("options", dict(draw.options)),
        ("overlay", {"kind": "edges", "nodes": draw.nodes, "edges": draw.edges}),
        ("network", {"fifo": fifo}),
        ("groups", groups),
        ("calm", {"recover_all": recover_all}),
    ]
    return head, tell(tables, dict(facts or {}), spec)


def with_steps(
    head: dict[str, Any], tables: list[tuple[str, dict[str, Any]]], steps: list[Step]
) -> str:
    """The scenario as text, its steps with it."""
    return toml_text({**head, "steps": [text_of(step) for step in steps]}, tables)


def prepare_adversary(
    scenario: Scenario,
    level: str,
    beyond: bool = False,
    gives_up: bool = False,
    doubts: bool = False,
) -> Adversary:
    """An adversary on the stage of a scenario, its choices drawn from the scenario's seed."""
    rng = random.Random(f"adversary/{scenario.blueprint.protocol.name}/{scenario.seed}")
    return Adversary(DirectedRun(scenario, level), rng, beyond, gives_up, doubts)


def _words(order: str) -> list[str | int]:
    """An order as words of a step."""
    return [int(word) if word.isdigit() else word for word in order.split()]


def _path(topology: Topology, start: NodeId, end: NodeId) -> list[NodeId]:
    """A shortest path, both ends included."""
    distance = topology.distances(end, len(topology.neighbours))
    path = [start]
    while path[-1] != end:
        path.append(min(topology.neighbours[path[-1]], key=lambda node: distance[node]))
    return path
