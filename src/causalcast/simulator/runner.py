"""Runs a scenario from beginning to end and leaves a `Run`: workload and faults, then calm."""

import gc
import hashlib
import random
from collections.abc import Callable
from typing import Any

from causalcast.core.ids import GroupId, NodeId
from causalcast.core.spec import Misfit
from causalcast.errors import ConfigError
from causalcast.simulator.faults import FaultPlan, random_crashes
from causalcast.simulator.scenario import Scenario
from causalcast.simulator.simulation import Simulation
from causalcast.simulator.workload import Workload
from causalcast.trace.recorder import Recorder
from causalcast.trace.run_folder import Run, memberships, table_of
from causalcast.trace.run_header import RunHeader
from causalcast.trace.schema import GROUPS, NODES
from causalcast.version import VERSION
from causalcast.wire.codec import Codec

DETAILED_UP_TO = 1000  # nodes; larger runs record deliveries only, unless asked
_SLICES = 200  # how often progress is told
_STATE_EVERY_US = 100_000  # how often a full trace samples the size of each node's state


class ScenarioRun:
    """One simulation of a scenario, and what came out of it."""

    def __init__(self, scenario: Scenario, level: str | None = None) -> None:
        if level is None:
            level = "messages" if scenario.nodes() <= DETAILED_UP_TO else "deliveries"
        self.scenario = scenario
        seed = str(scenario.seed)
        blueprint = scenario.blueprint
        self.recorder = Recorder(level)
        self.codec = Codec(blueprint.messages())
        self.simulation = Simulation(blueprint, scenario.network, seed, self.recorder, self.codec)
        self._build_nodes()
        self.faults = FaultPlan(self.simulation, random.Random(f"{seed}/faults"))
        groups = [GroupId(group) for group in range(len(blueprint.groups.names))]
        self.workload = Workload(
            self.simulation, groups, scenario.until_us, random.Random(f"{seed}/workload")
        )
        self._plan(random.Random(f"{seed}/random_faults"))

    def run(self, progress: Callable[[float], None] | None = None) -> None:
        """Let it happen; `progress` hears from time to time how much is done, from 0 to 1."""
        # What was built stays: the collector need not look at it again and again.
        gc.freeze()
        thresholds = gc.get_threshold()
        gc.set_threshold(1_000_000, 50, 100)
        try:
            end = self.scenario.until_us + self.scenario.calm_us
            self._advance(0, self.scenario.until_us, end, progress)
            self.simulation.calm_down()
            if self.scenario.recover_all:
                self.faults.recover_all()
            self._advance(self.scenario.until_us, end, end, progress)
        finally:
            gc.set_threshold(*thresholds)
            gc.unfreeze()

    def result(self) -> Run:
        """The run as a trace in memory."""
        events = self.recorder.table()
        return Run(
            self._header(),
            table_of(NODES, [(n.me, f"n{n.me}", None, None) for n in self.simulation.nodes]),
            table_of(GROUPS, list(enumerate(self.scenario.blueprint.groups.names))),
            memberships(self._founders(), events),
            events,
        )

    def _build_nodes(self) -> None:
        groups = self.scenario.blueprint.groups
        member_of: dict[NodeId, tuple[GroupId, ...]] = {}
        for group in range(len(groups.names)):
            for node in groups.members_of(GroupId(group)):
                member_of[node] = (*member_of.get(node, ()), GroupId(group))
        # Nodes with the same groups share one dict, which so stays in the cache.
        shared = {those: dict.fromkeys(those) for those in member_of.values()}
        for place in self.scenario.blueprint.topology.neighbours:
            try:
                built = self.simulation.add_node(place)
                built.groups = shared.get(member_of.get(place, ()), {})
            except Misfit as misfit:
                raise ConfigError(f"{self.scenario.where}: options: {misfit}") from None

    def _founders(self) -> list[tuple[int, int]]:
        """Group and node of everybody that is a member from the start."""
        groups = self.scenario.blueprint.groups
        absent = self.scenario.absent()
        return [
            (group, node)
            for group in range(len(groups.names))
            for node in groups.members_of(GroupId(group))
            if node not in absent
        ]

    def _plan(self, rng: random.Random) -> None:
        scenario = self.scenario
        self.simulation.start(scenario.absent())
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
            self.simulation.sample_state(_STATE_EVERY_US, scenario.until_us)

    def _advance(
        self, start: int, end: int, whole: int, progress: Callable[[float], None] | None
    ) -> None:
        for slice_ in range(1, _SLICES + 1):
            self.simulation.run(start + (end - start) * slice_ // _SLICES)
            if progress is not None:
                progress(self.simulation.now / max(1, whole))

    def _header(self) -> RunHeader:
        scenario = self.scenario
        blueprint = scenario.blueprint
        options: dict[str, Any] = dict(blueprint.protocol_options)
        identity = (scenario.text, scenario.seed, blueprint.protocol.name, options, VERSION)
        return RunHeader(
            run_id=hashlib.blake2b(repr(identity).encode(), digest_size=8).hexdigest(),
            world="simulated",
            protocol=blueprint.protocol.name,
            options=options,
            overlay=blueprint.overlay.name,
            seed=scenario.seed,
            scenario=scenario.text,
            version=VERSION,
            guarantees=blueprint.protocol.guarantees,
            faults=dict(sorted(self.simulation.fired.items())),
            complete=self.simulation.now >= scenario.until_us + scenario.calm_us,
        )


def simulate(
    scenario: Scenario,
    level: str | None = None,
    progress: Callable[[float], None] | None = None,
) -> Run:
    """Run a scenario and return its trace."""
    running = ScenarioRun(scenario, level)
    running.run(progress)
    return running.result()
