"""What the comparison needs to know of a message bus: servers to start, and a client."""

import subprocess
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from causalcast.buses.slow_link import SlowLink
from causalcast.recording.recorder import Recorder

Handler = Callable[[str], Awaitable[None]]
SLOW_MS = 20.0  # what the slow route adds, each way


@dataclass
class Task:
    """What one process is to do; it travels as JSON."""

    system: str
    setup: str
    me: int
    processes: int
    log: str
    rate: float
    """Publications per second that answer nothing."""
    seconds: float
    answers: float
    """The share of deliveries that are answered."""
    pause_ms: float
    """How long the application takes for a message."""
    seed: int
    reach: dict[str, Any] = field(default_factory=dict)
    """Where the servers or the other processes are."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


class Client(ABC):
    """One process at the bus; publications and deliveries go through its recorder."""

    topics: Sequence[str]

    def __init__(self, task: Task, recorder: Recorder) -> None:
        self.task = task
        self.recorder = recorder

    @abstractmethod
    async def open(self, handle: Handler) -> None:
        """Connect and subscribe to all topics; `handle` is called for each message, inside
        the recorder's block."""

    @abstractmethod
    async def publish(self, topic: str, payload: bytes) -> None:
        """Record and send."""

    async def pause(self, seconds: float) -> None:
        """What an application does that takes its time."""
        import asyncio

        await asyncio.sleep(seconds)

    @abstractmethod
    async def close(self) -> None:
        """Disconnect."""


class Servers(ABC):
    """The servers of one bus on this machine, in one of its set-ups."""

    def __init__(self, folder: Path, setup: str, processes: int, slow_route: bool) -> None:
        self.folder = folder
        self.setup = setup
        self.processes = processes
        self.slow_route = slow_route
        self._links: list[SlowLink] = []
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    @abstractmethod
    def start(self) -> list[dict[str, Any]]:
        """Start all; what each process has to know to reach them."""

    def restart(self) -> bool:
        """Stop one server and start it again; False if there is none."""
        return False

    def stop(self) -> None:
        """End everything that was started."""
        for child in self._children.values():
            child.terminate()
        for child in self._children.values():
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        for link in self._links:
            link.close()

    def run(self, name: str, command: Sequence[str], env: dict[str, str] | None = None) -> None:
        """Start a server; what it says goes to a file."""
        with (self.folder / f"{name}.log").open("ab") as said:
            self._children[name] = subprocess.Popen(command, stdout=said, stderr=said, env=env)

    def end(self, name: str) -> None:
        """Stop one server."""
        child = self._children.pop(name)
        child.terminate()
        child.wait(30)

    def through_slow_link(self, port: int) -> int:
        """The port of a link to another port that is slow if a slow route is wanted."""
        if not self.slow_route:
            return port
        link = SlowLink(port, SLOW_MS)
        self._links.append(link)
        return link.port


@dataclass(frozen=True)
class System:
    """A bus as the comparison shows it."""

    name: str
    setups: dict[str, str]
    """Its set-ups: a short name, and what it means; the one that its documentation recommends for
    order comes last."""
    servers: type[Servers]
    client: type[Client]
    lacking: Callable[[], str | None]
    """Why it cannot be run here, if so."""
    version: Callable[[], str]
    settings: str
    """What was set that is not the default, in words."""
    order: str
    """What its documentation says about order."""
