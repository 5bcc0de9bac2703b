"""One trial: a scenario is run, and everything that was promised is checked.

Judged are the promises of the protocol by the independent judge, its invariants after every step,
what must hold at rest, and that no automaton raises an exception.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from causalcast.core.spec import ProtocolSpec
from causalcast.errors import CausalcastError, TraceError
from causalcast.judge import Judgement, judge, without_losses
from causalcast.limits import set_to
from causalcast.simulator.directed_run import DirectedRun
from causalcast.simulator.scenario_run import ScenarioRun, prepare
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.generate import DIED_FOR_GOOD
from causalcast.swarm.safe_parts import PROMISE, Parts, within_parts
from causalcast.swarm.storms import storms_in
from causalcast.trace.kinds import GUARANTEES, WEAKER_FORMS
from causalcast.trace.run_folder import Run

NO_EXCEPTION = "no_exception"  # an automaton raised one
INVARIANT = "invariant"  # one of SPEC.invariants did not hold after a step
AT_REST = "at_rest"  # one of SPEC.at_rest did not hold when all was quiet
# Far more messages than any drawn scenario needs: somebody goes on sending for ever. Two runs in
# 20,000 with 31 nodes and a network that doubles messages needed more than 50,000.
STORM = 50_000
STORM_PER_NODE = 5_000
STORM_PER_PUBLICATION = 60  # and node
# Of one node in a second. Pauses drawn at their smallest are ten milliseconds for each neighbour.
STORM_OF_DIALS = 150
DEEPEST = 100  # calls within calls; no protocol of ours needs half of them
# Beyond what a protocol tolerates it may stop, but must not do anything wrong.
SAFETY = ("no_creation", "no_duplication", "fifo_order", "causal_order")
STORMS = "storms"  # too much was sent for a publication, or when all was quiet
OWN_PROPERTIES = (NO_EXCEPTION, INVARIANT, AT_REST, STORMS)
PROPERTIES = (*GUARANTEES, *OWN_PROPERTIES)


@dataclass(frozen=True)
class Problem:
    """A property that did not hold, and the first place that shows it."""

    property: str
    detail: str


@dataclass
class Trial:
    """What came of one scenario."""

    text: str
    problems: list[Problem]
    fired: dict[str, int] = field(default_factory=dict)
    logical_us: int = 0
    run: Run | None = None

    def broken(self) -> set[str]:
        """The names of the properties that did not hold."""
        return {problem.property for problem in self.problems}


def try_scenario(scenario: Scenario, check: Sequence[str] = (), level: str = "deliveries") -> Trial:
    """Run a scenario and judge it; `check` names properties instead of what is promised."""
    with set_to(scenario.limits):
        try:
            running = prepare(scenario, level)
        except CausalcastError:
            raise
        except Exception as error:
            return fell_at_the_start(scenario.text, error, check)
        return try_run(running, running.run, check)


def fell_at_the_start(text: str, error: Exception, check: Sequence[str] = ()) -> Trial:
    """An automaton raised something before anything was directed: that is a finding, too."""
    raised = f"{type(error).__name__}: {error}"
    return _only(Trial(text, [Problem(NO_EXCEPTION, raised)]), check)


def try_run(
    running: ScenarioRun | DirectedRun, let_it_happen: Callable[[], None], check: Sequence[str] = ()
) -> Trial:
    """Let a prepared run happen and judge it."""
    spec = running.scenario.blueprint.protocol
    world = running.simulation
    world.steps.invariants = list(spec.invariants)
    planned = sum(stream.count for stream in running.scenario.streams)
    each = max(STORM_PER_NODE, STORM_PER_PUBLICATION * planned)
    storm = max(STORM, each * len(world.nodes))
    world.shared.most_messages = world.shared.messages_handled + storm
    is_static = running.scenario.blueprint.overlay.static
    world.shared.most_dials = STORM_OF_DIALS * (len(world.nodes) if is_static else 1)
    raised = ""
    try:
        with shallow_stack():
            let_it_happen()
    except Exception as error:  # whatever a protocol raises is a finding, not our failure
        raised = f"{type(error).__name__}: {error}"
    trial = Trial(running.scenario.text, [], dict(world.fired), world.now)
    if raised:
        trial.problems.append(Problem(NO_EXCEPTION, raised))
        return _only(trial, check)
    trial.run = running.result()
    dead = sum(1 for node in world.nodes if not node.up and not node.left and not node.gone)
    if dead:
        trial.fired[DIED_FOR_GOOD] = dead
    try:
        found = judge(trial.run)
        if PROMISE in spec.guarantees and trial.run.header.complete:
            parts = Parts(world, spec)
            found.violations["agreement"] = list(
                within_parts(found.violations["agreement"], trial.run, parts)
            )
            trial.fired["more_than_one_part"] = int(parts.count() > 1)
        if spec.agrees_on_members:
            if trial.run.header.complete:
                # Who was removed is no member, and who stays waits for nobody that was.
                found = Judgement(found.violations, frozenset())
        elif any(node.gone for node in world.nodes):
            found, lost = without_losses(found, [n.me for n in world.nodes if n.gone])
            trial.fired["lost_with_a_node_that_is_gone"] = lost
        if dead and trial.run.header.complete:
            # Nobody will come back: what the others have is judged.
            found = Judgement(found.violations, frozenset())
        trial.problems += _violations(found, check or promised(spec))
    except TraceError as error:  # two publications with one number, and the like
        trial.problems.append(Problem("no_creation", str(error)))
    trial.problems += [Problem(INVARIANT, broken) for broken in world.steps.broken[:1]]
    if trial.run.header.complete and all(n.up or n.left or n.gone for n in world.nodes):
        trial.problems += _unrest(running, spec)
        if isinstance(running, ScenarioRun):
            trial.problems += [Problem(STORMS, told) for told in storms_in(running)[:1]]
    return _only(trial, check)


@contextmanager
def shallow_stack() -> Iterator[None]:
    """Functions may call one another only so deep: a loop over what waits that is written as
    recursion shows with a few dozen messages, not with the thousand that real nodes come to."""
    depth, frame = 0, sys._getframe()
    while frame.f_back is not None:
        depth, frame = depth + 1, frame.f_back
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(min(before, depth + DEEPEST))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def promised(spec: ProtocolSpec) -> list[str]:
    """What a protocol promises, in the names of the judge."""
    return [WEAKER_FORMS.get(guarantee, guarantee) for guarantee in spec.guarantees]


def _unrest(running: ScenarioRun | DirectedRun, spec: ProtocolSpec) -> list[Problem]:
    parts = Parts(running.simulation, spec) if PROMISE in spec.guarantees else None
    return [
        Problem(AT_REST, f"{rule.__name__} at node {node.me}")
        for rule in spec.at_rest
        for node in running.simulation.nodes
        if node.up and (parts is None or parts.is_closed(node.me))
        if not rule(node.stack.multicast)
    ][:1]


def _violations(found: Judgement, properties: Sequence[str]) -> list[Problem]:
    problems = []
    for name in properties:
        if name not in GUARANTEES:
            continue
        if found.violations[name]:
            problems.append(Problem(name, str(found.violations[name][0])))
        elif name in found.pending:
            problems.append(Problem(name, "it was still pending at the end"))
    return problems


def _only(trial: Trial, check: Sequence[str]) -> Trial:
    if check:
        trial.problems = [problem for problem in trial.problems if problem.property in check]
    return trial
