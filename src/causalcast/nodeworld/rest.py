"""When a world is at rest, and whether it is quiet then.

At rest nobody publishes, everybody is up and everything has been delivered and acknowledged. What
nodes still do is counted for a while: a storm of dials, bytes or log lines is a defect, even if
every message arrives.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from causalcast.nodeworld.network import Network
from causalcast.nodeworld.process import SimProcess

REST_WITHIN: Final = 300.0  # seconds for everybody to have everything
CALM_FOR: Final = 10.0  # seconds in which nothing is delivered any more, and everything is counted

MOVES: Final = ("delivered", "waiting", "unacknowledged")  # facts of a status
ENOUGH_TO_COME: Final = 6  # times of calm

# Of one node and second. Detectors speak all the time, and overlays look after themselves.
MOST_DIALS: Final = 2.0
MOST_BYTES: Final = 20_000.0
MOST_LINES: Final = 1.0


class LogLines(logging.Handler):
    """Counts what nodes log, and keeps it from the screen."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.count = 0
        self._before: tuple[int, bool] = (0, True)

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1

    def __enter__(self) -> "LogLines":
        logger = logging.getLogger("causalcast")
        self._before = (logger.level, logger.propagate)
        logger.addHandler(self)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        return self

    def __exit__(self, *_: object) -> None:
        logger = logging.getLogger("causalcast")
        logger.removeHandler(self)
        logger.setLevel(self._before[0])
        logger.propagate = self._before[1]


@dataclass(frozen=True)
class Meter:
    """What had happened at a moment."""

    at: float
    dials: int
    bytes: int
    lines: int

    def storms_until(self, later: "Meter", nodes: int) -> list[str]:
        """What there was too much of, in words."""
        seconds = (later.at - self.at) * nodes
        counted = (
            ("dials", later.dials - self.dials, MOST_DIALS),
            ("bytes", later.bytes - self.bytes, MOST_BYTES),
            ("log lines", later.lines - self.lines, MOST_LINES),
        )
        return [
            f"a storm at rest: {count / seconds:.1f} {what} per node and second (at most {most:g})"
            for what, count, most in counted
            if count > most * seconds
        ]


class Rest:
    """Waits for it."""

    def __init__(
        self, network: Network, processes: Mapping[int, SimProcess], lines: LogLines
    ) -> None:
        self._network = network
        self._processes = processes
        self._lines = lines
        self._before: list[Any] = []

    async def come(self, judges_storms: bool) -> list[str]:
        """Let whoever is down come back, and everybody get everything; what went wrong."""
        loop = self._network.loop
        deadline = loop.time() + REST_WITHIN
        since = self._meter()
        stormy = 0
        while loop.time() < deadline:
            self.bring_back()
            await asyncio.sleep(0.5)
            if not self._is_calm():
                since = self._meter()
            elif loop.time() - since.at >= CALM_FOR:
                storms = since.storms_until(self._meter(), len(self._processes))
                if not judges_storms or not storms:
                    return []
                stormy += 1  # what was under way may still come, in vain
                if stormy == ENOUGH_TO_COME:
                    return storms
                since = self._meter()
        return ["no rest: something still happens after five minutes" + self._who_is_busy()]

    def bring_back(self) -> None:
        """Whoever is down begins another life."""
        for process in self._processes.values():
            if not process.is_up:
                process.start(0.0)

    def _meter(self) -> Meter:
        network = self._network
        return Meter(network.loop.time(), network.dials, network.bytes, self._lines.count)

    def _is_calm(self) -> bool:
        """Whether nobody waits for anything, and nothing was delivered since it was last asked."""
        before, self._before = self._before, [self._progress(p) for p in self._processes.values()]
        return before == self._before and not self._who_is_busy()

    def _progress(self, process: SimProcess) -> Any:
        if process.node is None:
            return None
        status = process.node.status()
        return [process.config.node, *(status[fact] for fact in MOVES)]

    def _who_hears(self) -> set[int]:
        """The nodes that get what at least one other delivers; all if nobody has found its place:
        then nobody is left who could take the others in."""
        nodes = [process.node for process in self._processes.values()]
        if not any(node is not None and node.status()["takes_part"] for node in nodes):
            return {process.config.node for process in self._processes.values()}
        hear: set[int] = set()
        for process in self._processes.values():
            reaches = process.config.blueprint.protocol.reaches
            if reaches is None:
                hear.add(process.config.node)  # all links of such a protocol bring everything
            elif process.node is not None:
                hear.update(reaches(process.node.host().parts.stack.multicast))
        return hear

    def _who_is_busy(self) -> str:
        reasons = []
        hear = self._who_hears()
        for machine, process in self._processes.items():
            if process.node is None:
                reasons.append(f"machine {machine} is not up")
                continue
            if process.is_linked and process.config.node not in hear:
                reasons.append(f"machine {machine} has links and hears nobody")
            if process.ledgers[process.config.node].waits:
                reasons.append(f"the application of machine {machine} waits for a receipt")
            if process.learner is not None and not process.learner.is_in:
                reasons.append(f"machine {machine} waits for a state")
            status = process.node.status()
            # What doors keep for clients stays: it is acknowledged when it makes room.
            status["unacknowledged"] -= status.get("clients", {}).get("kept_messages", 0)
            for fact in ("publishers_wait", "waiting", "unacknowledged"):
                if status[fact]:
                    reasons.append(f"machine {machine} has {fact} = {status[fact]}")
            for group, readers in process.node.host().parts.readers.numbers().items():
                for name, facts in readers.items():
                    if facts["unacknowledged"] and not facts["lost"]:
                        reasons.append(f"machine {machine}: {name!r} of {group!r} is not done")
        return "".join(f"; {reason}" for reason in reasons)
