"""What every member of a runtime benchmark does, whatever carries its messages.

A member is told its work as JSON, says `ready` when its links stand, starts at `go`, prints what it
measured when it has received everything, and stays until its input ends, for others may still
need it. Receivers check every number: what is lost, doubled or out of order per sender fails.
"""

import asyncio
import json
import resource
import signal
import struct
import sys
import time
from dataclasses import dataclass
from typing import Any

HEAD = struct.Struct(">IIQ")  # sender, number, when it was published
PATIENCE = 120  # seconds; a member that hangs is ended
PER_TURN = 64  # publications before the loop has its turn


@dataclass
class Work:
    """What one member of a run is to do."""

    me: int
    publishers: list[int]
    receivers: list[int]
    publications: int  # by all publishers together
    size: int
    pace: float  # publications per second in all; 0: as fast as it goes
    ports: dict[str, int]
    tls: str  # a folder with a throw-away certificate; empty: plain TCP
    iterate: bool  # take messages by async iteration, not by callback
    uvloop: bool
    hand_over: bool  # keep what came until everybody has it, for the case that its origin dies
    folder: str

    @property
    def members(self) -> list[int]:
        """Everybody, in order."""
        return sorted({*self.publishers, *self.receivers})

    @property
    def mine(self) -> int:
        """How many this member publishes."""
        return self.publications // len(self.publishers) if self.me in self.publishers else 0

    @property
    def due(self) -> int:
        """How many this member receives, its own included."""
        each = self.publications // len(self.publishers)
        return each * len(self.publishers) if self.me in self.receivers else 0


class Tally:
    """Counts and checks what came."""

    def __init__(self, work: Work) -> None:
        self.left = work.due
        self.ended = time.monotonic()
        self.latencies: list[int] = []
        self.done = asyncio.Event()
        self._next = dict.fromkeys(work.publishers, 1)
        self._paced = work.pace > 0
        if not self.left:
            self.done.set()

    def take(self, body: bytes) -> bool:
        """One message came; True if it was the last."""
        sender, number, at_ns = HEAD.unpack_from(body)
        if number != self._next[sender]:
            raise SystemExit(f"{sender} sent {number}, {self._next[sender]} was next")
        self._next[sender] = number + 1
        if self._paced:
            self.latencies.append(time.monotonic_ns() - at_ns)
        self.left -= 1
        if self.left == 0:
            self.ended = time.monotonic()
            self.done.set()
            return True
        return False


class Member:
    """How one system carries messages; each file beside this one has a subclass."""

    def __init__(self, work: Work, tally: Tally) -> None:
        self.work = work
        self.tally = tally

    async def open(self) -> None:
        """Come up; return when everybody is linked."""
        raise NotImplementedError

    async def publish(self, body: bytes) -> None:
        """Publish one message."""
        raise NotImplementedError

    async def flush(self) -> None:
        """Called where a publisher pauses."""
        await asyncio.sleep(0)

    async def close(self) -> None:
        """Go down."""


async def publish_all(member: Member, started: float) -> None:
    """As fast as it goes, or at the pace of the run."""
    work = member.work
    padding = bytes(work.size - HEAD.size)
    interval = len(work.publishers) / work.pace if work.pace else 0.0
    for number in range(1, work.mine + 1):
        if interval:
            wait = started + number * interval - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
        await member.publish(HEAD.pack(work.me, number, time.monotonic_ns()) + padding)
        if interval or number % PER_TURN == 0:
            await member.flush()
    await member.flush()


def cpu_seconds() -> float:
    """What this process used so far, in all its threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def _run(member_class: type[Member], work: Work) -> None:
    loop = asyncio.get_running_loop()
    tally = Tally(work)
    member = member_class(work, tally)
    await member.open()
    print("ready", flush=True)
    await loop.run_in_executor(None, sys.stdin.readline)
    started, cpu = time.monotonic(), cpu_seconds()
    tally.ended = started
    await publish_all(member, started)
    await tally.done.wait()
    print("received", flush=True)
    await loop.run_in_executor(None, sys.stdin.readline)  # everybody has everything
    result: dict[str, Any] = {
        "started": started,
        "ended": tally.ended,
        "cpu_seconds": cpu_seconds() - cpu,
        "latencies": tally.latencies,
    }
    print(json.dumps(result), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    await member.close()


def run_member(member_class: type[Member]) -> None:
    """The whole life of a member process."""
    signal.alarm(PATIENCE)
    work = Work(**json.loads(sys.argv[1]))
    if work.uvloop:
        import uvloop

        uvloop.run(_run(member_class, work))
    else:
        asyncio.run(_run(member_class, work))
