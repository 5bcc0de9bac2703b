"""Applications of a world that make groups while it runs, publish there, read them, remove them.

Each node has names of its own, which nobody else makes or removes: so it is known at the end which
groups there have to be. One name is everybody's, and there nodes only have to agree.
"""

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final

from causalcast.core.ids import MessageId
from causalcast.errors import CausalcastError
from causalcast.judge.judge import judge
from causalcast.runtime.node import Node
from causalcast.runtime.received_message import ReceivedMessage
from causalcast.trace.foreign_line import Record
from causalcast.trace.foreign_log import import_records

PREFIX: Final = "doc/"
OF_CLIENTS: Final = "web/"
PREFIXES: Final = (PREFIX, OF_CLIENTS)
EVERYBODYS: Final = "doc/all"
PROMISED: Final = ("no_creation", "no_duplication", "fifo_order", "causal_order")
MOST_TOLD: Final = 3
MOST_CHANGES: Final = 12  # of one application, and publications to groups that are made
MOST_PUBLICATIONS: Final = 40

Calls = Callable[[str], AbstractContextManager[None]]
GroupNumber = int


@dataclass
class MadeLedger:
    """What one application did with groups that are made, and was told, over all its lives."""

    stands: dict[str, str] = field(default_factory=dict)  # of own names: "there", "gone", "unsure"
    log: dict[GroupNumber, list[tuple[str, bytes]]] = field(default_factory=dict)
    sure: dict[GroupNumber, set[bytes]] = field(default_factory=dict)
    handed: dict[GroupNumber, set[bytes]] = field(default_factory=dict)
    done: set[MessageId] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    changes: int = 0
    publications: int = 0


def is_made(name: str) -> bool:
    """Whether a group of this name is one that somebody makes."""
    return name.startswith(PREFIXES)


class Maker:
    """One life of such an application."""

    def __init__(
        self, node: Node, ledger: MadeLedger, chance: random.Random, until: float, calls: Calls
    ) -> None:
        self._node = node
        self._ledger = ledger
        self._chance = chance
        self._until = until
        self._calls = calls
        self._own = [f"{PREFIX}{node.id}", f"{PREFIX}{node.id}/b"]
        self._reading: set[asyncio.Task[None]] = set()
        self._read: dict[GroupNumber, str] = {}  # in this life, and their names
        self._removed: set[GroupNumber] = set()  # as this life was told

    async def run(self) -> None:
        """Read what there is and what comes; make, remove and publish for a while."""
        node = self._node
        node.on_groups(self._hear)
        for name in node.groups():
            self._hear(name, True)
        try:
            await self._settle()
            while asyncio.get_running_loop().time() < self._until:
                await asyncio.sleep(self._chance.choice((0.001, 0.05, 0.3)))
                await self._do_something()
        except CausalcastError as error:
            if not node.host().running.is_over and "about to stop" not in str(error):
                self._ledger.wrong.append(f"a group could not be used: {error}")

    async def _settle(self) -> None:
        """What the last life had begun is brought to an end: both may be asked for again."""
        for name, stands in list(self._ledger.stands.items()):
            if stands == "unsure":
                await self._make(name)

    async def _do_something(self) -> None:
        node, chance, ledger = self._node, self._chance, self._ledger
        if chance.random() < 0.3 and ledger.changes < MOST_CHANGES:
            ledger.changes += 1
            name = chance.choice([*self._own, EVERYBODYS])
            if name in node.groups() and chance.random() < 0.5:
                await self._remove(name)
            else:
                await self._make(name)
        names = [name for name in node.groups() if name.startswith(PREFIX)]
        if names and ledger.publications < MOST_PUBLICATIONS:
            for _ in range(chance.choice((1, 1, 5))):
                await self._publish(chance.choice(names))

    async def _make(self, name: str) -> None:
        if name != EVERYBODYS:
            self._ledger.stands[name] = "unsure"
        with self._calls("create_group"):
            await self._node.create_group(name)
        if name != EVERYBODYS:
            self._ledger.stands[name] = "there"

    async def _remove(self, name: str) -> None:
        if name != EVERYBODYS:
            self._ledger.stands[name] = "unsure"
        try:
            with self._calls("remove_group"):
                await self._node.remove_group(name)
        except CausalcastError:
            if name != EVERYBODYS or self._node.host().running.is_over:
                raise  # else another has removed it meanwhile
        if name != EVERYBODYS:
            self._ledger.stands[name] = "gone"

    async def _publish(self, name: str) -> None:
        directory = self._node.host().parts.directory
        if name not in self._node.groups():
            return
        group, ledger = int(directory.id_of(name)), self._ledger
        body = self._chance.randbytes(8) + bytes(self._chance.randint(0, 100))
        ledger.publications += 1
        ledger.log.setdefault(group, []).append(("publish", body))
        try:
            with self._calls("publish to a group that was made"):
                await self._node.group(name).publish(body)
        except CausalcastError as error:
            if self._node.host().running.is_over or "removed" not in str(error):
                raise
            return  # it was, meanwhile
        ledger.sure.setdefault(group, set()).add(body)

    # What it is told

    def _hear(self, name: str, _: bool) -> None:
        """It was made or removed; by now there may be another one of that name, or none."""
        if not name.startswith(PREFIX) or self._node.host().running.is_over:
            return
        directory = self._node.host().parts.directory
        now = int(directory.id_of(name)) if name in self._node.groups() else 0
        self._removed |= {number for number, of in self._read.items() if of == name} - {now}
        if now and now not in self._read:
            self._read[now] = name
            reading = asyncio.get_running_loop().create_task(self._read_group(name))
            self._reading.add(reading)
            reading.add_done_callback(self._reading.discard)

    async def _read_group(self, name: str) -> None:
        node = self._node
        try:
            group = node.group(name)
            number = int(node.host().parts.directory.id_of(name))
            async for message in group:
                await self._take(number, message)
        except CausalcastError as error:
            is_there = name in node.groups()
            if not node.host().running.is_over and is_there and "removed" not in str(error):
                self._ledger.wrong.append(f"{name} cannot be read: {error}")

    async def _take(self, group: GroupNumber, message: ReceivedMessage) -> None:
        ledger = self._ledger
        if group in self._removed:
            ledger.wrong.append(f"{message!r} came, and its group was removed")
        if message.id in ledger.done:
            ledger.wrong.append(f"{message!r} came again after its durable acknowledgement")
        if message.payload not in ledger.handed.setdefault(group, set()):
            ledger.handed[group].add(message.payload)
            ledger.log.setdefault(group, []).append(("deliver", message.payload))
        is_durable = self._chance.random() < 0.3
        try:
            with self._calls("ack in a group that was made"):
                await message.ack(durable=is_durable)
        except CausalcastError:
            if self._node.host().running.is_over:
                raise
        if is_durable:
            ledger.done.add(message.id)


def judge_made(nodes: Mapping[int, Node | None], ledgers: Mapping[int, MadeLedger]) -> list[str]:
    """What is wrong when all is at rest and every node is up."""
    problems: list[str] = []
    there: dict[int, dict[str, int]] = {}
    for number, node in nodes.items():
        if node is not None:
            made = node.host().parts.directory.made
            names = [name for name in made.names() if name.startswith(PREFIX)]
            there[number] = {name: int(made.id_of(name) or 0) for name in names}
    if not there:
        return problems
    first, groups = next(iter(there.items()))
    problems += [
        f"nodes {first} and {number} know other groups: {groups} and {others}"
        for number, others in there.items()
        if others != groups
    ]
    for number, ledger in ledgers.items():
        problems += [f"node {number}: {text}" for text in ledger.wrong[:MOST_TOLD]]
        for name, stands in ledger.stands.items():
            if stands != "unsure" and (stands == "there") != (name in groups):
                problems.append(
                    f"{name!r} is {stands} for who made it, and node {first} has it not so"
                )
        for group in groups.values():
            problems += _missing(number, group, ledger, ledgers)
    for group in {group for ledger in ledgers.values() for group in ledger.log}:
        problems += _out_of_order(group, ledgers)
    return problems


def _missing(
    number: int, group: int, ledger: MadeLedger, ledgers: Mapping[int, MadeLedger]
) -> Iterator[str]:
    owed = {body for other in ledgers.values() for body in other.sure.get(group, ())}
    missing = owed - ledger.handed.get(group, set())
    if missing:
        yield f"node {number} never got {len(missing)} of a group that was made"


def _out_of_order(group: int, ledgers: Mapping[int, MadeLedger]) -> Iterator[str]:
    """Each application is a process of this one group."""
    known = {body for ledger in ledgers.values() for body in ledger.handed.get(group, ())}
    lines: list[Record] = []
    for number, ledger in ledgers.items():
        rows: list[dict[str, Any]] = [{"kind": "join", "group": "made"}]
        rows += [
            {"kind": kind, "group": "made", "message": body[:8].hex()}
            for kind, body in ledger.log.get(group, [])
            if body in known
        ]
        for pos, row in enumerate(rows):
            lines.append(Record(f"{number}:{pos}", {"node": number, "pos": pos, **row}))
    found = judge(import_records(iter(lines), "made", whole=True))
    for guarantee in PROMISED:
        for one in found.violations.get(guarantee, [])[:MOST_TOLD]:
            yield f"told in a group that was made: {guarantee}: {one.kind} at {one.node}"
