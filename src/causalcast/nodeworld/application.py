"""What applications do with their nodes, and the ledger of what they were told.

Traces say what a node did; ledgers say what its application saw. Runs of publications leave no rows
where a node keeps no trace, and an application can be cheated in ways that no trace shows.
"""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from causalcast.core.ids import MessageId
from causalcast.errors import CausalcastError
from causalcast.nodeworld.made_groups import MadeLedger, Maker, is_made
from causalcast.nodeworld.named_readers import NamedReading, Said, readings_of
from causalcast.runtime.node import Group, Node
from causalcast.runtime.received_message import ReceivedMessage

MOST_UNDER_WAY: Final = 50  # publications of one application that pours them out


@dataclass
class Ledger:
    """Of one node, over all its lives. Bodies are all different, and name publications."""

    log: list[tuple[str, str, bytes]] = field(default_factory=list)  # kind, group, body; in order
    published: dict[MessageId, bytes] = field(default_factory=dict)  # acknowledged by the node
    handed: dict[MessageId, bytes] = field(default_factory=dict)
    done: set[MessageId] = field(default_factory=set)  # acknowledged, and that is durable
    wrong: list[str] = field(default_factory=list)
    has_one_order: bool = True  # over all lives: what it read and said came one after the other
    began: int = 0  # publications
    waits: int = 0  # for so many receipts, in this life
    longest_wait: float = 0.0  # seconds, for a receipt that came
    most_kept: int = 0  # bytes that its node kept for others
    said: list[Said] = field(default_factory=list)  # all that was acknowledged by the node
    handed_at: dict[MessageId, float] = field(default_factory=dict)
    group_of: dict[MessageId, str] = field(default_factory=dict)  # of what it was handed
    readings: list[NamedReading] | None = None  # who reads by name beside it
    made: MadeLedger = field(default_factory=MadeLedger)

    def take(self, message: ReceivedMessage) -> None:
        """The application gets a message."""
        if message.id in self.done:
            self.wrong.append(f"{message!r} came again after its durable acknowledgement")
        if message.id not in self.handed:
            self.handed[message.id] = message.payload
            self.handed_at[message.id] = asyncio.get_running_loop().time()
            self.group_of[message.id] = message.group
            self.log.append(("deliver", message.group, message.payload))
        elif self.handed[message.id] != message.payload:
            self.wrong.append(f"{message!r} came with another body than before")


@dataclass(frozen=True)
class Habits:
    """What is the same for all applications of a world."""

    largest_body: int
    publications: int  # of each node, over all lives
    pours: bool = False  # publishes without waiting for receipts
    apart: tuple[str, ...] = ()  # groups that another application has
    readers: str = ""  # a label from which those with names are drawn; empty: there are none
    makes: str = ""  # the same for groups that are made


class Application:
    """Publishes for a while, reads for ever; slow, forgetful or quick, as it is drawn."""

    def __init__(
        self,
        node: Node,
        ledger: Ledger,
        chance: random.Random,
        more: random.Random,
        habits: Habits,
        until: float,
    ) -> None:
        """`more` has what was not drawn from the beginning: what `chance` gives stays the same."""
        self._node = node
        self._ledger = ledger
        ledger.waits = 0
        self._chance = chance
        self._habits = habits
        self._until = until  # when it ceases to publish
        door = node.config.clients
        # The door reads them, or another application does.
        self._of_others = [*habits.apart, *([] if door is None else door.groups)]
        self._is_slow = chance.random() < 0.3
        self._gives_back = chance.random() < 0.3
        self._gives_up = chance.random() < 0.2  # waits for no receipt for long
        self._falls_behind = chance.random() < 0.2
        self._reads_together = chance.random() < 0.7
        self._burst = chance.choice((1, 1, 5, 40, 200))
        # That it handled something, or could not; without a draw of its own, so seeds stay.
        self._says_twice = self._burst == 5
        self._more = more
        self._gives_back_late = more.random() < 0.3
        self._acks_late = more.random() < 0.3
        self._takes_long = 0.03 if habits.pours and more.random() < 0.5 else 0.0
        self._calls: Counter[str] = Counter()  # of its node, that have not returned
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Let it run in the loop, until the node stops."""
        node, loop = self._node, asyncio.get_running_loop()
        # Who joins late is to read what comes from its first moment on.
        names = node.config.blueprint.groups.names
        late = [names[group] for group in node.config.late_groups]
        groups = list(dict.fromkeys([*node.status()["groups"], *late]))
        groups = [name for name in groups if name not in self._of_others and not is_made(name)]
        work = []
        if self._reads_together and groups:
            node.on_message(self._handle, *groups)
        else:
            self._ledger.has_one_order = False
            work += [self._read(node.group(name)) for name in groups]
        if self._chance.random() < 0.9:
            work.append(self._pour() if self._habits.pours else self._publish())
        work += [one.run(node, self._calls_its_node) for one in self._named_readings()]
        if self._habits.makes:
            made, makes = self._ledger.made, f"{self._habits.makes}/{node.id}/{loop.time()}"
            chance = random.Random(makes)
            work.append(Maker(node, made, chance, self._until, self._calls_its_node).run())
        self._tasks = [loop.create_task(one) for one in work]

    def _named_readings(self) -> list[NamedReading]:
        """The same over all lives."""
        if self._ledger.readings is None:
            label = self._habits.readers and f"{self._habits.readers}/{self._node.id}"
            groups = [name for name in self._node.status()["groups"] if not is_made(name)]
            self._ledger.readings = readings_of(groups, label) if label else []
        return self._ledger.readings

    def still_waits_for(self) -> list[str]:
        """Which calls of its node have not returned, in words."""
        return [f"{count} times {call}" for call, count in self._calls.items() if count]

    @contextlib.contextmanager
    def _calls_its_node(self, call: str) -> Iterator[None]:
        self._calls[call] += 1
        try:
            yield
        finally:
            self._calls[call] -= 1

    def _groups_to_publish_to(self) -> list[Group]:
        names = self._node.config.blueprint.groups.names
        return [self._node.group(name) for name in names if name not in self._of_others]

    async def _pour(self) -> None:
        """Without waiting for receipts: nobody knows in which order those take effect."""
        loop = asyncio.get_running_loop()
        groups = self._groups_to_publish_to()
        with contextlib.suppress(CausalcastError):  # the node stops
            await self._be_let_in()
        self._ledger.has_one_order = False
        under_way: set[asyncio.Task[None]] = set()
        while loop.time() < self._until and self._ledger.began < self._habits.publications:
            await asyncio.sleep(self._more.choice((0.001, 0.005, 0.02)))
            if len(under_way) < MOST_UNDER_WAY:
                one = loop.create_task(self._publish_while_it_lives(self._chance.choice(groups)))
                under_way.add(one)
                one.add_done_callback(under_way.discard)

    async def _publish_while_it_lives(self, group: Group) -> None:
        with contextlib.suppress(CausalcastError):
            await self._publish_one(group)

    async def _publish(self) -> None:
        """One after the other: of two that are under way nobody knows which is the first."""
        loop = asyncio.get_running_loop()
        groups = self._groups_to_publish_to()
        with contextlib.suppress(CausalcastError):  # the node stops
            await self._be_let_in()
            while loop.time() < self._until:
                await asyncio.sleep(self._chance.choice((0.001, 0.05, 0.3)))
                for _ in range(self._chance.randint(1, self._burst)):
                    if self._ledger.began >= self._habits.publications:
                        return
                    await self._publish_one(self._chance.choice(groups))

    async def _be_let_in(self) -> None:
        """Whoever asks members to be let in cannot publish before."""
        config = self._node.config
        if config.is_changing() and config.restart() == "resume":
            while not self._node.status()["takes_part"]:
                await asyncio.sleep(0.02)

    async def _publish_one(self, group: Group) -> None:
        body = self._body()
        self._ledger.began += 1
        self._ledger.log.append(("publish", group.name, body))
        within = 0.02 if self._gives_up and self._chance.random() < 0.3 else None
        loop, ledger = asyncio.get_running_loop(), self._ledger
        began = loop.time()
        ledger.waits += 1
        try:
            with self._calls_its_node("publish"):
                receipt = await asyncio.wait_for(group.publish(body), within)
            ledger.published[receipt.id] = body
            ledger.said.append(Said(group.name, body, began))
            ledger.longest_wait = max(ledger.longest_wait, loop.time() - began)
        except TimeoutError:
            pass  # nobody knows whether it was published
        finally:
            ledger.waits -= 1  # also if it was refused: whoever was removed publishes no more
        kept = self._node.host().parts.stack.multicast.kept_bytes()
        ledger.most_kept = max(ledger.most_kept, kept)

    def _body(self) -> bytes:
        """Some are as large as they may be."""
        largest = self._habits.largest_body
        size = largest if self._chance.random() < 0.1 else self._chance.randint(8, max(8, largest))
        return self._chance.randbytes(8) + bytes(max(0, size - 8))

    async def _read(self, group: Group) -> None:
        with contextlib.suppress(CausalcastError):
            async for message in group:
                if self._acks_late and self._more.random() < 0.3:
                    self._ledger.take(message)
                    self._tasks.append(asyncio.get_running_loop().create_task(self._ack(message)))
                elif self._gives_back_late and self._more.random() < 0.1:
                    self._ledger.take(message)
                    later = self._more.choice((0.001, 0.1, 1.0))
                    asyncio.get_running_loop().call_later(later, message.give_back)
                else:
                    await self._handle(message)

    async def _ack(self, message: ReceivedMessage) -> None:
        """Later, when others have come or the node has stopped."""
        await asyncio.sleep(self._more.choice((0.001, 0.1, 0.5)))
        with contextlib.suppress(CausalcastError):  # the node has stopped
            with self._calls_its_node("ack"):
                await message.ack(durable=True)
            self._ledger.done.add(message.id)

    async def _handle(self, message: ReceivedMessage) -> None:
        if self._is_slow or self._takes_long:
            await asyncio.sleep(self._takes_long or 0.005)
        if self._falls_behind and self._chance.random() < 0.02:
            # Where much is poured out, three seconds each would be longer than anybody waits.
            await asyncio.sleep(0.5 if self._habits.pours else 3.0)
        if self._gives_back and self._chance.random() < 0.1:
            message.give_back()
            if self._says_twice:
                message.give_back()
            return
        self._ledger.take(message)
        is_durable = self._chance.random() < 0.3
        if self._says_twice:
            await message.ack()
        with self._calls_its_node("ack"):
            await message.ack(durable=is_durable)
        if is_durable:
            self._ledger.done.add(message.id)
