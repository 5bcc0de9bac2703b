"""Plans as files: a world that failed is kept, whatever seeds will mean later on."""

from pathlib import Path

import msgspec

from causalcast.errors import ConfigError
from causalcast.limits import check
from causalcast.nodeworld import drawn_clients
from causalcast.nodeworld.drawn_limits import import_limits
from causalcast.nodeworld.plan import Plan
from causalcast.registry import find_protocol


def text_of(plan: Plan) -> str:
    """The plan as JSON that people can read and change."""
    return msgspec.json.format(msgspec.json.encode(plan), indent=1).decode() + "\n"


def read_plan(path: Path) -> Plan:
    """The plan in a file; ConfigError names what is wrong with it."""
    try:
        plan = msgspec.json.decode(path.read_bytes(), type=Plan)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{path}: {error}") from None
    find_protocol(plan.protocol)
    import_limits()
    if plan.clients:
        drawn_clients.import_limits()
    for name, value in plan.drawn_limits.items():
        try:
            check(name, value)
        except ValueError as error:
            raise ConfigError(f"{path}: drawn_limits: {error}") from None
    for event in plan.events:
        if not all(1 <= machine <= plan.machines for machine in event.machines):
            raise ConfigError(f"{path}: events: {event.kind} of machines {event.machines}")
    return plan
