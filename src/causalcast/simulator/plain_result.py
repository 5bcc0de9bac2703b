"""A simulated run as plain lists, for the judge: what is needed where there is no pyarrow."""

from causalcast.simulator.directed_run import DirectedRun
from causalcast.simulator.preparing import founders_of, header_of
from causalcast.simulator.scenario_run import ScenarioRun
from causalcast.trace.plain_run import PlainRun, members_of, plain_events


def plain_result(running: ScenarioRun | DirectedRun) -> PlainRun:
    """The run as it is now: its rows stay with the recorder."""
    world, scenario = running.simulation, running.scenario
    events = plain_events(running.recorder.rows())
    changes = [
        (event.node, event.pos, event.kind, event.group)
        for event in events
        if event.kind in ("join", "leave") and event.group is not None
    ]
    return PlainRun(
        header_of(world, scenario, running.is_complete()),
        [node.me for node in world.nodes],
        members_of(founders_of(scenario), sorted(changes)),
        events,
    )
