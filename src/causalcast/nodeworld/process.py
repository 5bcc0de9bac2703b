"""One machine's process: it starts, is killed or frozen, and starts again from its disk."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from causalcast.errors import CausalcastError, LeftBehind
from causalcast.nodeworld.application import Application, Habits, Ledger
from causalcast.nodeworld.disk import SimDisk
from causalcast.nodeworld.lives import Life
from causalcast.nodeworld.machine import SimMachine
from causalcast.nodeworld.network import Network
from causalcast.nodeworld.newcomers import Learner
from causalcast.runtime.links.links import CLOSE_WITHIN
from causalcast.runtime.node import Node
from causalcast.runtime.node_config import NodeConfig
from causalcast.trace.node_log import SUFFIX, ended_well

OUTLIVES: Final = 0.7  # seconds that an application goes on when its node has stopped
SYNCS_TO_STOP: Final = 5  # of those that take longest: what was written before is waited for
LETS_CLIENTS_GO_WITHIN: Final = 4.0  # seconds: they are told, and their sockets closed
STOPS_WITHIN: Final = 1.0  # seconds beside those and what links may take


class SimProcess:
    """A node and its application, over all their lives."""

    def __init__(
        self,
        config_of_life: Callable[[int], NodeConfig],
        network: Network,
        disk: SimDisk,
        chance: random.Random,
        more: random.Random,
        habits: Habits,
        learner: Learner | None = None,
    ) -> None:
        self.config = config_of_life(1)  # of this life or the last one
        self.disk = disk
        self.ledgers: dict[int, Ledger] = {}  # by node: whoever is new in every life has several
        self.machine = SimMachine(network, disk, chance)
        self.node: Node | None = None  # while it is up
        self.seen: Counter[str] = Counter()  # rare things that happened inside
        self.failures: list[str] = []  # starts that were refused, nodes that stopped by themselves
        self.learner = learner  # of a group that some join late, if there is one
        self.has_old_disk = False
        self.said_before = 0  # rows of its ledger before its disk became an old one
        self._config_of_life = config_of_life
        self._lives = 0
        self._network = network
        self._chance = chance
        self._more = more
        self._habits = habits
        self._application: Application | None = None
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
        self._application = Application(
            node, ledger, self._chance, self._more, self._habits, publishes_until
        )
        self._application.start()
        if self.learner is not None:
            self.learner.start(node)
        try:
            await node.wait_stopped()
        except CausalcastError as error:
            if isinstance(error, LeftBehind):
                self.seen["left_behind"] += 1  # whoever looks after it starts it again
            else:
                self.failures.append(f"node {self.config.node} stopped: {error}")
            await asyncio.sleep(OUTLIVES)
            self._look_at_application()
            self._forget()

    def _look_at_application(self) -> None:
        """Its node has stopped: whatever it asked for must have been answered."""
        assert self._application is not None
        for call in self._application.still_waits_for():
            self.failures.append(
                f"the application of node {self.config.node} still waits for the node, which has "
                f"stopped: {call}"
            )

    def _forget(self) -> None:
        """The process is gone, and its application with it."""
        if self._life is not None:
            self._life.end()
            self._network.process_ended(self._life, is_silent=False)
        if self._life is not None and self.node is not None:
            self._dead.append((self._life, self.node))
            parts = self.node.host().parts
            self.seen["run"] += parts.arrivals.runs
            self.seen["compaction"] += 0 if parts.keeper is None else parts.keeper.compactions
            self.seen["cut_silent"] += self.node.host().links.counts["cut_silent"]
        self.disk.process_ended()
        self._life = self.node = None

    def crash(self, power: bool) -> bool:
        """End it between two callbacks, with or without the power of its machine."""
        if self._life is None:
            return False
        life = self._life
        life.end()
        self._network.process_ended(life, is_silent=power)
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

    def command(self, words: str) -> bool:
        """Whether its node does what an operator commands; who stands still hears nothing."""
        life, node = self._life, self.node
        if life is None or node is None or life.stands_still:
            return False
        try:
            life.context().run(node.command, words)
        except CausalcastError:  # something speaks against it
            return False
        return True

    def copy_disk(self) -> None:
        """Keep what is on its disk now."""
        self._copy = self.disk.copy()

    def put_back_disk(self) -> bool:
        """While it is down its disk becomes what it was when it was copied."""
        if self.is_up or self._copy is None:
            return False
        self.disk.put_back(self._copy)
        self.has_old_disk = True
        ledger = self.ledgers.get(self.config.node)
        self.said_before = 0 if ledger is None else len(ledger.log)
        return True

    async def stop(self) -> bool:
        """Let it leave in good order."""
        life, node = self._life, self.node
        if life is None or node is None or life.stands_still:
            return False
        loop = self._network.loop
        began = loop.time()
        stopping = loop.create_task(node.stop(), context=life.context())
        await asyncio.wait([stopping], timeout=60)
        if life.is_over:
            return False  # something ended it meanwhile
        if not stopping.done():
            self.failures.append(f"node {self.config.node} did not stop within a minute")
            return False
        syncs = SYNCS_TO_STOP * self.disk.longest_sync()
        within = STOPS_WITHIN + CLOSE_WITHIN.value + syncs
        within += 0.0 if self.config.clients is None else LETS_CLIENTS_GO_WITHIN
        if loop.time() - began > within:
            took = f"{loop.time() - began:.1f} seconds (at most {within:.1f})"
            self.failures.append(f"node {self.config.node} took too long to stop: {took}")
        await asyncio.sleep(OUTLIVES)
        if self._life is life:
            self._look_at_application()
            self._look_at_last_row(node)
            self._forget()
        return True

    def _look_at_last_row(self, node: Node) -> None:
        """Whoever stops in good order says so, and nothing behind it: else it looks like a
        crash."""
        log, config = node.host().rows.trace, self.config
        if log is None or log.waits() or node.host().running.failure is not None:
            return
        assert config.trace is not None
        if not ended_well(config.trace / f"node-{config.node}{SUFFIX}", self.disk):
            self.failures.append(f"the last row of node {config.node} is no farewell")
