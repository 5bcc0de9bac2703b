"""A real node is cut off after every single write to disk or socket, and comes back from its files.

Power fails for node 1 right after its n-th action: bytes handed to the journal's file, a sync, rows
of the trace, frames handed to a socket. Of what the journal had not synced, half is on the disk
when it comes back. This is done for n = 1, 2, 3, … until the story ends before the crash.
"""

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from loopback_nodes import Neighbourhood, disorder, take, until

from causalcast import Node
from causalcast.disk import File
from causalcast.errors import CausalcastError, JournalError
from causalcast.runtime.links.links import Connection
from causalcast.trace.gather import gather


class PowerCut:
    """Counts the actions of node 1, and lets none happen after the n-th."""

    def __init__(
        self, after: int, folder: Path, patch: pytest.MonkeyPatch, disk_lies: bool
    ) -> None:
        self.after = after
        self._patch = patch
        self._disk_lies = disk_lies
        self.kinds: list[str] = []
        self.journal = folder / "node-1/data/journal"
        self.node: Node | None = None
        self._synced = 0  # bytes of the journal
        self._lock = threading.Lock()
        write, sync, flush = File.write, os.fdatasync, Connection.flush

        def write_file(file: File, offset: int, data: bytes) -> None:
            kind = "trace" if "/trace/" in os.readlink(f"/proc/self/fd/{file._fd}") else "journal"
            self._act(kind, file._fd, lambda: write(file, offset, data))

        def sync_journal(fd: int) -> None:
            self._act("sync", fd, lambda: sync(fd))
            if _is_mine(fd) and not disk_lies:
                self._synced = os.fstat(fd).st_size

        def write_socket(connection: Connection) -> None:
            leaves = connection._frames_out or connection.outlet.messages
            if connection._links._me != 1 or not leaves:
                flush(connection)
            elif self._may_happen("socket"):
                flush(connection)
                self._end_if_over()

        patch.setattr(File, "write", write_file)
        patch.setattr(os, "fdatasync", sync_journal)
        patch.setattr(Connection, "flush", write_socket)

    @property
    def is_over(self) -> bool:
        return len(self.kinds) >= self.after

    def tear(self) -> None:
        """The power comes back, and this is on the disk."""
        size = self.journal.stat().st_size
        left = 0 if self._disk_lies else (size - self._synced) // 2
        os.truncate(self.journal, self._synced + left)
        self._patch.undo()

    def _act(self, kind: str, fd: int, action: Callable[[], None]) -> None:
        if not _is_mine(fd):
            action()
        elif self._may_happen(kind):
            action()
            self._end_if_over()
        else:
            raise JournalError("the power is off")

    def _may_happen(self, kind: str) -> bool:
        with self._lock:
            if self.is_over:
                return False
            self.kinds.append(kind)
            return True

    def _end_if_over(self) -> None:
        if self.is_over and self.node is not None and self.node._host is not None:
            host = self.node._host
            host.loop.call_soon_threadsafe(host.fail, JournalError("no power"), "a test")


def _is_mine(fd: int) -> bool:
    return "node-1/" in os.readlink(f"/proc/self/fd/{fd}")


async def play(town: Neighbourhood, cut: PowerCut) -> None:
    """Two nodes publish in turn and answer one another; node 1 is cut off somewhere in between."""
    acknowledged: list[bytes] = []
    two = town.node(2)
    await two.start()
    cut.node = town.node(1)
    try:
        await cut.node.start()
        await until(lambda: cut.is_over or cut.node.status()["links"] == [2])  # type: ignore[union-attr]
        one = cut.node.group("all")
        for number in range(2):
            for group, name in ((one, b"one"), (two.group("all"), b"two")):
                text = b"%s %d" % (name, number)
                await group.publish(text)
                acknowledged.append(text)
            for _ in range(2):
                await (await anext(one)).ack()
        await until(lambda: cut.is_over or two.status()["delivered"] == {"all": 4})
    except CausalcastError:
        assert cut.is_over
    if not cut.is_over:
        await cut.node.stop()
        await two.stop()
        return
    with pytest.raises(CausalcastError):
        await cut.node.wait_stopped()
    cut.tear()
    async with town.node(1) as back:
        await back.group("all").publish(b"back")
        acknowledged.append(b"back")
        for node in (back, two):
            await until(lambda: has_everything(node, [back, two]))  # noqa: B023 - at once
        got = await take(two.group("all"), two.status()["delivered"]["all"])
        assert [text for text in acknowledged if text not in got] == []
    await two.stop()


def has_everything(node: Node, nodes: list[Node]) -> bool:
    published = sum(one.status()["published"].get("all", 0) for one in nodes)
    return bool(node.status()["delivered"].get("all", 0) == published)


def cut_after(actions: int, folder: Path, disk_lies: bool = False, within: float = 30) -> PowerCut:
    """Play the story with a power cut after so many actions, and judge it."""
    with pytest.MonkeyPatch.context() as patch:
        cut = PowerCut(actions, folder, patch, disk_lies)
        town = Neighbourhood(folder, 2, more="[detector]\nkind = 'link_loss'")
        asyncio.run(asyncio.wait_for(play(town, cut), within))
    run = gather([folder], folder / "run")
    assert disorder(run) == [], f"after action {actions}, {cut.kinds[-1]}"
    return cut


@pytest.mark.slow
def test_no_write_is_a_bad_moment_for_a_power_cut(tmp_path: Path) -> None:
    for actions in range(1, 1000):
        cut = cut_after(actions, tmp_path / f"after-{actions}")
        if len(cut.kinds) < actions:
            break
    assert actions > 20
    assert set(cut.kinds) == {"journal", "sync", "trace", "socket"}


def test_a_disk_that_only_says_it_has_synced_is_caught(tmp_path: Path) -> None:
    """The same cuts in the middle of the story: somewhere, what was acknowledged is gone."""
    for actions in range(14, 26, 2):
        try:
            cut_after(actions, tmp_path / f"after-{actions}", disk_lies=True, within=4)
        except (AssertionError, TimeoutError, CausalcastError):
            return
    pytest.fail("nobody noticed")
