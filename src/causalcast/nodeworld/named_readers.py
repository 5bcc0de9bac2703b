"""Readers with names at the nodes of a world: each has a ledger of its own, over all lives.

Whoever else reads the group, such a reader is owed everything from its first moment on, in the
order in which the node delivered it, and nothing again that it has acknowledged durably.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final

from causalcast.any_node import Since
from causalcast.core.ids import MessageId
from causalcast.errors import CausalcastError
from causalcast.runtime.node import Node
from causalcast.runtime.reader import Reader
from causalcast.runtime.received_message import ReceivedMessage

NAMES: Final = ("search", "index", "archive")
MOST_TOLD: Final = 3
RESTS_FOR: Final = 5.0  # seconds, when it was ended because it was too far behind
TOO_MANY: Final = "may not have more"  # the same, where limits are drawn small
TOO_FAR_BEHIND: Final = "unacknowledged and was ended"  # what such a reader is told

Calls = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True)
class Said:
    """A publication that was answered."""

    group: str
    body: bytes
    began: float  # when it was asked for


@dataclass
class ReaderLedger:
    """What a reader was told since it began; whoever ends it and begins again has a new one."""

    began: float | None = None  # when it was durable
    handed: dict[MessageId, bytes] = field(default_factory=dict)  # in the order of the first time
    done: set[MessageId] = field(default_factory=set)  # acknowledged, and that is durable


class NamedReading:
    """A reader with a name, over all lives of its node."""

    def __init__(self, group: str, name: str, chance: random.Random) -> None:
        self.group = group
        self.name = name
        self.ledger = ReaderLedger()
        self.wrong: list[str] = []
        self.times_ended = 0
        self._chance = chance
        self._since: Since = chance.choice(("now", "kept"))
        self._is_slow = chance.random() < 0.3
        self._takes_many = chance.random() < 0.4
        self._gives_back = chance.random() < 0.3
        self._acks_late = chance.random() < 0.3
        self._begins_again = chance.random() < 0.3
        self._is_ending = False
        self._is_owed_the_kept = False  # what others had not acknowledged when it began
        self._acking: set[asyncio.Task[None]] = set()

    async def run(self, node: Node, calls: Calls) -> None:
        """Read until the node stops; late in some lives."""
        self._is_owed_the_kept = self._since == "kept" and node.host().journal is not None
        await asyncio.sleep(self._chance.choice((0.0, 0.0, 0.1, 2.0)))
        try:
            while True:
                if self._is_ending:  # nobody knows whether the last life ended it
                    self._is_ending, self.ledger = False, ReaderLedger()
                try:
                    with calls("subscribe"):
                        reader = await node.group(self.group).subscribe(self.name, self._since)
                    if self.ledger.began is None:
                        self.ledger.began = asyncio.get_running_loop().time()
                    await self._read(reader, calls)
                except CausalcastError as error:
                    node.host().running.check_alive()
                    if TOO_FAR_BEHIND not in str(error):
                        raise
                    await asyncio.sleep(RESTS_FOR)
                self._is_ending = True
                self.times_ended += 1
                with calls("unsubscribe"):
                    await node.group(self.group).unsubscribe(self.name)
        except CausalcastError as error:
            if not node.host().running.is_over and TOO_MANY not in str(error):
                self.wrong.append(f"it cannot read: {error}")

    async def _read(self, reader: Reader, calls: Calls) -> None:
        """Until it wants to begin again."""
        ends = self._chance.uniform(0.5, 4.0) if self._begins_again else None
        self._begins_again = False
        until = None if ends is None else asyncio.get_running_loop().time() + ends
        while True:
            left = None if until is None else until - asyncio.get_running_loop().time()
            if left is not None and left <= 0:
                return
            if self._takes_many:
                messages = await reader.receive_many(self._chance.choice((1, 7, 1000)), left)
            else:
                message = await reader.receive(left)
                messages = [] if message is None else [message]
            await self._handle(reader, messages, calls)

    async def _handle(
        self, reader: Reader, messages: Sequence[ReceivedMessage], calls: Calls
    ) -> None:
        if self._is_slow:
            await asyncio.sleep(0.005)
        if self._gives_back and self._chance.random() < 0.1:
            for message in reversed(messages):
                message.give_back()
            return
        for message in messages:
            self._take(message)
        is_durable = self._chance.random() < 0.3
        if self._acks_late and self._chance.random() < 0.3:
            acking = asyncio.get_running_loop().create_task(self._ack_later(reader, messages))
            self._acking.add(acking)
            acking.add_done_callback(self._acking.discard)
            return
        with calls("ack of a reader with a name"):
            await reader.ack_many(messages, durable=is_durable)
        if is_durable:
            self.ledger.done |= {message.id for message in messages}

    async def _ack_later(self, reader: Reader, messages: Sequence[ReceivedMessage]) -> None:
        await asyncio.sleep(self._chance.choice((0.001, 0.1, 0.5)))
        try:
            await reader.ack_many(messages)
        except CausalcastError:
            return  # the node stops, or the reader was ended

    def _take(self, message: ReceivedMessage) -> None:
        ledger = self.ledger
        if message.group != self.group:
            self.wrong.append(f"{message!r} is not of {self.group!r}")
        if message.id in ledger.done:
            self.wrong.append(f"{message!r} came again after its durable acknowledgement")
        if ledger.handed.setdefault(message.id, message.payload) != message.payload:
            self.wrong.append(f"{message!r} came with another body than before")

    # When all is over

    def verdict(
        self,
        said: Iterable[Said],
        plain: dict[MessageId, bytes],
        plain_at: dict[MessageId, float],
        gets_all: bool,
    ) -> list[str]:
        """What is wrong: beside all that anybody published, and what the reader without a name was
        handed of this group, in its order, and when. `gets_all`: its node was up at the end."""
        problems = self.wrong[:MOST_TOLD]
        ledger = self.ledger
        if ledger.began is None:
            return problems
        owed = {one.body for one in said if one.group == self.group and one.began > ledger.began}
        if self._is_owed_the_kept:
            owed |= {body for one, body in plain.items() if plain_at[one] > ledger.began}
        missing = owed - set(ledger.handed.values())
        if missing and gets_all:
            problems.append(f"it never got {len(missing)} that it is owed")
        mine = [message for message in ledger.handed if message in plain]
        if mine != [message for message in plain if message in ledger.handed]:
            problems.append("it got messages in another order than the reader without a name")
        return problems


def readings_of(groups: Sequence[str], label: str) -> list[NamedReading]:
    """Who reads by name at a node, as its label says: a few of its groups, one to three readers."""
    chance = random.Random(label)
    found = []
    for group in groups:
        if chance.random() < 0.7:
            for name in chance.sample(NAMES, chance.randint(1, len(NAMES))):
                found.append(NamedReading(group, name, random.Random(chance.random())))
    return found
