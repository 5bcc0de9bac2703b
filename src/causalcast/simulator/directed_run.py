"""Runs a scenario that lists its steps: each happens in its turn, then everything comes to rest."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from causalcast.core.duration import MILLISECOND
from causalcast.simulator.preparing import build_nodes, level_for
from causalcast.simulator.scenarios.director import Director
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.simulator.worlds.directed_world import DirectedWorld
from causalcast.trace.recorder import Recorder
from causalcast.wire.any_codec import codec_of

if TYPE_CHECKING:
    from causalcast.trace.run_folder import Run


class DirectedRun:
    """One run of a scenario with steps, and what came out of it."""

    def __init__(
        self, scenario: Scenario, level: str | None = None, turn_us: int = MILLISECOND
    ) -> None:
        self.scenario = scenario
        blueprint = scenario.blueprint
        self.recorder = Recorder(level_for(scenario, level))
        codec = codec_of(blueprint.messages())
        self.simulation = DirectedWorld(
            blueprint, scenario.world, str(scenario.seed), self.recorder, codec, turn_us
        )
        build_nodes(self.simulation, scenario)
        self.simulation.start([])
        self.director = Director(self.simulation, scenario.network.fifo)
        self._came_to_rest = False

    def run(self, progress: Callable[[float], None] | None = None) -> None:
        """Let all steps happen, then everything else."""
        for number, step in enumerate(self.scenario.steps):
            self.director.do(step)
            if progress is not None:
                progress(number / len(self.scenario.steps))
        self.complete()

    def complete(self) -> None:
        """End all faults and let everything come to rest."""
        self._came_to_rest = self.director.complete(self.scenario.recover_all)

    def is_complete(self) -> bool:
        """Whether it came to rest."""
        return self._came_to_rest

    def result(self) -> "Run":
        """The run as a trace in memory; incomplete if it never came to rest."""
        from causalcast.simulator.run_result import run_of

        return run_of(self.simulation, self.scenario, self.is_complete())
