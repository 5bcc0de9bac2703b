"""Draws clients for a world: how many, what befalls them, and the limits of their doors."""

import random
from typing import Any, Final

from causalcast.errors import ConfigError, MissingDependency
from causalcast.limits import limits_of
from causalcast.nodeworld.plan import Event, Plan
from causalcast.registry import find_protocol

FIRST_MACHINE: Final = 9000  # of the network, on which clients run
FIRST_DOOR: Final = 8000  # the port of a node's door, beside that of its machine

# Limits that worlds with clients draw, and their values there. What a retry may not outlive
# (`publication_keys`) stays as it is: so it is stated.
DRAWN: Final[dict[str, tuple[float, ...]]] = {
    "clients.session.window": (1, 3, 1000),
    "clients.session.window_bytes": (1, 1 << 20),
    "clients.session.publishing": (1, 256),
    "clients.session.passed_over": (1, 1000),
    "clients.session.requests_per_second": (20, 2000),
    "clients.session.not_yet_after": (0.2, 5.0),
    "clients.session.sent_within": (2.0, 20.0),
    "clients.admission.alive_every": (1.0, 20.0),
    "clients.dialling.alive_every": (1.0, 20.0),
    "clients.connect.stay": (0.5, 10.0),
    "clients.requests.pending": (1, 256),
}
AS_STATED: Final = "runtime.storage.publication_keys."
DISTURBANCES: Final = (
    "client_kill",
    "client_kill",
    "client_cut",
    "client_cut",
    "client_silence",
    "client_one_way",
    "client_freeze",
    "client_slow",
    "client_stop",
)
KEPT: Final = (10_000, 10_000, 10_000, 20)  # messages, for clients that come back


def import_limits() -> None:
    """Let the limits of doors and clients be known by their names."""
    try:
        limits_of("clients")
    except ModuleNotFoundError as error:
        raise MissingDependency(
            f"worlds with clients need {error.name}: pip install 'causalcast[clients]'"
        ) from None


def add_clients(plan: Plan) -> None:
    """Whoever dies comes back with its disk; nobody has an old one, which others do not believe."""
    import_limits()
    spec = find_protocol(plan.protocol)
    if spec.restart != "resume" or "causal_order" not in spec.guarantees:
        raise ConfigError(
            f"{plan.protocol}: --clients need a protocol that keeps causal order, and whose nodes "
            "go on with their disks; try cbcast"
        )
    chance = random.Random(f"clients/{plan.protocol}/{plan.seed}")
    plan.clients = chance.randint(1, 4)
    plan.is_durable = True
    plan.kept_for_clients = chance.choice(KEPT)
    plan.events = [event for event in plan.events if event.kind not in ("copy", "put_back")]
    for name in [name for name in plan.drawn_limits if name.startswith(AS_STATED)]:
        del plan.drawn_limits[name]
    if chance.random() < 0.7:
        for name, values in DRAWN.items():
            value = chance.choice(values)
            if value != values[-1]:
                plan.drawn_limits[name] = value
    for _ in range(chance.randint(0, 6)):
        plan.client_events += _some_event(plan, chance)
    plan.client_events.sort(key=lambda event: event.at)


def _some_event(plan: Plan, chance: random.Random) -> list[Event]:
    at = chance.uniform(0.1, plan.until)
    back = at + chance.choice((0.01, 0.5, 3.0))
    client = (chance.randint(1, plan.clients),)
    both = (*client, chance.randint(1, plan.machines))
    kind = chance.choice(DISTURBANCES)
    if kind in ("client_kill", "client_stop"):
        return [Event(at, kind, client), Event(back, "client_start", client)]
    if kind == "client_freeze":
        return [Event(at, kind, client), Event(back, "client_go_on", client)]
    if kind in ("client_silence", "client_one_way"):
        return [Event(at, kind, both), Event(back, "heal")]
    if kind == "client_slow":
        return [Event(at, kind, both, chance.choice((0.3, 2.0)))]
    return [Event(at, kind, both)]


def config_text(plan: Plan, machine: int) -> dict[str, Any]:
    """What the file of a node has besides, in a world with clients."""
    if not plan.clients:
        return {"groups": "", "door": ""}
    made = ', "web/*"' if plan.makes_groups else ""
    return {
        "groups": 'acl = "*"\nposts = "*"' + ('\n"web/*" = "*"' if made else ""),
        "door": f"""
        [clients]
        listen = "127.0.0.1:{FIRST_DOOR + machine}"
        groups = ["acl", "posts"{made}]
        kept_messages = {plan.kept_for_clients}
        """,
    }
