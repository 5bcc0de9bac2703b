"""One world from its beginning to its verdict."""

import asyncio
import gc
import random
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from causalcast.errors import CausalcastError
from causalcast.limits import set_to
from causalcast.nodeworld.application import Habits
from causalcast.nodeworld.configs import config_of
from causalcast.nodeworld.disk import Died, SimDisk
from causalcast.nodeworld.loop import WorldLoop
from causalcast.nodeworld.made_groups import judge_made
from causalcast.nodeworld.network import COUNTED_FOR, MOST_DIALS, MOST_DIALS_TO_JOIN, Network
from causalcast.nodeworld.newcomers import GROUP, Learner, seen, verdict
from causalcast.nodeworld.plan import Event, Plan
from causalcast.nodeworld.process import SimProcess
from causalcast.nodeworld.rest import LogLines, Rest
from causalcast.nodeworld.verdict import Outcome, judge_world
from causalcast.nodeworld.what_it_costs import vanished

if TYPE_CHECKING:
    from causalcast.nodeworld.clients import Clients

MOST_CALLBACKS: Final = 3_000_000
ENDINGS: Final = ("kill", "power", "stop", "die_writing", "full", "read_only", "sync_error")
JOIN_EVERY: Final = 0.05  # seconds between those who come to a cluster that nodes join

# What a node may say that was not given what it needs.
OF_ITS_DISK: Final = ("No space left", "Read-only file system", "Input/output error")


class World:
    """All machines, and what happens to them."""

    def __init__(self, plan: Plan, loop: WorldLoop, lines: LogLines) -> None:
        self.plan = plan
        self.loop = loop
        self.outcome = Outcome(plan.seed)
        chance = random.Random(f"world/{plan.protocol}/{plan.seed}")
        self.network = Network(loop, random.Random(chance.random()))
        loop.network = self.network
        self.network.usual_latency = plan.latency_ms / 1000
        self.network.bytes_per_second = plan.bytes_per_second
        self.network.largest_piece = plan.largest_piece
        apart = (GROUP,) if plan.newcomers else ()
        self.processes = {
            machine: SimProcess(
                partial(config_of, plan, machine),
                self.network,
                SimDisk(random.Random(chance.random()), plan.sync_ms / 1000),
                random.Random(chance.random()),
                random.Random(f"more/{plan.protocol}/{plan.seed}/{machine}"),
                habits_of(plan, apart),
                Learner(plan, machine) if plan.newcomers else None,
            )
            for machine in range(1, plan.machines + 1)
        }
        self.clients = clients_of(plan, self.network)
        self._rest = Rest(self.network, self.processes, lines)
        some = next(iter(self.processes.values()))
        self.guarantees = list(some.config.blueprint.protocol.guarantees)
        self.has_bad_trace = False  # it is no witness
        loop.set_exception_handler(self._unheard)

    def _unheard(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, CausalcastError | Died):  # applications hear of the former
            self.outcome.problems.append(f"unheard: {context.get('message')}: {error!r}")

    async def run(self) -> None:
        """Everything that the plan says, the calm, and the end."""
        for process in self.processes.values():
            process.start(self.plan.until)
            if self.plan.is_joined or self.plan.is_open:
                await asyncio.sleep(JOIN_EVERY)
        if self.clients is not None:
            self.clients.start()
        both = [*self.plan.events, *self.plan.client_events]
        for event in sorted(both, key=lambda event: event.at):
            await asyncio.sleep(max(0.0, event.at - self.loop.time()))
            if await self._happens(event):
                self.outcome.fired[event.kind] = self.outcome.fired.get(event.kind, 0) + 1
        await asyncio.sleep(max(0.0, self.plan.until - self.loop.time()))
        await self._calm()
        self._look_at_groups()
        if self.plan.tale:
            self.outcome.fired[self.plan.tale] = 1
        for process in self.processes.values():
            await process.stop()
            self.outcome.problems += process.failures
            for name, count in process.seen.items():
                if count:
                    self.outcome.fired[name] = self.outcome.fired.get(name, 0) + count

    async def _happens(self, event: Event) -> bool:
        """Whether it did: who is down cannot die, and the last of a cluster may not."""
        if event.kind == "heal":
            self.network.heal()
            return True
        if event.kind.startswith("client_"):
            return self.clients is not None and await self.clients.happens(event)
        who = self.processes[event.machines[0]]
        if event.kind == "gone":
            return who.command(f"gone {self.processes[event.machines[1]].config.node}")
        if len(event.machines) == 2:
            return self._happens_between(event, who, self.processes[event.machines[1]])
        if event.kind in ENDINGS and self.plan.is_joined and not self._is_missed_by_nobody(who):
            return False
        if event.kind == "stop":
            return await who.stop()
        return self._DEEDS[event.kind](self, who, event)

    def _happens_between(self, event: Event, one: SimProcess, other: SimProcess) -> bool:
        a, b = one.config.listen.port, other.config.listen.port
        if event.kind == "cut":
            return self.network.cut(a, b)
        if event.kind == "half_close":
            return self.network.half_close(a, b)
        if event.kind == "slow":
            self.network.latency[a, b] = event.value
        elif event.kind == "flaky":
            self.network.let_nothing_last(a, b, event.value)
        else:
            self.network.silence(a, b, one_way=event.kind == "one_way")
        return True

    def _is_missed_by_nobody(self, who: SimProcess) -> bool:
        """Whether the cluster goes on without a machine: two others are linked, or one was."""
        others = [process for process in self.processes.values() if process is not who]
        return sum(process.is_linked for process in others) >= min(2, len(others))

    def _start(self, who: SimProcess, event: Event) -> bool:
        if not who.is_up:
            who.start(self.plan.until)
        return True

    def _die_writing(self, who: SimProcess, event: Event) -> bool:
        who.disk.die_in = round(event.value) if who.is_up else 0
        return who.is_up

    def _go_on(self, who: SimProcess, event: Event) -> bool:
        who.go_on()
        return True

    def _copy(self, who: SimProcess, event: Event) -> bool:
        who.copy_disk()
        return True

    def _disk_fails(self, who: SimProcess, event: Event) -> bool:
        disk = who.disk
        disk.is_full = event.kind == "full"
        disk.is_read_only = event.kind == "read_only"
        disk.fails_to_sync = event.kind == "sync_error"
        disk.trace_is_full = event.kind == "trace_full"
        disk.capacity = 0
        self.has_bad_trace = self.has_bad_trace or disk.trace_is_full
        return True

    def _damage_trace(self, who: SimProcess, event: Event) -> bool:
        who.crash(power=True)
        who.disk.damage_traces()
        self.has_bad_trace = True
        return True

    def _tight(self, who: SimProcess, event: Event) -> bool:
        who.disk.leave_room_for(round(event.value))
        return True

    _DEEDS: Final[dict[str, Callable[["World", SimProcess, Event], bool]]] = {
        "kill": lambda self, who, event: who.crash(power=False),
        "power": lambda self, who, event: who.crash(power=True),
        "start": _start,
        "die_writing": _die_writing,
        "freeze": lambda self, who, event: who.freeze(),
        "go_on": _go_on,
        "copy": _copy,
        "put_back": lambda self, who, event: who.put_back_disk(),
        "full": _disk_fails,
        "read_only": _disk_fails,
        "sync_error": _disk_fails,
        "trace_full": _disk_fails,
        "trace_damaged": _damage_trace,
        "tight": _tight,
        "disk_works": _disk_fails,
    }

    async def _calm(self) -> None:
        """Nothing more happens: whoever is down comes back, and everybody gets everything."""
        self.network.calm_down()
        for process in self.processes.values():
            process.go_on()
            disk = process.disk
            disk.is_full = disk.is_read_only = disk.fails_to_sync = disk.trace_is_full = False
            disk.die_in = disk.capacity = 0
            process.failures = [f for f in process.failures if not any(o in f for o in OF_ITS_DISK)]
        if any(process.has_old_disk for process in self.processes.values()):
            await asyncio.sleep(60.0)  # who has lost what it said may be refused for ever
            self._forgive_old_disks()
            self.outcome.problems += vanished(self.processes)
            return
        if self.clients is not None:
            self.outcome.problems += await self.clients.have_everything(self._rest.bring_back)
        judges_storms = not self.plan.draws_times()
        self.outcome.problems += await self._rest.come(judges_storms)

    def _look_at_groups(self) -> None:
        """Those that were made: while all nodes are up. Old disks have forgotten some."""
        if not self.plan.makes_groups or any(p.has_old_disk for p in self.processes.values()):
            return
        nodes = {int(process.config.node): process.node for process in self.processes.values()}
        ledgers = {
            int(node): ledger.made
            for process in self.processes.values()
            for node, ledger in process.ledgers.items()
        }
        self.outcome.problems += judge_made(nodes, ledgers)
        if self.clients is not None:
            known = {n: set(node.groups()) for n, node in nodes.items() if node is not None}
            self.outcome.problems += self.clients.wrong_with_groups(known)
        fired = self.outcome.fired
        for ledger in ledgers.values():
            fired["group_changed"] = fired.get("group_changed", 0) + ledger.changes

    def _forgive_old_disks(self) -> None:
        for process in self.processes.values():
            process.failures = []


def habits_of(plan: Plan, apart: tuple[str, ...]) -> Habits:
    """What all its applications have in common."""
    readers = f"readers/{plan.protocol}/{plan.seed}" if plan.has_readers else ""
    makes = f"made groups/{plan.protocol}/{plan.seed}" if plan.makes_groups else ""
    return Habits(plan.largest_body, plan.publications, plan.pours, apart, readers, makes)


def clients_of(plan: Plan, network: Network) -> "Clients | None":
    """Known only where there are some: they need an extra."""
    if not plan.clients:
        return None
    from causalcast.nodeworld.clients import Clients

    return Clients(plan, network)


def try_plan(plan: Plan) -> Outcome:
    """Run a plan, and judge what came of it."""
    with set_to(plan.drawn_limits):
        outcome = _try(plan)
    outcome.limits = list(plan.drawn_limits)
    return outcome


def _collect_in_silence() -> None:
    """Connections of who was killed clean up when they are collected, and miss their loop then."""
    before = sys.unraisablehook
    sys.unraisablehook = lambda _: None
    try:
        gc.collect()
    finally:
        sys.unraisablehook = before


def _try(plan: Plan) -> Outcome:
    loop = WorldLoop(MOST_CALLBACKS)
    gc.disable()  # a collection would run the `finally` of a node that was killed
    lines = LogLines()
    world: World | None = None
    try:
        asyncio.set_event_loop(loop)
        world = World(plan, loop, lines)
        outcome = world.outcome
        try:
            with lines:
                loop.run_until_complete(world.run())
        except Exception as error:
            outcome.problems.append(f"the world broke: {error!r}")
        judge_world(world.guarantees, world.processes, plan, world.has_bad_trace, outcome)
        learners = {m: p.learner for m, p in world.processes.items() if p.learner is not None}
        if learners:
            outcome.problems += verdict(learners)
            outcome.fired.update(seen(learners))
        if world.clients is not None:
            outcome.problems += world.clients.verdict()
            outcome.digest += world.clients.digest()[:16]
            outcome.fired.update(world.clients.seen())
        most = MOST_DIALS_TO_JOIN if plan.is_joined or plan.is_open else MOST_DIALS
        if not plan.draws_times() and world.network.most_dials > most:
            outcome.problems.append(
                f"a storm of dials: {world.network.most_dials} from one to another in "
                f"{COUNTED_FOR:g} seconds (at most {most})"
            )
        outcome.callbacks = loop.callbacks
        outcome.seconds = loop.time()
        outcome.fired.update(world.network.counts)
        return outcome
    finally:
        # What a killed process had begun is never awaited, and that is as it should be.
        warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
        asyncio.set_event_loop(None)
        loop.sweep()
        if plan.clients or plan.newcomers:
            world = None
            _collect_in_silence()
        gc.enable()
