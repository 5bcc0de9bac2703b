"""A disk that is full or read-only: told clearly, nothing is lost, and the node comes back."""

import asyncio
import os
import resource
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from loopback_nodes import PATIENCE, Neighbourhood, disorder, take, until

from causalcast import Node
from causalcast.errors import CausalcastError, JournalError, NodeError, TraceError
from causalcast.runtime.operating.local_cluster import ClusterPlan, LocalCluster
from causalcast.trace.gather import gather

BODY = b"x" * 1000


@contextmanager
def small_disk(folder: Path, options: str) -> Iterator[None]:
    """A file system of its own in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a small file system can be mounted by root only")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


async def publish_until_it_fails(node: Node) -> int:
    """How many publications were acknowledged."""
    acknowledged = 0
    with pytest.raises((JournalError, TraceError), match="No space left on device"):
        while True:
            await node.group("all").publish(BODY + b"%d" % acknowledged)
            acknowledged += 1
    return acknowledged


@pytest.mark.parametrize("full", ["journal", "journal and trace"])
def test_a_full_disk_stops_the_node_and_loses_nothing(tmp_path: Path, full: str) -> None:
    """Node 1 publishes until its disk is full, and starts again when there is room."""
    town = Neighbourhood(tmp_path, 2)
    disk = tmp_path / ("node-1/data" if full == "journal" else "node-1")

    async def story() -> None:
        two = town.node(2)
        await two.start()
        one = town.node(1)
        await one.start()
        await until(lambda: one.status()["links"] == [2])
        acknowledged = await publish_until_it_fails(one)
        assert acknowledged > 10
        with pytest.raises(CausalcastError):
            await one.wait_stopped()
        subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
        async with town.node(1) as back:
            await back.group("all").publish(b"back")
            for node in (back, two):
                # Publications that failed may have become durable; acknowledged ones must have.
                bodies = await take(node.group("all"), acknowledged)
                assert bodies == [BODY + b"%d" % number for number in range(acknowledged)]
            await until(lambda: back.status()["delivered"] == two.status()["delivered"])
        await two.stop()

    with small_disk(disk, "size=64k"):
        asyncio.run(asyncio.wait_for(story(), PATIENCE))
        run = gather([tmp_path], tmp_path / "run")
        assert disorder(run) == []


def test_a_read_only_disk_is_told_at_the_start(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 1)

    async def start() -> None:
        with pytest.raises(JournalError, match=r"journal: cannot be opened \(Read-only file"):
            await town.node(1).start()

    with small_disk(tmp_path / "node-1/data", "size=64k,ro"):
        asyncio.run(start())


def test_a_process_at_its_limit_stops_and_comes_back(tmp_path: Path) -> None:
    """No file of a running node may grow: what is acknowledged is there when it may again."""
    cluster = LocalCluster(tmp_path / "nodes", ClusterPlan(nodes=1))
    try:
        cluster.start_all()
        cluster.ask(1, "publish", group="all", text="first")
        journal = cluster.folder_of(1) / "data/journal"
        limit = journal.stat().st_size + 2000
        resource.prlimit(cluster.process_id(1), resource.RLIMIT_FSIZE, (limit, limit))
        acknowledged = ["first"]
        with pytest.raises(NodeError, match=r"journal: cannot be written \(File too large\)"):
            while True:
                cluster.ask(1, "publish", group="all", text=f"number {len(acknowledged)}")
                acknowledged.append(f"number {len(acknowledged)}")
        deadline = time.monotonic() + PATIENCE
        while cluster.is_running(1):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert "(File too large)" in (cluster.folder_of(1) / "node.log").read_text()
        assert len(acknowledged) > 2
        cluster.come_back(1)
        status = cluster.ask(1, "status")
        assert status["published"]["all"] >= len(acknowledged)
        assert status["waiting"] >= len(acknowledged)
    finally:
        cluster.stop_all()
