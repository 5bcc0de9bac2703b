"""One node as a process of the world: it starts, is killed, and starts again from its disk."""

import asyncio
import random
from collections import Counter

from causalcast.errors import CausalcastError
from causalcast.nodeworld.application import Application, Ledger
from causalcast.nodeworld.disk import SimDisk
from causalcast.nodeworld.lives import Life
from causalcast.nodeworld.machine import SimMachine
from causalcast.nodeworld.network import Network
from causalcast.runtime.node import Node
from causalcast.runtime.node_config import NodeConfig


class SimProcess:
    """A node and its application, over all their lives."""

    def __init__(
        self, config: NodeConfig, network: Network, disk: SimDisk, chance: random.Random
    ) -> None:
        self.config = config
        self.disk = disk
        self.ledger = Ledger()
        self.machine = SimMachine(network, disk, chance)
        self.node: Node | None = None  # while it is up
        self.seen: Counter[str] = Counter()  # rare things that happened inside
        self.failures: list[str] = []  # starts that were refused, nodes that stopped by themselves
        self._network = network
        self._chance = chance
        self._life: Life | None = None
        self._dead: list[tuple[Life, Node]] = []  # held, or the garbage collector would end them

    @property
    def is_up(self) -> bool:
        """Whether the process runs, be it that its node is still starting."""
        return self._life is not None

    def start(self, publishes_until: float) -> None:
        """Begin another life."""
        self._life = life = Life()
        work = self._live(publishes_until)
        self._network.loop.create_task(work, context=life.context())

    async def _live(self, publishes_until: float) -> None:
        node = Node(self.config, self.machine)
        try:
            await node.start()
        except CausalcastError as error:
            self.failures.append(f"node {self.config.node} did not start: {error}")
            self._life = None
            return
        self.node = node
        Application(node, self.ledger, self._chance, publishes_until).start()
        try:
            await node.wait_stopped()
        except CausalcastError as error:
            self.failures.append(f"node {self.config.node} stopped: {error}")
            self._forget()

    def _forget(self) -> None:
        if self._life is not None and self.node is not None:
            self._dead.append((self._life, self.node))
            parts = self.node.host().parts
            self.seen["run"] += parts.arrivals.runs
            self.seen["compaction"] += 0 if parts.keeper is None else parts.keeper.compactions
        self.disk.forget_locks()
        self._life = self.node = None

    def crash(self, power: bool) -> bool:
        """End it between two callbacks, with or without the power of its machine."""
        if self._life is None:
            return False
        life = self._life
        life.end()
        self._network.process_ended(self.config.listen.port, life, is_silent=power)
        self._forget()
        self._life = None
        if power:
            self.disk.cut_power()
        return True

    async def stop(self) -> bool:
        """Let it leave in good order."""
        life, node = self._life, self.node
        if life is None or node is None:
            return False
        stopping = self._network.loop.create_task(node.stop(), context=life.context())
        await asyncio.wait([stopping], timeout=60)
        if not stopping.done():
            self.failures.append(f"node {self.config.node} did not stop within a minute")
            return False
        if self._life is life:
            self._forget()
        return True
