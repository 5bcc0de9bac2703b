"""The message buses that can be compared, by name."""

from causalcast.buses.system import System
from causalcast.buses.systems import causalcast, mosquitto, nats, rabbitmq, redis, zenoh
from causalcast.errors import ConfigError

SYSTEMS: tuple[System, ...] = (
    nats.SYSTEM, zenoh.SYSTEM, rabbitmq.SYSTEM, redis.SYSTEM, mosquitto.SYSTEM, causalcast.SYSTEM,
)  # fmt: skip


def system_named(name: str) -> System:
    """A bus by its name, however it is capitalised."""
    for system in SYSTEMS:
        if system.name.lower() == name.lower():
            return system
    known = ", ".join(system.name for system in SYSTEMS)
    raise ConfigError(f"no bus {name!r}; there are {known}")
