"""Members that come late to a group and take its state, in a world that a seed decides.

Each machine has one more application beside the usual one. It keeps all that was said in a group,
in an order of its own, as on a disk: it outlives its process. Those that found the group have it
from the beginning, the others join while things happen. In the end everybody must have everything
once, in causal order, whatever part of it came as a state and whatever as messages.
"""

import asyncio
import contextlib
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from causalcast.errors import CausalcastError, ConfigError, NodeError
from causalcast.nodeworld.plan import SLOWEST, Event, Plan
from causalcast.registry import find_protocol
from causalcast.runtime.host.newcomers import STATES
from causalcast.runtime.node import Group, Node
from causalcast.runtime.received_message import ReceivedMessage

GROUP: Final = "doc"
MOST_SAID: Final = 40  # by each machine
MOST_PIECES: Final = 40  # of a state: on a slow way each takes its time
MOST_TOLD: Final = 3  # of one kind
LEFT_OUT: Final = ("copy", "put_back", "gone")  # events that such worlds do not have
AGAIN_AFTER: Final = 0.3  # seconds, when entering came to nothing

# Limits that such worlds draw, and their values there; those of pieces follow from the state.
DRAWN: Final[dict[str, tuple[float, ...]]] = {
    "runtime.host.newcomers.patience": (1.0, 10.0),
    "runtime.host.newcomers.hold_for": (0.02, 2.0),
    "runtime.host.newcomers.look_every": (0.005, 0.05, 0.5),
    "runtime.host.newcomers.kept_for": (5.0, 120.0),
}


def add_newcomers(plan: Plan) -> None:
    """Some join late. Whoever dies comes back with its disk; nobody has an old one, or is removed
    for good."""
    spec = find_protocol(plan.protocol)
    if STATES not in spec.offers:
        raise ConfigError(
            f"{plan.protocol}: --newcomers need a protocol that offers states; try "
            "vector_clock_broadcast"
        )
    chance = random.Random(f"newcomers/{plan.protocol}/{plan.seed}")
    plan.is_durable = True
    plan.events = [event for event in plan.events if event.kind not in LEFT_OUT]
    plan.may_be_removed = False  # whoever is removed gets no state, and what it said may be lost
    machines = list(range(1, plan.machines + 1))
    late = chance.sample(machines, chance.randint(1, plan.machines - 1))
    if plan.is_open:
        late = machines[1:]  # the first one founds the cluster
        plan.drawn_limits.pop("overlays.open_mesh.most_nodes", None)  # or some are never let in
    plan.newcomers = {machine: chance.uniform(0.2, 4.0) for machine in sorted(late)}
    plan.state_bytes = chance.choice((0, 300, 30_000, 300_000))
    if plan.bytes_per_second == SLOWEST:
        plan.state_bytes = min(plan.state_bytes, 30_000)
    if chance.random() < 0.7:
        for name, values in DRAWN.items():
            plan.drawn_limits[name] = chance.choice(values)
    least = max(500, (plan.state_bytes + 20_000) // MOST_PIECES)
    plan.drawn_limits["runtime.host.newcomers.piece"] = chance.choice((least, 1 << 17))
    for machine, at in plan.newcomers.items():
        _disturb(plan, machine, at, chance)
    plan.events.sort(key=lambda event: event.at)


def _disturb(plan: Plan, newcomer: int, joins_at: float, chance: random.Random) -> None:
    """Around the moment at which somebody joins: it dies, a giver dies, or their link is cut."""
    for _ in range(chance.choice((0, 1, 1, 2, 3))):
        at = joins_at + chance.choice((0.0, 0.05, 0.3, 1.0)) + chance.uniform(0.0, 0.2)
        other = chance.choice([m for m in range(1, plan.machines + 1) if m != newcomer])
        kind = chance.choice(("newcomer", "giver", "cut", "slow", "freeze"))
        if kind in ("newcomer", "giver"):
            who = (newcomer if kind == "newcomer" else other,)
            back = at + chance.choice((0.01, 0.3, 1.0))
            plan.events += [Event(at, "kill", who), Event(back, "start", who)]
        elif kind == "freeze":
            plan.events += [Event(at, "freeze", (other,)), Event(at + 0.7, "go_on", (other,))]
        else:
            value = chance.choice((0.3, 1.0)) if kind == "slow" else 0.0
            plan.events.append(Event(at, kind, (newcomer, other), value))


def groups_text(plan: Plan) -> str:
    """What the file of each node has besides."""
    if not plan.newcomers:
        return ""
    founders = [m for m in range(1, plan.machines + 1) if m not in plan.newcomers]
    return f"{GROUP} = {founders}"


@dataclass
class Said:
    """One thing that somebody said, and how far it knew others by then."""

    origin: int
    number: int
    knows: dict[int, int] = field(default_factory=dict)

    def encode(self) -> bytes:
        """As it is published."""
        return json.dumps([self.origin, self.number, list(self.knows.items())]).encode()


def _decode(body: bytes) -> Said:
    origin, number, knows = json.loads(body)
    return Said(origin, number, dict(knows))


class Learner:
    """One machine's application of the group, over all lives of its node."""

    def __init__(self, plan: Plan, machine: int) -> None:
        self.machine = machine
        self._joins_at = plan.newcomers.get(machine)  # None: it founds the group
        self._until = plan.until
        self._filling = "x" * plan.state_bytes
        self._chance = random.Random(f"learner/{plan.protocol}/{plan.seed}/{machine}")
        self._most = min(plan.publications, MOST_SAID)
        self._said = 0
        self._is_slow = self._chance.random() < 0.5
        self._leaves = 1 if self._chance.random() < 0.4 else 0  # so often, and comes back
        # As on its disk:
        self.lines: list[tuple[int, bytes]] = []  # ids and bodies, in the order of handling
        self._has: set[int] = set()
        self._in_state: set[int] = set()
        self._done: set[int] = set()  # acknowledged, and that is durable
        self.sure: set[bytes] = set()  # what was published for certain
        self.wrong: list[str] = []
        self.taken = 0
        self.is_in = False  # it has entered the group in this life
        self._tasks: list[asyncio.Task[None]] = []  # of all lives, held until the end

    def start(self, node: Node) -> None:
        """The next life of its node."""
        self.is_in = False
        loop = asyncio.get_running_loop()
        self._tasks += [loop.create_task(self._live(node)), loop.create_task(self._talk(node))]

    async def _live(self, node: Node) -> None:
        loop = asyncio.get_running_loop()
        if self._joins_at is not None:
            await asyncio.sleep(max(0.0, self._joins_at - loop.time()))
        while not node.host().running.is_over:
            with contextlib.suppress(CausalcastError):
                async with node.group(GROUP, snapshot=self._save, restore=self._restore) as doc:
                    self.is_in = True
                    await self._read(doc)
                    self.is_in = False
            await asyncio.sleep(AGAIN_AFTER)

    async def _save(self) -> bytes:
        if self._chance.random() < 0.1:
            raise NodeError("it cannot be read now")
        if self._is_slow:
            await asyncio.sleep(0.05)
        lines = [[message, body.decode()] for message, body in self.lines]
        return json.dumps([lines, self._filling]).encode()

    async def _restore(self, state: bytes) -> None:
        if self._is_slow:
            await asyncio.sleep(0.05)
        if self._chance.random() < 0.1:
            raise NodeError("it cannot be written now")
        lines, _ = json.loads(state)
        self.lines = [(message, body.encode()) for message, body in lines]
        self._has = {message for message, _ in self.lines}
        self._in_state = set(self._has)
        self._done = set()
        self.taken += 1

    async def _read(self, doc: Group) -> None:
        async for message in doc:
            if self._is_slow:
                await asyncio.sleep(0.01)
            self._handle(message)
            if self._is_slow:
                await asyncio.sleep(0.01)
            is_durable = self._chance.random() < 0.3
            await message.ack(durable=is_durable)
            if is_durable:
                self._done.add(message.id)
            if self._leaves and self._joins_at is not None and self._chance.random() < 0.05:
                self._leaves -= 1
                return

    def _handle(self, message: ReceivedMessage) -> None:
        if message.id in self._in_state:
            self.wrong.append(f"{message!r} came though it is in the state that was taken")
        elif message.id in self._done:
            self.wrong.append(f"{message!r} came again after its durable acknowledgement")
        elif message.id not in self._has:
            self._has.add(message.id)
            self.lines.append((message.id, message.payload))

    async def _talk(self, node: Node) -> None:
        loop, group = asyncio.get_running_loop(), node.group(GROUP)
        with contextlib.suppress(CausalcastError):  # the node stops
            while loop.time() < self._until and self._said < self._most:
                await asyncio.sleep(self._chance.choice((0.005, 0.05, 0.3)))
                self._said += 1
                body = Said(self.machine, self._said, self._knows()).encode()
                await group.publish(body)
                self.sure.add(body)

    def _knows(self) -> dict[int, int]:
        """What it says comes after all that it has handled in this life."""
        return _last_of(self.lines) if self.is_in else {}


def _last_of(lines: list[tuple[int, bytes]]) -> dict[int, int]:
    last: dict[int, int] = {}
    for _, body in lines:
        said = _decode(body)
        last[said.origin] = max(said.number, last.get(said.origin, 0))
    return last


def verdict(learners: Mapping[int, Learner]) -> list[str]:
    """Everything that is wrong with what they have in the end."""
    sure = {body for learner in learners.values() for body in learner.sure}
    sure |= {body for learner in learners.values() for _, body in learner.lines}
    problems = []
    for machine, learner in learners.items():
        found = learner.wrong[:MOST_TOLD]
        if not learner.is_in:
            found.append("it never entered the group")
        has = [body for _, body in learner.lines]
        if len(set(has)) < len(has):
            found.append(f"doubled: {len(has) - len(set(has))} lines")
        lost = sure - set(has)
        if lost:
            found.append(f"lost: {len(lost)} of {len(sure)} lines, one is {min(lost).decode()}")
        found += _disorder(learner.lines)[:MOST_TOLD]
        problems += [f"newcomers, machine {machine}: {one}" for one in found]
    return problems


def _disorder(lines: list[tuple[int, bytes]]) -> list[str]:
    last: dict[int, int] = {}
    found = []
    for _, body in lines:
        said = _decode(body)
        if said.number <= last.get(said.origin, 0):
            found.append(f"order of its origin: {body.decode()}")
        if any(last.get(origin, 0) < number for origin, number in said.knows.items()):
            found.append(f"before its cause: {body.decode()}")
        last[said.origin] = max(said.number, last.get(said.origin, 0))
    return found


def seen(learners: Mapping[int, Learner]) -> dict[str, int]:
    """How often things happened that such a campaign has to see."""
    taken = sum(learner.taken for learner in learners.values())
    again = sum(max(0, learner.taken - 1) for learner in learners.values())
    return {"state_taken": taken, "state_taken_again": again}


def told(learners: Mapping[int, Learner]) -> Any:
    """For the digest of a world."""
    return [(machine, learner.lines) for machine, learner in learners.items()]
