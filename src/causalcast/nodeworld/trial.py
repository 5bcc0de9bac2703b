"""One world from its beginning to its verdict."""

import asyncio
import gc
import random
import warnings
from pathlib import Path
from typing import Any, Final

from causalcast.errors import CausalcastError
from causalcast.limits import set_to
from causalcast.nodeworld.disk import SimDisk
from causalcast.nodeworld.loop import WorldLoop
from causalcast.nodeworld.network import Network
from causalcast.nodeworld.plan import UNTIL, Event, Plan
from causalcast.nodeworld.process import SimProcess
from causalcast.nodeworld.verdict import Outcome, judge_world
from causalcast.runtime.node_config import NodeConfig

MOST_CALLBACKS: Final = 3_000_000
REST_WITHIN: Final = 300.0  # seconds for everybody to have everything
FOLDER: Final = Path("/world")


class World:
    """All machines, and what happens to them."""

    def __init__(self, plan: Plan, loop: WorldLoop) -> None:
        self.plan = plan
        self.loop = loop
        self.outcome = Outcome(plan.seed)
        chance = random.Random(f"world/{plan.protocol}/{plan.seed}")
        self.network = Network(loop, random.Random(chance.random()))
        self.network.usual_latency = plan.latency_ms / 1000
        self.network.largest_piece = plan.largest_piece
        self.processes = {
            node: SimProcess(
                _config(plan, node),
                self.network,
                SimDisk(random.Random(chance.random()), plan.sync_ms / 1000),
                random.Random(chance.random()),
            )
            for node in range(1, plan.nodes + 1)
        }
        some = next(iter(self.processes.values()))
        self.guarantees = list(some.config.blueprint.protocol.guarantees)
        loop.set_exception_handler(self._unheard)

    def _unheard(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, CausalcastError):  # applications hear of those
            self.outcome.problems.append(f"unheard: {context.get('message')}: {error!r}")

    async def run(self) -> None:
        """Everything that the plan says, the calm, and the end."""
        for process in self.processes.values():
            process.start(UNTIL)
        for event in self.plan.events:
            await asyncio.sleep(max(0.0, event.at - self.loop.time()))
            if await self._happens(event):
                self.outcome.fired[event.kind] = self.outcome.fired.get(event.kind, 0) + 1
        await asyncio.sleep(max(0.0, UNTIL - self.loop.time()))
        await self._calm()
        for process in self.processes.values():
            await process.stop()
            self.outcome.problems += process.failures
            for name, count in process.seen.items():
                if count:
                    self.outcome.fired[name] = self.outcome.fired.get(name, 0) + count

    async def _happens(self, event: Event) -> bool:
        who = [self.processes[node] for node in event.nodes]
        ports = [process.config.listen.port for process in who]
        if event.kind in ("kill", "power"):
            return who[0].crash(power=event.kind == "power")
        if event.kind == "stop":
            return await who[0].stop()
        if event.kind == "start":
            if not who[0].is_up:
                who[0].start(UNTIL)
            return True
        if event.kind == "cut":
            return self.network.cut(ports[0], ports[1])
        if event.kind == "silence":
            self.network.silence(ports[0], ports[1])
        elif event.kind == "heal":
            self.network.heal()
        elif event.kind == "slow":
            self.network.latency[ports[0], ports[1]] = event.value
        elif event.kind in ("full", "room"):
            who[0].disk.is_full = event.kind == "full"
        return True

    async def _calm(self) -> None:
        """Nothing more happens: whoever is down comes back, and everybody gets everything."""
        self.network.heal()
        self.network.latency.clear()
        for process in self.processes.values():
            process.disk.is_full = False
            process.failures = [f for f in process.failures if "No space left" not in f]
        deadline = self.loop.time() + REST_WITHIN
        calm_since = self.loop.time()
        before: list[Any] = []
        while self.loop.time() < deadline and self.loop.time() - calm_since < 10.0:
            for process in self.processes.values():
                if not process.is_up:
                    process.start(0.0)
            await asyncio.sleep(0.5)
            found = [p.node.status() if p.node else None for p in self.processes.values()]
            now = [s and [s["delivered"], s["unacknowledged"]] for s in found]
            busy = [s is None or s["publishers_wait"] or s["unacknowledged"] for s in found]
            if now != before or any(busy):
                calm_since = self.loop.time()
                before = now
        if self.loop.time() >= deadline:
            self.outcome.problems.append("no rest: something still happens after five minutes")


def try_plan(plan: Plan) -> Outcome:
    """Run a plan, and judge what came of it."""
    with set_to(plan.drawn_limits):
        outcome = _try(plan)
    outcome.limits = list(plan.drawn_limits)
    return outcome


def _try(plan: Plan) -> Outcome:
    loop = WorldLoop(MOST_CALLBACKS)
    gc.disable()  # a collection would run the `finally` of a node that was killed
    try:
        asyncio.set_event_loop(loop)
        world = World(plan, loop)
        outcome = world.outcome
        try:
            loop.run_until_complete(world.run())
        except Exception as error:
            outcome.problems.append(f"the world broke: {error!r}")
        judge_world(world.guarantees, world.processes, outcome)
        outcome.callbacks = loop.callbacks
        outcome.seconds = loop.time()
        outcome.fired.update(world.network.counts)
        return outcome
    finally:
        # What a killed process had begun is never awaited, and that is as it should be.
        warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
        loop.set_exception_handler(lambda _loop, _context: None)  # the rest is swept away
        asyncio.set_event_loop(None)
        loop._ready.clear()  # type: ignore[attr-defined]  # nothing of it is to happen
        loop.close()
        gc.enable()


def _config(plan: Plan, node: int) -> NodeConfig:
    peers = ", ".join(f'{peer} = "127.0.0.1:{7000 + peer}"' for peer in range(1, plan.nodes + 1))
    limits = "\n".join(f"{name} = {value}" for name, value in plan.limits.items())
    return NodeConfig.parse(
        f"""
        [node]
        id = {node}
        listen = "127.0.0.1:{7000 + node}"
        [cluster]
        name = "world"
        peers = {{ {peers} }}
        [protocol]
        name = "{plan.protocol}"
        {plan.options}
        [overlay]
        {plan.overlay}
        [groups]
        {plan.groups}
        [storage]
        path = "node-{node}/data"
        [trace]
        path = "node-{node}/trace"
        level = "{plan.level}"
        [security]
        tls = false
        [limits]
        {limits}
        """,
        FOLDER,
    )
