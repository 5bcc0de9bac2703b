"""Runs a scenario from beginning to end: workload and faults first, then calm.

A scenario that lists its steps is a `DirectedRun` instead. What happened stays in memory as rows;
only `result` makes tables of them, and so needs pyarrow.
"""

import gc
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from causalcast.core.ids import GroupId, NodeId
from causalcast.simulator.directed_run import DirectedRun
from causalcast.simulator.preparing import DETAILED_UP_TO, build_nodes, level_for
from causalcast.simulator.scenarios.faults import FaultPlan, random_crashes
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.simulator.scenarios.workload import Workload
from causalcast.simulator.worlds.simulation import Simulation
from causalcast.trace.recorder import Recorder
from causalcast.wire.any_codec import codec_of

if TYPE_CHECKING:
    from causalcast.trace.run_folder import Run

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

    def is_complete(self) -> bool:
        """Whether it went on until its end."""
        return self.simulation.now >= self._end

    def result(self) -> "Run":
        """The run as a trace in memory."""
        from causalcast.simulator.run_result import run_of

        return run_of(self.simulation, self.scenario, self.is_complete())

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


def prepare(scenario: Scenario, level: str | None = None) -> ScenarioRun | DirectedRun:
    """A run of the scenario, ready to begin, in the world it asks for."""
    if scenario.directed:
        return DirectedRun(scenario, level)
    return ScenarioRun(scenario, level)
