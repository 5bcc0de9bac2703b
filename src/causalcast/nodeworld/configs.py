"""The configuration of each machine's node in a world, life by life."""

import dataclasses
from pathlib import Path
from typing import Final

from causalcast.nodeworld.drawn_clients import config_text
from causalcast.nodeworld.newcomers import groups_text
from causalcast.nodeworld.plan import Plan
from causalcast.runtime.node_config import NodeConfig

FOLDER: Final = Path("/world")
FIRST_PORT: Final = 7000
IDS_PER_MACHINE: Final = 1000  # a node that is somebody new in every life has one of these


def port_of(machine: int) -> int:
    """Where the node of a machine listens, in all its lives."""
    return FIRST_PORT + machine


def config_of(plan: Plan, machine: int, life: int) -> NodeConfig:
    """What the node of a machine is told in its `life`th life, from 1 on."""
    node = machine
    cluster = f"peers = {{ {', '.join(_peers(plan))} }}"
    if plan.is_joined:
        node = machine * IDS_PER_MACHINE + life
    if plan.is_joined or plan.is_open:
        others = [other for other in range(1, plan.machines + 1) if other != machine]
        founds = machine == 1 and (life == 1 or plan.is_open)
        contacts = ", ".join(f'"127.0.0.1:{port_of(other)}"' for other in others)
        cluster = "" if founds else f"contact = [{contacts}]"
    config = NodeConfig.parse(_text(plan, machine, node, cluster), FOLDER)
    if not plan.is_joined:
        return config
    # As `id = "new"` would have it, which asks the system for a number.
    return dataclasses.replace(config, always_new=True, storage=config.storage / f"life-{node}")


def _peers(plan: Plan) -> list[str]:
    return [f'{node} = "127.0.0.1:{port_of(node)}"' for node in range(1, plan.machines + 1)]


def _text(plan: Plan, machine: int, node: int, cluster: str) -> str:
    limits = "\n".join(f"{name} = {value}" for name, value in plan.limits.items())
    more = config_text(plan, machine)
    return f"""
        [node]
        id = {node}
        listen = "127.0.0.1:{port_of(machine)}"
        [cluster]
        name = "world"
        {cluster}
        [protocol]
        name = "{plan.protocol}"
        {plan.options}
        [overlay]
        {plan.overlay}
        [groups]
        {plan.groups}
        {more["groups"]}
        {groups_text(plan)}
        {'"doc/*" = "*"' if plan.makes_groups else ""}
        [storage]
        path = "node-{machine}/data"
        durable = {"true" if plan.is_durable else "false"}
        [trace]
        path = "node-{machine}/trace"
        level = "{plan.level}"
        [security]
        tls = false
        {more["door"]}
        [limits]
        {limits}
        """
