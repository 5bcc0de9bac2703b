"""Draws from a seed what is going to happen in a world, before it begins."""

import random
from typing import Any, Final

from causalcast.nodeworld.drawn_clients import add_clients
from causalcast.nodeworld.drawn_limits import drawn_limits
from causalcast.nodeworld.newcomers import add_newcomers
from causalcast.nodeworld.plan import LATENCIES, SLOWEST, UNTIL, Event, Plan
from causalcast.nodeworld.tales import LONG_MESSAGES, STOPS, TIMED, tell
from causalcast.registry import find_protocol

JOINED_AFTER: Final = 1.5  # seconds in which whoever founds a cluster is left alone

MESH: Final = 'kind = "full_mesh"'
# Protocols for overlays that nodes join; their nodes are somebody new in every life.
JOINED: Final = ("cptcast", "plumtree", "prc_broadcast")
VIEWS: Final = 'kind = "hyparview"\nactive_view = 3\nprobe_every = 300\nretry_after = 200'

# Nodes that are let in by members; one of three worlds of such a protocol.
OPEN: Final = 'kind = "open_mesh"\nretry_after = 100'

ENDS: Final = ("kill", "kill", "power", "stop", "lives", "die_writing", "die_writing")
DISTURBANCES: Final = (
    "cut",
    "half_close",
    "silence",
    "one_way",
    "slow",
    "freeze",
    "full",
    "read_only",
    "sync_error",
)
WITH_A_LOG: Final = ("cptcast", "prc_broadcast")
SHORT_LOG: Final = 5  # deliveries
OF_NAMES: Final = ("runtime.host.group_directory.", "runtime.storage.reader_table.longest_name")


def draw(protocol: str, seed: int, clients: bool = False, newcomers: bool = False) -> Plan:
    """The plan of a seed; with clients it is the same world, and doors to its nodes. With newcomers
    there is one more group, which some join late."""
    plan = _draw(protocol, seed)
    if newcomers:
        add_newcomers(plan)
    else:
        _draw_groups(plan)
    if clients:
        add_clients(plan)
    return plan


def _draw(protocol: str, seed: int) -> Plan:
    chance = random.Random(f"nodes/{protocol}/{seed}")
    machines = chance.randint(2, 4)
    is_joined = protocol in JOINED
    is_resumed = find_protocol(protocol).restart == "resume"
    overlay, options = _shape(protocol, chance)
    if find_protocol(protocol).agrees_on_members and seed % 3 == 1:
        overlay = OPEN
    limits = _limits(chance)
    plan = Plan(
        seed=seed,
        protocol=protocol,
        machines=machines,
        overlay=overlay,
        options=options,
        groups='all = "*"' if is_joined else _groups(machines, chance),
        limits=limits,
        latency_ms=chance.choice(LATENCIES),
        bytes_per_second=chance.choice((0, 0, 0, 0, SLOWEST, 200_000)),
        largest_piece=chance.choice((40, 1500, 1 << 16, 1 << 16)),
        sync_ms=chance.choice((0.1, 2.0, 30.0)),
        level=chance.choice(("full", "deliveries", "none")),
        largest_body=min(
            chance.choice((10, 100, 2000, limits["body_bytes"])), limits["body_bytes"]
        ),
        publications=chance.choice((40, 200, 1000)),
        is_joined=is_joined,
        is_open=overlay == OPEN,
        is_durable=is_resumed and chance.random() < 0.75,
    )
    if not plan.is_durable and chance.random() < 0.5:
        plan.level = "none"  # publications travel as runs
    if protocol == "vector_clock_broadcast" and not plan.is_durable and seed % 4 == 2:
        plan.options = 'spread = "direct"'  # without a draw of its own, so seeds stay
    if protocol in WITH_A_LOG and seed % 4 == 2:
        plan.options = f"log = {SHORT_LOG}"  # who is away for a moment is left behind
    for _ in range(chance.randint(0, 8)):
        plan.events += _some_event(plan, chance)
    if is_resumed and plan.is_durable and chance.random() < 0.2:
        plan.events += _old_disk(plan, chance)
    tell(plan, is_resumed)
    if find_protocol(protocol).agrees_on_members:
        _remove_somebody(plan)
    plan.events.sort(key=lambda event: event.at)
    plan.drawn_limits = drawn_limits(protocol, seed, plan.limits)
    _let_it_be_carried(plan)
    return plan


def _draw_groups(plan: Plan) -> None:
    """Readers with names, and groups that are made: each in every third world or so, with draws of
    their own, so seeds stay."""
    chance = random.Random(f"groups/{plan.protocol}/{plan.seed}")
    plan.has_readers = chance.random() < 0.4
    offers = find_protocol(plan.protocol).offers
    plan.makes_groups = "made_groups" in offers and chance.random() < 0.4
    if plan.has_readers or plan.makes_groups:  # what they may be called is as stated
        for name in [name for name in plan.drawn_limits if name.startswith(OF_NAMES)]:
            del plan.drawn_limits[name]


def _let_it_be_carried(plan: Plan) -> None:
    """What is published in seconds is to be carried within minutes, whatever is repeated."""
    # Overlays that nodes join go on dialling whoever stopped: that is not judged yet.
    if plan.tale in TIMED and not (plan.is_joined and plan.tale == STOPS):
        plan.forget_drawn_times()
    if plan.tale == LONG_MESSAGES:
        return  # there are few of them, and time
    if plan.largest_piece < 1000:
        plan.largest_body = min(plan.largest_body, 2000)
    if plan.largest_body > 2000:
        plan.publications = min(plan.publications, max(4, 4_000_000 // plan.largest_body))
    if plan.bytes_per_second == SLOWEST:
        plan.largest_body = min(plan.largest_body, 2000)
        plan.publications = min(plan.publications, 60)
        plan.forget_drawn_times()  # patience that no slow way meets


def _shape(protocol: str, chance: random.Random) -> tuple[str, str]:
    if protocol in JOINED:
        return VIEWS, ""
    if protocol in ("locamu", "delta_neighbourhood"):
        return f'kind = "{chance.choice(("line", "star"))}"', ""
    if protocol == "causal_separators":
        return 'kind = "line"', "zone_size = 2"
    return MESH, ""


def _groups(machines: int, chance: random.Random) -> str:
    members = sorted(chance.sample(range(1, machines + 1), chance.randint(1, machines)))
    return f'all = "*"\nsome = {members}'


def _limits(chance: random.Random) -> dict[str, int]:
    """Often at their smallest."""
    drawn: dict[str, Any] = {
        "body_bytes": chance.choice((3000, 60_000, 1 << 20)),
        "send_buffer_bytes": chance.choice((4096, 1 << 16, 8 << 20)),
        "held_bytes": chance.choice((1, 4096, 8 << 20)),
        "inbox_bytes": chance.choice((1, 4096, 8 << 20)),
        "compact_bytes": chance.choice((1, 20_000, 64 << 20)),
        "control_per_second": chance.choice((50, 1000)),
    }
    return drawn


def _some_event(plan: Plan, chance: random.Random) -> list[Event]:
    at = chance.uniform(0.1, UNTIL)
    machine = chance.randint(1, plan.machines)
    other = chance.choice([n for n in range(1, plan.machines + 1) if n != machine])
    back = at + chance.choice((0.01, 0.5, 2.0))
    may_die = plan.is_joined or plan.is_durable
    if may_die and chance.random() < 0.5:
        if plan.is_joined:
            at, back = at + JOINED_AFTER, back + JOINED_AFTER
        return _end_of(machine, at, back, chance)
    kind = chance.choice(DISTURBANCES)
    is_of_disk = kind in ("full", "read_only", "sync_error")
    if is_of_disk and not may_die:
        kind, is_of_disk = "cut", False  # a node whose disk fails dies
    if is_of_disk:
        if plan.is_joined:
            at, back = at + JOINED_AFTER, back + JOINED_AFTER
        return [Event(at, kind, (machine,)), Event(back, "disk_works", (machine,))]
    if kind == "freeze":
        return [Event(at, kind, (machine,)), Event(back, "go_on", (machine,))]
    if kind in ("silence", "one_way"):
        return [Event(at, kind, (machine, other)), Event(back, "heal")]
    if kind == "slow":
        return [Event(at, kind, (machine, other), chance.choice((0.3, 2.0, 8.0)))]
    return [Event(at, kind, (machine, other))]


def _remove_somebody(plan: Plan) -> None:
    """In some worlds operators say that one machine is gone, whether it is or not. A majority of
    the others can always agree. Drawn apart, so that what else a seed means stays."""
    chance = random.Random(f"removal/{plan.protocol}/{plan.seed}")
    if plan.machines < 3 or not plan.is_durable or chance.random() < 0.4:
        return
    plan.may_be_removed = True
    whom = chance.randint(1, plan.machines)
    others = [machine for machine in range(1, plan.machines + 1) if machine != whom]
    at = chance.uniform(0.5, UNTIL)
    if chance.random() < 0.5:
        plan.events.append(Event(max(0.1, at - 0.3), "kill", (whom,)))
    for by in chance.sample(others, chance.choice((1, 2))):
        plan.events.append(Event(at + chance.choice((0.0, 0.0, 0.01, 0.5)), "gone", (by, whom)))
    plan.events.append(Event(at + chance.choice((0.1, 1.0, 3.0)), "start", (whom,)))


def _end_of(machine: int, at: float, back: float, chance: random.Random) -> list[Event]:
    """A process ends and begins again, perhaps several times within one handshake."""
    kind = chance.choice(ENDS)
    if kind == "lives":
        events = []
        for _ in range(chance.randint(2, 4)):
            events += [Event(at, "kill", (machine,)), Event(at + 0.001, "start", (machine,))]
            at += chance.choice((0.005, 0.05, 0.4))
        return events
    if kind == "die_writing":
        events = [Event(at, kind, (machine,), chance.randint(1, 40))]
        events += [Event(at + 0.5, "start", (machine,)), Event(at + 2.0, "kill", (machine,))]
        return [*events, Event(at + 2.001, "start", (machine,))]  # what was torn is read again
    return [Event(at, kind, (machine,)), Event(back, "start", (machine,))]


def _old_disk(plan: Plan, chance: random.Random) -> list[Event]:
    """A copy of a disk is made, and takes its place later on."""
    machine = (chance.randint(1, plan.machines),)
    copied = chance.uniform(0.1, 4.0)
    died = copied + chance.choice((0.1, 1.0, 2.0))
    return [
        Event(copied, "copy", machine),
        Event(died, "kill", machine),
        Event(died + 0.001, "put_back", machine),
        Event(died + 0.01, "start", machine),
    ]
