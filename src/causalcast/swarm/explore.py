"""Explores every interleaving of a small scenario; nothing is sampled.

The publications of a scenario may happen at any moment, each node's in their order; messages arrive
in every order their links allow; and as often as the limits say, timers run out, nodes crash and
come back, suspicions are raised, links are cut, messages are lost or doubled. States that are equal
are expanded once. Every new history is judged for safety, and every state in which nothing is left
to happen is brought to rest and judged for everything that is promised.

A scenario that lists its steps sets the stage with them: what is explored are the publications at
the end of the list, from where the steps before them have led.

Breadth first, so the first counter-example found is one with the fewest steps. A *reduced* search
tries steps that commute in one order only (`commuting` says why that loses nothing); it finds a
counter-example if there is one, perhaps not the shortest.
"""

import hashlib
import marshal
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from causalcast.core.ids import NodeId
from causalcast.errors import ConfigError, TraceError
from causalcast.judge import judge
from causalcast.simulator.directed_run import DirectedRun
from causalcast.simulator.run_result import run_of
from causalcast.simulator.scenarios.director import Step, text_of
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.simulator.scenarios.world_table import may_come_back, world_of_steps
from causalcast.simulator.worlds.directed_world import LOST
from causalcast.swarm.commuting import enough_to_try, node_of
from causalcast.swarm.safe_parts import PROMISE, Parts, within_parts
from causalcast.swarm.smaller import text_of_scenario
from causalcast.swarm.trial import (
    AT_REST,
    INVARIANT,
    NO_EXCEPTION,
    SAFETY,
    STORM_PER_NODE,
    Problem,
    promised,
)
from causalcast.swarm.world_states import Numbers, State, WorldStates, is_interpreted
from causalcast.trace.recorder import Recorder

SPENDS = {
    "expire": "timers",
    "crash": "crashes",
    "suspect": "suspicions",
    "cut": "cuts",
    "lose": "losses",
    "double": "duplications",
}


class Limits(NamedTuple):
    """How often each kind of fault may happen in one run."""

    timers: int = 0
    crashes: int = 0
    suspicions: int = 0
    cuts: int = 0
    losses: int = 0
    duplications: int = 0


class Place(NamedTuple):
    """Where a run stands: the state of the world, what is still to come, what may still happen."""

    state: State
    to_publish: tuple[tuple[str, ...], ...]  # per node: the groups, in order
    left: Limits


@dataclass
class Exploration:
    """What was found."""

    states: int = 0
    transitions: int = 0
    final_states: int = 0
    histories: int = 0
    depth: int = 0
    seconds: float = 0.0
    exhausted: bool = False
    problem: Problem | None = None
    steps: list[Step] = field(default_factory=list)
    text: str = ""

    def proved(self) -> bool:
        """Every interleaving was seen, and none broke anything."""
        return self.exhausted and self.problem is None


class Explorer:
    """Walks through all states that a scenario can reach."""

    def __init__(
        self,
        scenario: Scenario,
        limits: Limits,
        most_states: int = 10_000_000,
        most_seconds: float = 3600,
        check: Sequence[str] = (),
        reduced: bool = False,
    ) -> None:
        """`check` names what is judged instead of what the protocol promises."""
        self._scenario = scenario
        self._limits = limits
        self._most_states = most_states
        self._most_seconds = most_seconds
        self._reduced = reduced
        in_order = scenario.network.fifo and not scenario.world.read_us
        if reduced and (any(limits._replace(cuts=0)) or not in_order):
            raise ConfigError(
                f"{scenario.where}: a reduced search knows publications, arrivals on FIFO links "
                "one by one, and cuts; anything else needs the full search"
            )
        if limits.crashes and not may_come_back(scenario.blueprint.protocol, scenario.world):
            raise ConfigError(
                f"{scenario.where}: crashes: expected 0 where world.keeps_records is false"
            )
        for verb, limit in SPENDS.items():
            objection = scenario.objection_to_step(verb)
            if objection and getattr(limits, limit):
                raise ConfigError(f"{scenario.where}: {limit}: expected 0, {objection}")
        if not is_interpreted():
            raise ConfigError(
                "explore copies the memory of nodes, which compiled code does not show: leave the "
                "compiled package out of PYTHONPATH"
            )
        self._spec = scenario.blueprint.protocol
        self._promised = tuple(check or promised(self._spec))
        self._stage, self._publications = _stage_and_publications(scenario)
        text = _as_directed(scenario, self._stage)
        self._directed = Scenario(text, scenario.where, scenario.protocol_name)
        self._run = DirectedRun(self._directed, "deliveries", turn_us=0)
        for step in self._stage:
            if not self._run.director.do(step):
                raise ConfigError(f"{scenario.where}: steps: {text_of(step)!r} cannot happen there")
        self._run.simulation.steps.invariants = list(self._spec.invariants)
        # The order matters to nobody while no timer may run out: at rest they run out by time.
        self._states = WorldStates(self._run, timers_in_order=not reduced)
        self._judged: dict[tuple[int, ...], Problem | None] = {}
        self._judged_at_rest: dict[tuple[tuple[int, ...], str], Problem | None] = {}
        self._tolerated: dict[tuple[NodeId, ...], bool] = {}
        # To each place: from which, by which step; there may be millions.
        self._came_from = array("q")
        self._came_by = array("q")
        self._kinds_of_steps: Numbers[Step] = Numbers()
        self._seen: dict[bytes, int] = {}
        self._waiting: deque[tuple[int, int, Place]] = deque()  # number, depth, place

    def explore(self, progress: Callable[[int, int], None] | None = None) -> Exploration:
        """Visit every state; stop at the first that is wrong, or when it takes too long."""
        started = time.monotonic()
        found = Exploration()
        self._reach(self._first(), -1, ("start",), 0)
        while self._waiting and found.problem is None:
            number, found.depth, place = self._waiting.popleft()
            if number % 1000 == 0:
                if progress is not None:
                    progress(len(self._seen), len(self._waiting))
                if len(self._seen) > self._most_states or _since(started) > self._most_seconds:
                    break
            self._expand(number, place, found)
        found.exhausted = not self._waiting and found.problem is None
        found.states = len(self._seen)
        found.histories = len(self._judged)
        found.seconds = _since(started)
        if found.problem is not None:
            found.text = _as_directed(self._scenario, [*self._stage, *found.steps])
        return found

    def _expand(self, number: int, place: Place, found: Exploration) -> None:
        """Come to rest if nothing is left; then take every step, or those that are enough."""
        if not place.state.queues and not any(place.to_publish):
            found.final_states += 1
            found.problem = self._come_to_rest(place.state)
            if found.problem is not None:
                found.steps = self._steps_to(number)
                return
        steps = list(self._enabled(place))
        if self._reduced and not place.left.cuts:
            chosen = enough_to_try(place.state, steps)
            if self._take(number, place, chosen, found):
                return
            steps = [step for step in steps if step not in chosen]
        self._take(number, place, steps, found)

    def _take(self, number: int, place: Place, steps: Sequence[Step], found: Exploration) -> bool:
        """Take each step. True if one of them leads to a place that is not expanded yet."""
        leads_on = False
        for step in steps:
            found.transitions += 1
            after, found.problem = self._after(place, step)
            if found.problem is not None:
                found.steps = [*self._steps_to(number), step]
                return True
            leads_on = self._reach(after, number, step, found.depth + 1) > number or leads_on
        return leads_on

    def _reach(self, place: Place, before: int, step: Step, depth: int) -> int:
        """The number of a place. A new place is queued to be expanded."""
        new = len(self._seen)
        number = self._seen.setdefault(_digest(place), new)
        if number == new:
            self._came_from.append(before)
            self._came_by.append(self._kinds_of_steps.of(step))
            self._waiting.append((number, depth, place))
        return number

    # Steps

    def _enabled(self, place: Place) -> Iterator[Step]:
        """Everything that may happen next."""
        state, left = place.state, place.left
        for me, memory in enumerate(state.memories):
            node = self._states.facts(memory)
            if node.up and me < len(place.to_publish) and place.to_publish[me]:
                yield ("publish", me, place.to_publish[me][0])
            if node.up and left.timers:
                for name, subject in node.timers:
                    yield ("expire", me, name, subject)
            if not node.up and not node.left:
                yield ("recover", me)
        for way, queue in state.queues:
            for index in range(1 if self._directed.network.fifo else len(queue)):
                lost = self._states.item(queue[index])[1] == LOST
                where = (*way, index) if index else way
                if index == 0 or not lost:
                    yield ("arrive", *where)
                if left.losses and not lost:
                    yield ("lose", *where)
                if left.duplications and not lost:
                    yield ("double", *where)
        yield from self._faults(place)

    def _faults(self, place: Place) -> Iterator[Step]:
        state = place.state
        facts = [self._states.facts(memory) for memory in state.memories]
        if place.left.crashes:
            down = [node.place for node in facts if not node.up and not node.left]
            for me, node in enumerate(facts):
                if node.up and self._may_fall((*down, node.place)):
                    yield ("crash", me)
                    if any(way[0] == me for way, _ in state.queues):
                        yield ("crash", me, 1.0)
        if place.left.suspicions:
            for who, node in enumerate(facts):
                for whom in range(len(facts)):
                    if node.up and who != whom and (who, whom) not in state.suspicions:
                        yield ("suspect", who, whom)
        for who, whom in state.suspicions:
            yield ("trust", who, whom)
        if place.left.cuts:
            for me, links in enumerate(state.links):
                for peer, link in links:
                    if me < peer and link in state.live:
                        yield ("cut", me, peer)

    def _may_fall(self, down: tuple[NodeId, ...]) -> bool:
        if down not in self._tolerated:
            seed = str(self._scenario.seed)
            self._tolerated[down] = self._scenario.blueprint.tolerates(list(down), seed)
        return self._tolerated[down]

    def _after(self, place: Place, step: Step) -> tuple[Place, Problem | None]:
        try:
            state = self._states.after(place.state, step)
        except Exception as error:  # whatever a protocol raises is a finding, not our failure
            return place, Problem(NO_EXCEPTION, f"{type(error).__name__}: {error}")
        verb = str(step[0])
        to_publish, left = place.to_publish, place.left
        if verb == "publish":
            to_publish = tuple(g[1:] if me == step[1] else g for me, g in enumerate(to_publish))
        if verb in SPENDS:
            left = left._replace(**{SPENDS[verb]: getattr(left, SPENDS[verb]) - 1})
        if self._reduced and verb != "cut":
            self._assert_alone(place.state, step, state)
        after = Place(state, to_publish, left)
        broken = self._run.simulation.steps.broken
        if broken:
            return after, Problem(INVARIANT, broken[0])
        return after, None if state.logs == place.state.logs else self._judge_safety(state.logs)

    def _assert_alone(self, before: State, step: Step, after: State) -> None:
        """Check what the reduced search relies on: a step changes only the node that takes it."""
        me = node_of(step)
        dials = [self._states.facts(state.memories[me]).dials for state in (before, after)]
        if after.live != before.live or dials[0] != dials[1]:
            raise ConfigError(
                f"{self._scenario.where}: {text_of(step)!r} opens or closes a link: "
                "this needs the full search"
            )

    # Judging

    def _come_to_rest(self, state: State) -> Problem | None:
        """Let everything that is under way finish, and judge all that is promised."""
        self._states.restore(state)
        world = self._run.simulation
        world.shared.most_messages = world.shared.messages_handled + STORM_PER_NODE * len(
            world.nodes
        )
        try:
            complete = self._run.director.complete(recover_all=True)
        except Exception as error:
            self._states.forget_world()
            return Problem(NO_EXCEPTION, f"{type(error).__name__}: {error}")
        finally:
            world.shared.most_messages = 0
        logs = self._states.logs_now(state)
        nodes = list(world.nodes)
        parts = Parts(world, self._spec) if PROMISE in self._spec.guarantees else None
        self._states.forget_world()
        if not complete:
            return Problem("agreement", "it never came to rest")
        for rule in self._spec.at_rest:
            for node in nodes:
                if not node.up or (parts is not None and not parts.is_closed(node.me)):
                    continue
                if not rule(node.stack.multicast):
                    return Problem(AT_REST, f"{rule.__name__} at node {node.me}")
        history = (logs, "" if parts is None else str(parts.part_of))
        if history not in self._judged_at_rest:
            self._judged_at_rest[history] = self._problem_of(logs, self._promised, True, parts)
        return self._judged_at_rest[history]

    def _judge_safety(self, logs: tuple[int, ...]) -> Problem | None:
        if logs not in self._judged:
            safety = tuple(name for name in self._promised if name in SAFETY)
            self._judged[logs] = self._problem_of(logs, safety, False)
        return self._judged[logs]

    def _problem_of(
        self,
        logs: tuple[int, ...],
        properties: tuple[str, ...],
        complete: bool,
        parts: Parts | None = None,
    ) -> Problem | None:
        recorder = Recorder("deliveries")
        for log in logs:
            for row in self._states.log(log):
                recorder.add(*row)
        world = self._run.simulation
        kept, world.shared.recorder = world.shared.recorder, recorder
        run = run_of(world, self._directed, complete)
        world.shared.recorder = kept
        try:
            found = judge(run)
        except TraceError as error:
            return Problem("no_creation", str(error))
        if parts is not None:
            missing = within_parts(found.violations["agreement"], run, parts)
            found.violations["agreement"] = list(missing)
        for name in properties:
            if found.violations[name]:
                return Problem(name, str(found.violations[name][0]))
            # Who was removed stays down, and nobody waits for it; all others are back.
            waits = not self._spec.agrees_on_members
            if complete and waits and name in found.pending:
                return Problem(name, "it was still pending at the end")
        return None

    # The search

    def _first(self) -> Place:
        groups: list[list[str]] = [[] for _ in self._run.simulation.nodes]
        for me, group in self._publications:
            groups[me].append(group)
        return Place(self._states.first(), tuple(tuple(names) for names in groups), self._limits)

    def _steps_to(self, number: int) -> list[Step]:
        steps: list[Step] = []
        while number > 0:
            steps.append(self._kinds_of_steps.things[self._came_by[number]])
            number = self._came_from[number]
        return steps[::-1]


def _digest(place: Place) -> bytes:
    plain: Any = (tuple(place.state), place.to_publish, tuple(place.left))
    whole = marshal.dumps(plain, 2)  # version 2 writes values, not which of them are shared
    return hashlib.blake2b(whole, digest_size=16).digest()


def _since(started: float) -> float:
    return time.monotonic() - started


def _stage_and_publications(scenario: Scenario) -> tuple[list[Step], list[tuple[NodeId, str]]]:
    """The steps that set the stage, and who publishes to which group, each node's in order."""
    if not scenario.directed:
        return [], _publications(scenario)
    steps = list(scenario.steps)
    publications: list[tuple[NodeId, str]] = []
    while steps and steps[-1][0] == "publish":
        _, node, group = steps.pop()
        publications.insert(0, (NodeId(int(node)), str(group)))
    return steps, publications


def _publications(scenario: Scenario) -> list[tuple[NodeId, str]]:
    if scenario.faults or scenario.random_faults.crashes:
        raise ConfigError(
            f"{scenario.where}: expected publications only; explore lets faults happen anywhere, "
            "as often as its options say"
        )
    found = []
    for stream in scenario.streams:
        if stream.node is None or stream.group is None:
            raise ConfigError(f"{scenario.where}: publish: expected a node and a group, not random")
        for number in range(stream.count):
            group = scenario.blueprint.groups.names[stream.group]
            found.append((stream.at_us + number * stream.interval_us, stream.node, group))
    return [(node, group) for _, node, group in sorted(found)]


def _as_directed(scenario: Scenario, steps: list[Step]) -> str:
    """The same nodes, groups and options in a scenario that lists its steps."""
    blueprint = scenario.blueprint
    edges = [[a, b] for a, peers in blueprint.topology.neighbours.items() for b in peers if a < b]
    return text_of_scenario(
        {
            "protocol": scenario.protocol_name,
            "seed": scenario.seed,
            "steps": [text_of(step) for step in steps],
            "options": scenario.written_options,
            "overlay": {"kind": "edges", "nodes": scenario.nodes(), "edges": edges},
            "network": {"fifo": scenario.network.fifo},
            "groups": {
                name: list(blueprint.groups.members_of(blueprint.groups.id_of(name)))
                for name in blueprint.groups.names
            },
            "world": world_of_steps(scenario.world),
            "calm": {"recover_all": may_come_back(blueprint.protocol, scenario.world)},
        }
    )
