"""What applications do with their nodes, and the ledger of what they were told.

Traces say what a node did; ledgers say what its application saw. Runs of publications leave no rows
where a node keeps no trace, and an application can be cheated in ways that no trace shows.
"""

import asyncio
import contextlib
import random
from dataclasses import dataclass, field

from causalcast.core.ids import MessageId
from causalcast.errors import CausalcastError
from causalcast.runtime.node import Group, Node
from causalcast.runtime.received_message import ReceivedMessage


@dataclass
class Ledger:
    """Of one node, over all its lives. Bodies are all different, and name publications."""

    log: list[tuple[str, str, bytes]] = field(default_factory=list)  # kind, group, body; in order
    published: dict[MessageId, bytes] = field(default_factory=dict)  # acknowledged by the node
    handed: dict[MessageId, bytes] = field(default_factory=dict)
    done: set[MessageId] = field(default_factory=set)  # acknowledged, and that is durable
    wrong: list[str] = field(default_factory=list)
    reads_together: bool = True  # over all lives: groups were read in one order
    began: int = 0  # publications
    waits: bool = False  # for a receipt, in this life

    def take(self, message: ReceivedMessage) -> None:
        """The application gets a message."""
        if message.id in self.done:
            self.wrong.append(f"{message!r} came again after its durable acknowledgement")
        if message.id not in self.handed:
            self.handed[message.id] = message.payload
            self.log.append(("deliver", message.group, message.payload))
        elif self.handed[message.id] != message.payload:
            self.wrong.append(f"{message!r} came with another body than before")


@dataclass(frozen=True)
class Habits:
    """What is the same for all applications of a world."""

    largest_body: int
    publications: int  # of each node, over all lives


class Application:
    """Publishes for a while, reads for ever; slow, forgetful or quick, as it is drawn."""

    def __init__(
        self, node: Node, ledger: Ledger, chance: random.Random, habits: Habits, until: float
    ) -> None:
        self._node = node
        self._ledger = ledger
        ledger.waits = False
        self._chance = chance
        self._habits = habits
        self._until = until  # when it ceases to publish
        self._is_slow = chance.random() < 0.3
        self._gives_back = chance.random() < 0.3
        self._gives_up = chance.random() < 0.2  # waits for no receipt for long
        self._falls_behind = chance.random() < 0.2
        self._reads_together = chance.random() < 0.7
        self._burst = chance.choice((1, 1, 5, 40, 200))
        # That it handled something, or could not; without a draw of its own, so seeds stay.
        self._says_twice = self._burst == 5
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Let it run in the loop, until the node stops."""
        node, loop = self._node, asyncio.get_running_loop()
        # Who joins late is to read what comes from its first moment on.
        names = node.config.blueprint.groups.names
        late = [names[group] for group in node.config.late_groups]
        groups = list(dict.fromkeys([*node.status()["groups"], *late]))
        work = []
        if self._reads_together and groups:
            node.on_message(self._handle, *groups)
        else:
            self._ledger.reads_together = False
            work += [self._read(node.group(name)) for name in groups]
        if self._chance.random() < 0.9:
            work.append(self._publish())
        self._tasks = [loop.create_task(one) for one in work]

    async def _publish(self) -> None:
        """One after the other: of two that are under way nobody knows which is the first."""
        loop = asyncio.get_running_loop()
        groups = [self._node.group(n) for n in self._node.config.blueprint.groups.names]
        with contextlib.suppress(CausalcastError):  # the node stops
            while loop.time() < self._until:
                await asyncio.sleep(self._chance.choice((0.001, 0.05, 0.3)))
                for _ in range(self._chance.randint(1, self._burst)):
                    if self._ledger.began >= self._habits.publications:
                        return
                    await self._publish_one(self._chance.choice(groups))

    async def _publish_one(self, group: Group) -> None:
        body = self._body()
        self._ledger.began += 1
        self._ledger.log.append(("publish", group.name, body))
        within = 0.02 if self._gives_up and self._chance.random() < 0.3 else None
        self._ledger.waits = True
        with contextlib.suppress(TimeoutError):  # then nobody knows whether it was published
            receipt = await asyncio.wait_for(group.publish(body), within)
            self._ledger.published[receipt.id] = body
        self._ledger.waits = False

    def _body(self) -> bytes:
        """Some are as large as they may be."""
        largest = self._habits.largest_body
        size = largest if self._chance.random() < 0.1 else self._chance.randint(8, max(8, largest))
        return self._chance.randbytes(8) + bytes(max(0, size - 8))

    async def _read(self, group: Group) -> None:
        with contextlib.suppress(CausalcastError):
            async for message in group:
                await self._handle(message)

    async def _handle(self, message: ReceivedMessage) -> None:
        if self._is_slow:
            await asyncio.sleep(0.005)
        if self._falls_behind and self._chance.random() < 0.02:
            await asyncio.sleep(3.0)
        if self._gives_back and self._chance.random() < 0.1:
            message.give_back()
            if self._says_twice:
                message.give_back()
            return
        self._ledger.take(message)
        is_durable = self._chance.random() < 0.3
        if self._says_twice:
            await message.ack()
        await message.ack(durable=is_durable)
        if is_durable:
            self._ledger.done.add(message.id)
