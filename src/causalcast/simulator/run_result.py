"""The trace of a simulated run: tables from the rows that its nodes left."""

from causalcast.simulator.preparing import founders_of, header_of
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.simulator.worlds.simulated_world import SimulatedWorld
from causalcast.trace.run_folder import Run, memberships, table_of
from causalcast.trace.schema import GROUPS, NODES


def run_of(world: SimulatedWorld, scenario: Scenario, complete: bool) -> Run:
    """The run as a trace in memory."""
    events = world.shared.recorder.table()
    return Run(
        header_of(world, scenario, complete),
        table_of(NODES, [(n.me, f"n{n.me}", None, None) for n in world.nodes]),
        table_of(GROUPS, list(enumerate(scenario.blueprint.groups.names))),
        memberships(founders_of(scenario), events),
        events,
    )
