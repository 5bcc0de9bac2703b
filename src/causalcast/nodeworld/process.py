"""One machine's process: it starts, is killed or frozen, and starts again from its disk."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from causalcast.errors import CausalcastError
from causalcast.nodeworld.application import Application, Habits, Ledger
from causalcast.nodeworld.disk import SimDisk
from causalcast.nodeworld.lives import Life
from causalcast.nodeworld.machine import SimMachine
from causalcast.nodeworld.network import Network
from causalcast.runtime.node import Node
from causalcast.runtime.node_config import NodeConfig


class SimProcess:
    """A node and its application, over all their lives."""

    def __init__(
        self,
        config_of_life: Callable[[int], NodeConfig],
        network: Network,
        disk: SimDisk,
        chance: random.Random,
        habits: Habits,
    ) -> None:
        self.config = config_of_life(1)  # of this life or the last one
        self.disk = disk
        self.ledgers: dict[int, Ledger] = {}  # by node: whoever is new in every life has several
        self.machine = SimMachine(network, disk, chance)
        self.node: Node | None = None  # while it is up
        self.seen: Counter[str] = Counter()  # rare things that happened inside
        self.failures: list[str] = []  # starts that were refused, nodes that stopped by themselves
        self.has_old_disk = False
        self._config_of_life = config_of_life
        self._lives = 0
        self._network = network
        self._chance = chance
        self._habits = habits
        self._life: Life | None = None
        self._dead: list[tuple[Life, Node]] = []  # held, or the garbage collector would end them
        self._copy: Mapping[Path, bytes] | None = None
        disk.on_death = self._die_writing

    @property
    def is_up(self) -> bool:
        """Whether the process runs, be it that its node is still starting."""
        return self._life is not None

    @property
    def is_linked(self) -> bool:
        """Whether its node runs and has links."""
        return self.node is not None and bool(self.node.host().links.current_peers())

    def start(self, publishes_until: float) -> None:
        """Begin another life."""
        self._lives += 1
        self.config = self._config_of_life(self._lives)
        self._life = life = Life()
        work = self._live(publishes_until)
        self._network.loop.create_task(work, context=life.context())

    async def _live(self, publishes_until: float) -> None:
        node = Node(self.config, self.machine)
        try:
            await node.start()
        except CausalcastError as error:
            self.failures.append(f"node {self.config.node} did not start: {error}")
            self._forget()
            return
        self.node = node
        ledger = self.ledgers.setdefault(self.config.node, Ledger())
        Application(node, ledger, self._chance, self._habits, publishes_until).start()
        try:
            await node.wait_stopped()
        except CausalcastError as error:
            self.failures.append(f"node {self.config.node} stopped: {error}")
            self._forget()

    def _forget(self) -> None:
        """The process is gone, and its application with it."""
        if self._life is not None:
            self._life.end()
            self._network.process_ended(self.config.listen.port, self._life, is_silent=False)
        if self._life is not None and self.node is not None:
            self._dead.append((self._life, self.node))
            parts = self.node.host().parts
            self.seen["run"] += parts.arrivals.runs
            self.seen["compaction"] += 0 if parts.keeper is None else parts.keeper.compactions
        self.disk.process_ended()
        self._life = self.node = None

    def crash(self, power: bool) -> bool:
        """End it between two callbacks, with or without the power of its machine."""
        if self._life is None:
            return False
        life = self._life
        life.end()
        self._network.process_ended(self.config.listen.port, life, is_silent=power)
        self._forget()
        if power:
            self.disk.cut_power()
        return True

    def _die_writing(self) -> None:
        self.seen["died_writing"] += 1
        self.crash(power=self._chance.random() < 0.5)

    def freeze(self) -> bool:
        """Let it stand still, as with SIGSTOP."""
        if self._life is not None:
            self._life.freeze()
        return self._life is not None

    def go_on(self) -> None:
        """It runs again."""
        if self._life is not None:
            self._life.go_on(self._network.loop)

    def copy_disk(self) -> None:
        """Keep what is on its disk now."""
        self._copy = self.disk.copy()

    def put_back_disk(self) -> bool:
        """While it is down its disk becomes what it was when it was copied."""
        if self.is_up or self._copy is None:
            return False
        self.disk.put_back(self._copy)
        self.has_old_disk = True
        return True

    async def stop(self) -> bool:
        """Let it leave in good order."""
        life, node = self._life, self.node
        if life is None or node is None or life.stands_still:
            return False
        stopping = self._network.loop.create_task(node.stop(), context=life.context())
        await asyncio.wait([stopping], timeout=60)
        if life.is_over:
            return False  # something ended it meanwhile
        if not stopping.done():
            self.failures.append(f"node {self.config.node} did not stop within a minute")
            return False
        if self._life is life:
            self._forget()
        return True
