"""Worlds that are about something: a mechanism that a world drawn at random seldom sets in motion.

Every other seed tells a tale, one after the other. What else was drawn for it stays, unless it
would keep the tale from happening or from being judged.
"""

import random
from collections.abc import Callable
from typing import Final

from causalcast.nodeworld.plan import LATENCIES, SLOWEST, Event, Plan

STANDS_STILL: Final = "a neighbour stands still"
LONG_MESSAGES: Final = "long messages on slow ways"
DOES_NOT_LAST: Final = "a link that does not last"
STOPS: Final = "somebody stops while all publish"
# In these nodes are as patient as they are shipped.
TIMED: Final = (STANDS_STILL, LONG_MESSAGES, DOES_NOT_LAST, STOPS)

Tale = Callable[[Plan, random.Random], None]


def stop_while_they_pour(plan: Plan, chance: random.Random) -> None:
    """Somebody stops while everybody publishes without waiting for receipts."""
    _let_pour(plan)
    plan.largest_body = min(chance.choice((100, 1000)), plan.limits["body_bytes"])
    plan.sync_ms = chance.choice((2.0, 30.0, 100.0))
    plan.limits["held_bytes"] = chance.choice((1, 8 << 20))
    at = chance.uniform(0.5, 2.0)
    for _ in range(2):
        machine, other = chance.sample(range(1, plan.machines + 1), 2)
        if chance.random() < 0.5:  # somebody does not read, so that what was written stays here
            plan.events.append(Event(at - 0.4, "freeze", (other,)))
            plan.events.append(Event(at + 1.0, "go_on", (other,)))
        plan.events += [Event(at, "stop", (machine,)), Event(at + 0.1, "start", (machine,))]
        at += chance.uniform(1.0, 2.0)


def stop_while_it_dials(plan: Plan, chance: random.Random) -> None:
    """Somebody stops as soon as it has started, or has lost its links."""
    plan.latency_ms = chance.choice(LATENCIES[1:])
    machine = chance.randint(1, plan.machines)
    others = [other for other in range(1, plan.machines + 1) if other != machine]
    at = chance.uniform(0.5, 2.0)
    for _ in range(3):
        plan.events += [Event(at, "cut", (machine, other)) for other in others]
        at += chance.uniform(0.0, 4.0) * plan.latency_ms / 1000
        plan.events += [Event(at, "stop", (machine,)), Event(at + 1.0, "start", (machine,))]
        at += 1.0 + chance.uniform(0.0, 6.0) * plan.latency_ms / 1000
    plan.level = chance.choice(("full", plan.level))  # only then what is dropped is noted


def an_old_disk_alone(plan: Plan, chance: random.Random) -> None:
    """An old copy of a disk is used while nobody can see it, and then once more."""
    machine = chance.randint(1, plan.machines)
    others = [other for other in range(1, plan.machines + 1) if other != machine]
    copied = chance.uniform(0.5, 2.0)
    died = copied + chance.choice((0.1, 0.3, 1.0))
    again = died + chance.choice((1.0, 2.0))
    plan.publications = 1000
    plan.largest_body = min(plan.largest_body, 100)
    plan.events += [
        Event(copied, "copy", (machine,)),
        Event(died, "kill", (machine,)),
        Event(died + 0.001, "put_back", (machine,)),
        *(Event(died + 0.002, "silence", (machine, other)) for other in others),
        Event(died + 0.01, "start", (machine,)),
        Event(again, "kill", (machine,)),
        Event(again + 0.01, "start", (machine,)),
        Event(again + 0.02, "heal"),
    ]


def a_tight_disk(plan: Plan, chance: random.Random) -> None:
    """There is room for what is appended, and none for a second copy of it."""
    plan.limits["compact_bytes"] = 1
    for machine in range(1, plan.machines + 1):
        at = chance.uniform(0.2, 1.0)
        while at < plan.until:
            room = chance.choice((100, 300, 1_000, 3_000, 20_000))
            plan.events.append(Event(at, "tight", (machine,), room))
            at += chance.uniform(0.2, 1.0)
            plan.events.append(Event(at, "disk_works", (machine,)))
            plan.events.append(Event(at + 0.001, "start", (machine,)))
            at += chance.uniform(0.2, 1.0)


def a_trace_that_fails(plan: Plan, chance: random.Random) -> None:
    """The trace is on a disk that is full, or that a power cut damages; the journal is not."""
    plan.level = chance.choice(("full", "deliveries"))
    for machine in range(1, plan.machines + 1):
        who, at = (machine,), chance.uniform(0.5, 4.0)
        if chance.random() < 0.5:
            plan.events += [Event(at, "trace_full", who), Event(at + 1.0, "disk_works", who)]
        else:
            plan.events += [Event(at, "trace_damaged", who), Event(at + 0.1, "start", who)]


def somebody_stands_still(plan: Plan, chance: random.Random) -> None:
    """For long, while the others publish more than its links hold."""
    _be_quick(plan)
    plan.until = 25.0
    plan.limits["kept_bytes"] = 256 << 20
    plan.limits["send_buffer_bytes"] = chance.choice((4096, 1 << 16))
    plan.largest_body = min(chance.choice((100, 2000)), plan.limits["body_bytes"])
    plan.publications = 200
    plan.events = [Event(chance.uniform(0.5, 2.0), "freeze", (chance.randint(1, plan.machines),))]


def a_link_that_does_not_last(plan: Plan, chance: random.Random) -> None:
    """Every connection between two machines is lost as soon as it is there, for a while."""
    plan.latency_ms = chance.choice(LATENCIES[:2])
    one, other = chance.sample(range(1, plan.machines + 1), 2)
    at = chance.uniform(0.1, 1.0)
    plan.until = 12.0
    pair = (one, other)
    plan.events = [
        Event(at, "flaky", pair, chance.choice((2.0, 5.0, 20.0))),
        Event(at, "cut", pair),
    ]
    plan.events += [Event(plan.until - 1.0, "heal")]


def somebody_is_away(plan: Plan, chance: random.Random) -> None:
    """So long that the others keep as much for it as they may."""
    plan.limits["kept_bytes"] = chance.choice((1, 4096, 1 << 16))
    plan.largest_body = min(chance.choice((100, 1000)), plan.limits["body_bytes"])
    plan.publications = 1000
    machine = (chance.randint(1, plan.machines),)
    plan.events = [Event(chance.uniform(0.1, 1.0), "kill", machine)]


def long_messages(plan: Plan, chance: random.Random) -> None:
    """One takes longer than detectors have patience."""
    _be_quick(plan)
    plan.until = 60.0
    plan.limits["body_bytes"] = 1 << 20
    plan.limits["send_buffer_bytes"] = chance.choice((4096, 1 << 16))
    plan.bytes_per_second = SLOWEST
    plan.largest_piece = 1500
    plan.largest_body = 200_000
    plan.publications = 2
    plan.events = []


OF_ALL: Final[dict[str, Tale]] = {
    STOPS: stop_while_they_pour,
    "somebody stops while it dials": stop_while_it_dials,
    DOES_NOT_LAST: a_link_that_does_not_last,
    LONG_MESSAGES: long_messages,
}
OF_THE_DURABLE: Final[dict[str, Tale]] = {
    **OF_ALL,
    "an old disk alone": an_old_disk_alone,
    "a tight disk": a_tight_disk,
    "a trace that fails": a_trace_that_fails,
    STANDS_STILL: somebody_stands_still,
    "somebody is away": somebody_is_away,
}


def tales_of(is_resumed: bool) -> dict[str, Tale]:
    """Those that are told of protocols whose nodes go on with their disks, or of others."""
    return OF_THE_DURABLE if is_resumed else OF_ALL


def tell(plan: Plan, is_resumed: bool) -> None:
    """Let the world of a plan be about something, if it is its turn."""
    tales = tales_of(is_resumed)
    turn, is_told = divmod(plan.seed, 2)
    if not is_told:
        return
    plan.tale = list(tales)[turn % len(tales)]
    if is_resumed and plan.tale != LONG_MESSAGES:
        plan.is_durable = True  # else nobody may stop, and there is no disk
    tales[plan.tale](plan, random.Random(f"tale/{plan.protocol}/{plan.seed}"))


def _let_pour(plan: Plan) -> None:
    plan.pours = True
    plan.publications = 1000
    plan.bytes_per_second = 0


def _be_quick(plan: Plan) -> None:
    """Ways and disks are as they should be: so it can be said how long something may take."""
    plan.latency_ms = min(plan.latency_ms, 20.0)
    plan.sync_ms = min(plan.sync_ms, 2.0)
    plan.bytes_per_second = 0
    plan.largest_piece = 1 << 16
