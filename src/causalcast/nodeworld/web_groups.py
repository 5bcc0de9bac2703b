"""Clients of a world that make groups at doors, read them wherever they are, and remove them.

Each client has a group of its own, which it alone makes, publishes to and removes, and reads that
of another one as well. What it read is kept with its position, so a ledger goes over all lives and
over all nodes.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from causalcast.clients.connect import RemoteNode
from causalcast.errors import CausalcastError, Gap, NodeError, Unanswered
from causalcast.nodeworld.made_groups import OF_CLIENTS

THERE: Final = "there"
GONE: Final = "gone"
UNSURE: Final = "unsure"  # it was asked for, and no answer came
MOST_CHANGES: Final = 8
MOST_PUBLICATIONS: Final = 20
LOOKS_EVERY: Final = 0.5  # seconds, for a group that may be made again
NOT_HERE: Final = ("there is no group", "not in", "removed", "does not serve", "is read already")


@dataclass
class WebSaid:
    """A publication to its own group that was answered."""

    body: bytes
    began: float
    epoch: int


@dataclass
class WebReading:
    """What a client read of one group since it was last taken in."""

    since: float | None = None  # None: it reads it no more, or not yet
    handled: dict[bytes, None] = field(default_factory=dict)  # ever, in order


@dataclass
class WebLedger:
    """Of one client, over all its lives."""

    stands: str = GONE  # its own group
    wanted: str = GONE  # what was asked for last
    epoch: int = 0  # how often it was made
    said: list[WebSaid] = field(default_factory=list)
    begun: list[bytes] = field(default_factory=list)  # all that it ever published, in order
    readings: dict[str, WebReading] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    changes: int = 0


class WebGroups:
    """One client's part in it, over all its lives."""

    def __init__(
        self,
        number: int,
        other: int,
        chance: random.Random,
        until: float,
        keep: Callable[[RemoteNode], None],
    ) -> None:
        """`keep`: the position is to be kept, now, with what was handled."""
        self.ledger = WebLedger()
        self.own = f"{OF_CLIENTS}{number}"
        self._names = list(dict.fromkeys([self.own, f"{OF_CLIENTS}{other}"]))
        self._chance = chance
        self._until = until
        self._keep = keep

    async def run(self, node: RemoteNode) -> None:
        """Of one life, until it is cancelled."""
        await asyncio.gather(self._use_own(node), *(self._read(node, n) for n in self._names))

    async def _use_own(self, node: RemoteNode) -> None:
        loop, chance, ledger = asyncio.get_running_loop(), self._chance, self.ledger
        while True:
            await asyncio.sleep(chance.choice((0.05, 0.3, 1.0)))
            try:
                if ledger.stands == UNSURE:
                    await self._change(node, ledger.wanted)
                elif loop.time() >= self._until:
                    return
                elif ledger.changes < MOST_CHANGES and (
                    ledger.stands == GONE or chance.random() < 0.2
                ):
                    ledger.changes += 1
                    await self._change(node, GONE if ledger.stands == THERE else THERE)
                elif ledger.stands == THERE and len(ledger.begun) < MOST_PUBLICATIONS:
                    await self._publish(node)
            except NodeError as error:
                if "stop" not in str(error) and "closed" not in str(error):
                    ledger.wrong.append(f"its own group could not be used: {error}")
                    return

    async def _change(self, node: RemoteNode, wanted: str) -> None:
        ledger = self.ledger
        ledger.wanted, ledger.stands = wanted, UNSURE
        if wanted == THERE:
            await node.create_group(self.own)
            ledger.epoch += 1
        else:
            await node.remove_group(self.own)
        ledger.stands = wanted
        self._keep(node)

    async def _publish(self, node: RemoteNode) -> None:
        loop, ledger = asyncio.get_running_loop(), self.ledger
        body, began = self._chance.randbytes(8), loop.time()
        ledger.begun.append(body)
        try:
            await node.group(self.own).publish(body)
        except Unanswered:
            return
        ledger.said.append(WebSaid(body, began, ledger.epoch))
        self._keep(node)

    async def _read(self, node: RemoteNode, name: str) -> None:
        """A group that there may be or not; it is asked for again and again."""
        reading = self.ledger.readings.setdefault(name, WebReading())
        while True:
            try:
                async with node.group(name) as group:
                    if reading.since is None:
                        reading.since = asyncio.get_running_loop().time()
                    self._keep(node)
                    async for message in group:
                        body = message.payload
                        if body in reading.handled:
                            self.ledger.wrong.append(f"{message!r} came again after it was handled")
                        reading.handled[body] = None
                        await message.ack()
                        self._keep(node)
            except Gap:
                reading.since = None
            except CausalcastError as error:
                if any(words in str(error) for words in NOT_HERE):
                    reading.since = None
                elif "closed" not in str(error) and "stop" not in str(error):
                    self.ledger.wrong.append(f"{name} cannot be read: {error}")
                    return
            await asyncio.sleep(LOOKS_EVERY)


def lacking(ledgers: Mapping[int, WebLedger]) -> dict[int, int]:
    """How much each client lacks of groups that there are, and that it reads."""
    found = dict.fromkeys(ledgers, 0)
    for number, ledger in ledgers.items():
        name = f"{OF_CLIENTS}{number}"
        if ledger.stands == UNSURE:
            found[number] += 1  # it does not know yet whether there is its group
        for reader, other in ledgers.items():
            reading = other.readings.get(name)
            if ledger.stands != THERE or reading is None:
                continue
            if reading.since is None:
                found[reader] += 1  # it has not been taken in yet
                continue
            found[reader] += sum(
                one.epoch == ledger.epoch
                and one.began > reading.since
                and one.body not in reading.handled
                for one in ledger.said
            )
    return found


def wrong_of(ledgers: Mapping[int, WebLedger], nodes: Mapping[int, set[str]]) -> list[str]:
    """What is wrong at the end; `nodes`: the groups that each of them knows."""
    problems: list[str] = []
    for number, ledger in ledgers.items():
        name = f"{OF_CLIENTS}{number}"
        problems += [f"client {number}: {text}" for text in ledger.wrong[:3]]
        for node, groups in nodes.items():
            if ledger.stands != UNSURE and (ledger.stands == THERE) != (name in groups):
                problems.append(f"{name!r} is {ledger.stands} for its client, not at node {node}")
        place = {one.body: at for at, one in enumerate(ledger.said)}  # others have no order
        for reader, other in ledgers.items():
            got = other.readings.get(name, WebReading()).handled
            if not got.keys() <= set(ledger.begun):
                problems.append(f"client {reader} got what nobody published to {name!r}")
            order = [place[body] for body in got if body in place]
            if order != sorted(order):
                problems.append(f"client {reader} got {name!r} in another order")
    return problems


def as_data(ledgers: Mapping[int, WebLedger]) -> list[Any]:
    """For a digest."""
    return [
        (n, one.stands, one.epoch, one.begun, {k: list(r.handled) for k, r in one.readings.items()})
        for n, one in ledgers.items()
    ]
