"""A client of the doors of a world: it publishes, reads, is killed, frozen and cut off, and moves.

It is the client of `causalcast.connect` as shipped. Its position is kept with what it handled, as a
program would do, and outlives it; whatever else it knew is gone when it is killed.
"""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from causalcast.clients.connect import RemoteNode, connect
from causalcast.clients.remote_group import RemoteGroups
from causalcast.errors import CausalcastError, Gap, NodeError, Unanswered
from causalcast.nodeworld.lives import Life
from causalcast.nodeworld.network import Network
from causalcast.nodeworld.sockets import MACHINE
from causalcast.nodeworld.web_groups import WebGroups

LEAVES_WITHIN: Final = 10.0  # seconds
GROUPS: Final = ("acl", "posts")  # that doors serve; applications of nodes leave them alone


@dataclass
class ClientLedger:
    """Of one client, over all its lives. Bodies are all different, and name publications."""

    log: list[tuple[str, str, bytes]] = field(default_factory=list)  # kind, group, body; in order
    sure: dict[bytes, None] = field(default_factory=dict)  # published, and it was told so
    unsure: dict[bytes, None] = field(default_factory=dict)  # nobody can tell it
    handled: dict[bytes, None] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    has_gap: bool = False  # it was told that something is not kept for it any more


@dataclass(frozen=True)
class ClientHabits:
    """What is the same for all clients of a world."""

    publications: int
    largest_body: int
    until: float  # when they cease to publish


class SimClient:
    """A client, over all its lives."""

    def __init__(
        self,
        machine: int,
        doors: Sequence[int],
        network: Network,
        chance: random.Random,
        habits: ClientHabits,
        all_are_in: Callable[[], bool],
        web: tuple[int, int, random.Random] | None = None,
    ) -> None:
        """`all_are_in`: nobody publishes before all clients read, so that all are owed all. `web`:
        it makes groups; its number, that of another whose group it reads, and its chance."""
        self.machine = machine
        self.ledger = ClientLedger()
        self.seen: Counter[str] = Counter()
        self.has_been_in = False
        self._urls = [f"ws://127.0.0.1:{port}" for port in doors]
        self._network = network
        self._chance = chance
        self._habits = habits
        self._all_are_in = all_are_in
        self._is_slow = chance.random() < 0.3
        self._gives_back = chance.random() < 0.3
        self._falls_behind = chance.random() < 0.3
        self.web = None if web is None else WebGroups(*web, habits.until, self._keep)
        self._begun = 0
        self._position: dict[str, Any] | None = None  # kept with what it handled
        self._life: Life | None = None
        self._leave = asyncio.Event()
        self._ended = asyncio.Event()
        self._is_in = False  # in this life
        self._dead: list[Life] = []  # held, or the garbage collector would end them

    @property
    def is_up(self) -> bool:
        """Whether the program runs."""
        return self._life is not None

    def start(self) -> None:
        """Begin another life, where the last one was."""
        if self._life is not None or self.ledger.has_gap:
            return
        self._life = life = Life()
        context = life.context()
        context.run(MACHINE.set, self.machine)
        self._leave, self._ended = asyncio.Event(), asyncio.Event()
        self._is_in = False
        self._network.loop.create_task(self._live(life), context=context)

    def crash(self) -> bool:
        """End it between two callbacks."""
        life = self._life
        if life is None:
            return False
        life.end()
        self._network.process_ended(life, is_silent=False)
        self._dead.append(life)
        self._life_ended()
        return True

    def _life_ended(self) -> None:
        self._life = None
        published = {body for kind, _, body in self.ledger.log if kind == "publish"}
        self.ledger.unsure |= dict.fromkeys(sorted(published - self.ledger.sure.keys()))

    def freeze(self) -> bool:
        """Let it stand still, as with SIGSTOP."""
        if self._life is not None:
            self._life.freeze()
        return self._life is not None

    def go_on(self) -> bool:
        """It runs again."""
        if self._life is not None:
            self._life.go_on(self._network.loop)
        return self._life is not None

    async def stop(self) -> bool:
        """Let it hang up in good order."""
        if self._life is None or self._life.stands_still:
            return False
        if not self._is_in:
            return self.crash()  # its program would cancel what it waits for
        self._leave.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVES_WITHIN):
                await self._ended.wait()
        if not self._ended.is_set():
            self.ledger.wrong.append(f"it did not hang up within {LEAVES_WITHIN:g} seconds")
            self.crash()
        return True

    async def _live(self, life: Life) -> None:
        chance = self._chance
        first = chance.randrange(len(self._urls))
        urls = self._urls[first:] + self._urls[:first]
        node = connect(urls, name=f"client-{self.machine}", position=self._position)
        try:
            async with node, node.together(*GROUPS) as both:
                self._note_where(node)
                await self._work(node, both)
        except Gap:
            self.ledger.has_gap = True
            self.seen["client_gap"] += 1
        except CausalcastError as error:
            self.ledger.wrong.append(f"its life ended: {error!r}")
        self.seen["client_moved"] += max(0, node.reconnections)
        if self._life is life:
            self._life_ended()
        self._ended.set()

    def _note_where(self, node: RemoteNode) -> None:
        """From here on it is owed what comes, in every further life."""
        self.has_been_in = self._is_in = True
        self._position = node.position()

    def _keep(self, node: RemoteNode) -> None:
        self._position = node.position()

    async def _work(self, node: RemoteNode, both: RemoteGroups) -> None:
        loop = asyncio.get_running_loop()
        tasks = [
            loop.create_task(self._read(node, both)),
            loop.create_task(self._publish(node)),
            loop.create_task(self._until_it_leaves()),
        ]
        reading, _, leaving = tasks
        if self.web is not None:
            tasks.append(loop.create_task(self.web.run(node)))
        try:
            await asyncio.wait([reading, leaving], return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _until_it_leaves(self) -> None:
        await self._leave.wait()

    async def _read(self, node: RemoteNode, both: RemoteGroups) -> None:
        async for message in both:
            if self._is_slow:
                await asyncio.sleep(self._chance.choice((0.001, 0.02)))
            if self._falls_behind and self._chance.random() < 0.1:
                await asyncio.sleep(1.0)
            if self._gives_back and self._chance.random() < 0.1:
                message.give_back()
                continue
            body = message.payload
            if body in self.ledger.handled:
                self.ledger.wrong.append(f"{message!r} came again after it was handled")
            self.ledger.handled[body] = None
            self.ledger.log.append(("deliver", message.group, body))
            await message.ack()  # goes nowhere by itself: no other callback runs meanwhile
            self._position = node.position()

    async def _publish(self, node: RemoteNode) -> None:
        """One after the other, each when the one before has its answer."""
        loop, chance = asyncio.get_running_loop(), self._chance
        while loop.time() < self._habits.until and self._begun < self._habits.publications:
            await asyncio.sleep(chance.choice((0.001, 0.05, 0.3)))
            if not self._all_are_in():
                continue
            self._begun += 1
            group = chance.choice(GROUPS)
            body = chance.randbytes(8) + bytes(chance.randint(0, self._habits.largest_body))
            self.ledger.log.append(("publish", group, body))
            try:
                await node.group(group).publish(body)
            except Unanswered:
                self.seen["client_unanswered"] += 1
                self.ledger.unsure[body] = None
            except NodeError as error:
                self.ledger.unsure[body] = None
                if "stop" not in str(error):
                    self.ledger.wrong.append(f"a publication was refused: {error}")
            else:
                self.ledger.sure[body] = None
            with contextlib.suppress(NodeError):
                self._note_past(node)

    def _note_past(self, node: RemoteNode) -> None:
        """What it published is part of its past in the next life, too."""
        assert self._position is not None
        self._position = {**self._position, "past": node.position()["past"]}
