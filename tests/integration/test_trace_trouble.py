"""Whoever watches must not stop what is watched: a trace that cannot be written, or is damaged."""

import asyncio
import errno
import os
from pathlib import Path

import pytest
from loopback_nodes import Neighbourhood, disorder, take, until

from causalcast.disk import File
from causalcast.errors import TraceError
from causalcast.trace import node_log
from causalcast.trace.gather import gather
from causalcast.trace.kinds import KINDS
from causalcast.trace.node_log import read_log


def log_of(folder: Path, node: int = 1) -> Path:
    return folder / f"node-{node}/trace/node-{node}.nodelog"


@pytest.mark.parametrize("compacted", [False, True], ids=["", "compacted"])
@pytest.mark.parametrize("damage", ["a byte in the middle", "no log at all", "gone"])
def test_a_damaged_trace_stops_no_node(tmp_path: Path, damage: str, compacted: bool) -> None:
    """It is put aside and a new one begins, with what the journal knows. If that is not all, the
    run cannot be judged any more, and says so."""
    town = Neighbourhood(tmp_path, 1)

    async def live(number: int) -> list[str]:
        async with town.running() as (node,):
            await node.group("all").publish(b"%d" % number)
            assert await take(node.group("all"), 1) == [b"%d" % number]
            if compacted and number == 1:
                host = node._running()
                keeper = host.parts.keeper
                assert keeper is not None
                keeper._compact_at = 0
                await node.group("all").publish(b"more")
                await until(lambda: keeper._compact_at > 0 and not keeper._is_compacting)
                assert await take(node.group("all"), 1) == [b"more"]
            return [event.meaning for event in node._running().observed.events.since(0)]

    assert asyncio.run(live(1)) == []
    path = log_of(tmp_path)
    content = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    elif damage == "no log at all":
        path.write_bytes(b"something else")
    else:
        content[content.rindex(b"\x93") - 20] ^= 1
        path.write_bytes(content)
    told = asyncio.run(live(2))
    assert len(told) == (0 if damage == "gone" else 1)
    assert asyncio.run(live(3)) == []
    kinds = [KINDS[row[1]] for row in read_log(path).rows]
    assert kinds.count("publish") in ((2, 3) if compacted else (3,))
    aside = list(path.parent.glob("*.aside-*"))
    assert [one.read_bytes() for one in aside] == (
        [] if damage == "gone" else [bytes(content) if "byte" in damage else b"something else"]
    )
    if compacted:
        with pytest.raises(TraceError, match="lost before the log begins"):
            gather([tmp_path], tmp_path / "run")
    else:
        assert disorder(gather([tmp_path], tmp_path / "run")) == []


def test_a_full_disk_of_the_trace_stops_no_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Publishers go on; when there is room again, every row is there."""
    town = Neighbourhood(tmp_path, 2)
    write = File.write

    def full(file: File, offset: int, data: bytes) -> None:
        if "/trace/" not in os.readlink(f"/proc/self/fd/{file._fd}"):
            return write(file, offset, data)
        raise OSError(errno.ENOSPC, "No space left on device")

    async def story() -> None:
        async with town.running() as (one, two):
            await one.group("all").publish(b"before")
            monkeypatch.setattr(File, "write", full)
            for number in range(20):
                await one.group("all").publish(b"%d" % number)
            assert len(await take(two.group("all"), 21)) == 21
            told = one._running().observed.events.since(0)
            assert [event.name for event in told] == ["trace"]
            assert "the node goes on" in told[0].meaning
            monkeypatch.setattr(File, "write", write)
            monkeypatch.setattr(node_log.TRY_AGAIN, "value", 0.0)
            for node in (one, two):
                node._running().rows.trace._try_at = 0.0  # type: ignore[union-attr]
            await one.group("all").publish(b"after")
            await take(two.group("all"), 1)
            assert one.status()["trace"]["lost_rows"] == 0
            assert "causalcast_trace_lost_rows_total" in one.metrics()

    asyncio.run(story())
    run = gather([tmp_path], tmp_path / "run")
    kinds = [row["kind"] for row in run.events.to_pylist()]
    assert kinds.count("publish") == 22 and kinds.count("deliver") == 44


def test_an_idle_node_writes_nothing(tmp_path: Path) -> None:
    """At the usual level beats are in no trace; at level full they are."""
    town = Neighbourhood(tmp_path, 2, level="messages", more="[detector]\ninterval = 20")

    async def story() -> None:
        async with town.running() as (one, _):
            await asyncio.sleep(0.1)
            before = log_of(tmp_path).stat().st_size
            beats = 0

            def count(*_: object) -> None:
                nonlocal beats
                beats += 1

            host = one._running()
            came = host._listener.frames_came

            def counting(*given: object) -> None:
                count()
                came(*given)  # type: ignore[arg-type]

            host._listener.frames_came = counting  # type: ignore[method-assign]
            await until(lambda: beats > 5)
            assert log_of(tmp_path).stat().st_size == before

    asyncio.run(story())


def test_the_trace_of_a_running_node_is_bounded(tmp_path: Path) -> None:
    limit = 1 << 16
    town = Neighbourhood(tmp_path, 2, level=f'messages"\nmax_bytes = {limit}  # "')

    async def story() -> None:
        async with town.running() as (one, two):
            for number in range(600):
                await one.group("all").publish(b"%d" % number)
            assert len(await take(two.group("all"), 600)) == 600
            for node in (one, two):
                assert node.status()["trace"]["bytes"] <= limit

    asyncio.run(story())
    run = gather([tmp_path], tmp_path / "run")
    kinds = [row["kind"] for row in run.events.to_pylist()]
    assert 0 < kinds.count("publish") < 600
    assert kinds.count("deliver") == 2 * kinds.count("publish")
