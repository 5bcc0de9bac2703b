"""What all simulated runs share: nodes from a scenario, and what is said of the run as a whole."""

import hashlib
from typing import Any

from causalcast.core.ids import GroupId, NodeId
from causalcast.core.spec import Misfit
from causalcast.errors import ConfigError
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.simulator.worlds.simulated_world import SimulatedWorld
from causalcast.trace.run_header import RunHeader
from causalcast.version import VERSION

DETAILED_UP_TO = 1000  # nodes; larger runs record deliveries only, unless asked


def level_for(scenario: Scenario, asked: str | None) -> str:
    """How much is recorded, unless somebody asked for more or less."""
    if asked is not None:
        return asked
    return "messages" if scenario.nodes() <= DETAILED_UP_TO else "deliveries"


def build_nodes(world: SimulatedWorld, scenario: Scenario) -> None:
    """Put the nodes of a scenario into its world, each in its groups."""
    groups = scenario.blueprint.groups
    member_of: dict[NodeId, tuple[GroupId, ...]] = {}
    for group in range(len(groups.names)):
        for node in groups.members_of(GroupId(group)):
            member_of[node] = (*member_of.get(node, ()), GroupId(group))
    # Nodes with the same groups share one dict, which so stays in the cache.
    shared = {those: dict.fromkeys(those) for those in member_of.values()}
    for place in scenario.blueprint.topology.neighbours:
        try:
            built = world.lives.add_node(place)
            built.groups = shared.get(member_of.get(place, ()), {})
        except Misfit as misfit:
            raise ConfigError(f"{scenario.where}: options: {misfit}") from None


def founders_of(scenario: Scenario) -> list[tuple[int, int]]:
    """Group and node of everybody that is a member from the start."""
    groups = scenario.blueprint.groups
    absent = scenario.absent()
    return [
        (group, node)
        for group in range(len(groups.names))
        for node in groups.members_of(GroupId(group))
        if node not in absent
    ]


def header_of(world: SimulatedWorld, scenario: Scenario, complete: bool) -> RunHeader:
    """What is said of the run as a whole."""
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
        faults=dict(sorted(world.fired.items())),
        complete=complete,
    )
