"""A node uses the machine that it is given, and no other: its clock, its disk, its entropy."""

import asyncio
import errno
import os
from pathlib import Path

import pytest
from loopback_nodes import Neighbourhood

from causalcast import Node
from causalcast.disk import Disk, File
from causalcast.errors import CausalcastError
from causalcast.runtime.machine import Clock, Entropy, Machine
from causalcast.trace.node_log import read_log

LONG_AGO_US = 1_000_000


class StandingClock(Clock):
    """Goes on by one at each look."""

    def __init__(self) -> None:
        self.now = 0

    def monotonic_us(self) -> int:
        self.now += 1
        return self.now

    def wall_us(self) -> int:
        return LONG_AGO_US


class KnownEntropy(Entropy):
    """Not at all random."""

    def some_bytes(self, count: int) -> bytes:
        return bytes(range(count))


class BreakingFile(File):
    """Its disk takes so many syncs."""

    left = 3

    def sync_content(self) -> None:
        BreakingFile.left -= 1
        if BreakingFile.left < 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync_content()


class BreakingDisk(Disk):
    """Has such files."""

    def open(self, path: Path, new: bool = False, mode: int = 0o600) -> File:
        return BreakingFile(super().open(path, new, mode)._fd)


def test_a_node_asks_its_machine(tmp_path: Path) -> None:
    machine = Machine()
    machine.clock, machine.entropy = StandingClock(), KnownEntropy()
    machine.disk = BreakingDisk()
    town = Neighbourhood(tmp_path, 1)

    async def story() -> None:
        node = Node(town.config(1), machine)
        await node.start()
        life = node._running().earlier.life
        assert life.incarnation == life.life == int.from_bytes(bytes(range(7))) + 1
        with pytest.raises(CausalcastError, match="Input/output error"):
            for number in range(5):
                await node.group("all").publish(b"%d" % number)
        with pytest.raises(CausalcastError, match="everything acknowledged is safe"):
            await node.wait_stopped()

    asyncio.run(story())
    rows = read_log(tmp_path / "node-1/trace/node-1.nodelog").rows
    assert rows and all(abs(row[0] - LONG_AGO_US) < 100_000 for row in rows)
