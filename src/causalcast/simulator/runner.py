"""`causalcast.simulate`: runs a scenario from beginning to end and returns its trace.

A scenario that lists its steps is a `DirectedRun`; any other is a `ScenarioRun`: a workload with
faults first, then calm.
"""

import gc
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import process_time

from causalcast.core.ids import GroupId, NodeId
from causalcast.errors import ConfigError
from causalcast.limits import set_to
from causalcast.shipped import scenario_file
from causalcast.simulator.directed_run import DirectedRun
from causalcast.simulator.run_result import DETAILED_UP_TO, build_nodes, level_for, run_of
from causalcast.simulator.scenarios.faults import FaultPlan, random_crashes
from causalcast.simulator.scenarios.saved_graph import save_graph
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.simulator.scenarios.workload import Workload
from causalcast.simulator.worlds.simulation import Simulation
from causalcast.trace.recorder import Recorder
from causalcast.trace.run_folder import Run, write_run
from causalcast.trace.schema import LEVELS
from causalcast.wire.codec import codec_of

_REST = 4  # of the calm, this part at its end is for looking whether all is quiet
_SLICES = 200  # how often progress is told
_STATE_EVERY_US = 100_000  # how often a full trace samples the size of each node's state


@contextmanager
def _few_collections(large: bool) -> Iterator[None]:
    """What a large run is built of stays: the collector need not look at it again and again.

    Not for small runs: of thousands in one process, what is frozen is hardly ever collected.
    """
    if not large:
        yield
        return
    gc.freeze()
    thresholds = gc.get_threshold()
    gc.set_threshold(1_000_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


class ScenarioRun:
    """One simulation of a scenario, and what came out of it."""

    def __init__(self, scenario: Scenario, level: str | None = None) -> None:
        assert not scenario.directed, "a scenario with steps is for a DirectedRun"
        self.scenario = scenario
        seed = str(scenario.seed)
        blueprint = scenario.blueprint
        self.recorder = Recorder(level_for(scenario, level))
        self.codec = codec_of(blueprint.messages())
        self.simulation = Simulation(
            blueprint, scenario.network, scenario.world, seed, self.recorder, self.codec
        )
        build_nodes(self.simulation, scenario)
        self.faults = FaultPlan(self.simulation, random.Random(f"{seed}/faults"))
        groups = [GroupId(group) for group in range(len(blueprint.groups.names))]
        self.workload = Workload(
            self.simulation, groups, scenario.until_us, random.Random(f"{seed}/workload")
        )
        if blueprint.overlay.static:
            self.simulation.start(scenario.absent())
        else:
            self.simulation.grow(scenario.absent(), scenario.join_every_us, scenario.settle_us)
        self._begin = self.simulation.started_us
        self._end = self._begin + scenario.until_us + scenario.calm_us
        self._plan(random.Random(f"{seed}/random_faults"))

    def run(self, progress: Callable[[float], None] | None = None) -> None:
        """Let it happen; `progress` hears from time to time how much is done, from 0 to 1."""
        with _few_collections(self.scenario.nodes() > DETAILED_UP_TO):
            workload_ends = self._begin + self.scenario.until_us
            self._advance(self._begin, workload_ends, progress)
            self.simulation.calm_down()
            if self.scenario.recover_all:
                self.faults.recover_all()
            rest = self._end - self.scenario.calm_us // _REST
            self._advance(workload_ends, rest, progress)
            self.simulation.shared.sent.begin_rest(self._end - rest)
            self._advance(rest, self._end, progress)

    def result(self) -> Run:
        """The run as a trace in memory."""
        return run_of(self.simulation, self.scenario, self.simulation.now >= self._end)

    def _plan(self, rng: random.Random) -> None:
        scenario = self.scenario
        for fault in scenario.faults:
            self.faults.add(fault)
        drawn = scenario.random_faults

        def allowed(down: list[NodeId]) -> bool:
            fair = drawn.within_budget
            return not fair or scenario.blueprint.tolerates(down, str(scenario.seed))

        for fault in random_crashes(
            drawn.crashes, drawn.downtime_us, scenario.nodes(), scenario.until_us, allowed, rng
        ):
            self.faults.add(fault)
        for stream in scenario.streams:
            self.workload.add(stream)
        if self.recorder.level == "full":
            self.simulation.sample_state(_STATE_EVERY_US, self._begin + scenario.until_us)

    def _advance(self, start: int, end: int, progress: Callable[[float], None] | None) -> None:
        for slice_ in range(1, _SLICES + 1):
            self.simulation.run(start + (end - start) * slice_ // _SLICES)
            if progress is not None:
                done = self.simulation.now - self._begin
                progress(done / max(1, self._end - self._begin))


@dataclass
class SimulatedRun(Run):
    """A run that was simulated here: its trace, and what the simulation counted."""

    publications: int = 0
    messages: int = 0
    """How many messages nodes handled, recorded or not."""
    simulated_us: int = 0
    """How long it took in simulated time, in microseconds."""
    cpu_seconds: float = 0.0
    """How long the simulation took this process, without building nodes and trace."""


def prepare(scenario: Scenario, level: str | None = None) -> ScenarioRun | DirectedRun:
    """A run of the scenario, ready to begin, in the world it asks for."""
    if scenario.directed:
        return DirectedRun(scenario, level)
    return ScenarioRun(scenario, level)


def simulate(
    scenario: Scenario | str | Path,
    trace: str | None = None,
    progress: Callable[[float], None] | None = None,
    *,
    seed: int | None = None,
    protocol: str | None = None,
    options: Mapping[str, object] | None = None,
    out: str | Path | None = None,
    save_overlay: str | Path | None = None,
) -> SimulatedRun:
    """Run a scenario from beginning to end and return its trace.

    `scenario` is a TOML file, its text (more than one line), or a name that `causalcast scenarios`
    lists. `seed`, `protocol` and `options` of the protocol take the place of what stands in it.
    The same scenario and seed give the same trace, byte for byte.

    `trace` says how much is recorded: `none`, `deliveries`, `messages` or `full`. The default is
    messages, and with more than 1,000 nodes deliveries. `progress` is called from time to time
    with the share that is done, from 0 to 1. `out` is a new folder to write the run to,
    `save_overlay` a file for the links that stand when the workload begins.
    """
    if trace is not None and trace not in LEVELS:
        raise ConfigError(f"trace: unknown level {trace!r}, expected one of {', '.join(LEVELS)}")
    described = _scenario(scenario, seed, protocol, options)
    with set_to(described.limits):
        running = prepare(described, trace)
        if save_overlay is not None:
            save_graph(running.simulation, Path(save_overlay))
        started = process_time()
        running.run(progress)
        seconds = process_time() - started
    made, world = running.result(), running.simulation
    run = SimulatedRun(
        made.header, made.nodes, made.groups, made.members, made.events,
        world.lives.publications, world.shared.messages_handled, world.now, seconds,
    )  # fmt: skip
    if out is not None:
        write_run(Path(out), run)
    return run


def _scenario(
    given: Scenario | str | Path,
    seed: int | None,
    protocol: str | None,
    options: Mapping[str, object] | None,
) -> Scenario:
    if isinstance(given, Scenario):
        if (seed, protocol, options) != (None, None, None):
            raise ConfigError("a Scenario has its seed, protocol and options already")
        return given
    settings = {name: _as_text(value) for name, value in (options or {}).items()}
    if isinstance(given, str) and "\n" in given:
        return Scenario(given, "scenario", protocol, settings, seed)
    return Scenario.read(scenario_file(given), protocol, settings, seed)


def _as_text(value: object) -> str:
    """An option as it is written after `--set`."""
    return str(value).lower() if isinstance(value, bool) else str(value)
