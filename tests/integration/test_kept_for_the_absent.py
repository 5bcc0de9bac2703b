"""What absent neighbours lack is bounded and told in time; a snapshot of it may be of any size."""

import asyncio
from pathlib import Path

import pytest
from loopback_nodes import PATIENCE, Neighbourhood, take, until

from causalcast.runtime import compaction
from causalcast.runtime.storage import journal, journal_frames
from causalcast.runtime.storage.journal_frames import read_frames

LIMIT = 400_000
BODY = b"." * 4000


def test_publishers_wait_for_an_absent_neighbour_in_the_end(tmp_path: Path) -> None:
    """Half-way the operator hears of it; when the neighbour is back everybody goes on."""
    town = Neighbourhood(tmp_path, 2, level="none", more=f"[limits]\nkept_bytes = {LIMIT}")

    async def story() -> None:
        one = town.node(1)
        await one.start()
        published = 0

        async def publish() -> None:
            nonlocal published
            while True:
                await one.group("all").publish(BODY)
                published += 1

        publishing = asyncio.create_task(publish())
        await until(lambda: one.status()["publishers_wait"] != [])
        assert one.status()["publishers_wait"] == [
            "too much is kept for node 2 ([limits] kept_bytes)"
        ]
        assert published * len(BODY) < LIMIT < one.status()["kept_bytes"] < LIMIT + 3 * len(BODY)
        names = [event.name for event in one._running().events.since(0)]
        assert names == ["keeps_much"]
        assert f'causalcast_kept_bytes{{node="1"}} {one.status()["kept_bytes"]}' in one.metrics()
        await asyncio.sleep(0.3)  # what was under way is done
        waiting = published
        await asyncio.sleep(0.3)
        assert published == waiting, "nobody publishes now"
        async with asyncio.timeout(PATIENCE):
            two = town.node(2)
            await two.start()
            await until(lambda: published > 2 * waiting)
        publishing.cancel()
        await asyncio.wait([publishing])
        count = one.status()["published"]["all"]
        assert await take(two.group("all"), count) == [BODY] * count
        await until(lambda: one.status()["kept_bytes"] == 0)
        assert "keeps_little" in [event.name for event in one._running().events.since(0)]
        await one.stop()
        await two.stop()

    asyncio.run(story())


def test_what_is_kept_is_counted_after_a_restart(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 2, level="none")

    async def story() -> None:
        kept = 0
        for _ in range(2):
            one = town.node(1)
            await one.start()
            await one.group("all").publish(BODY)
            assert one.status()["kept_bytes"] == kept + len(BODY) + 500
            kept = one.status()["kept_bytes"]
            await one.stop()

    asyncio.run(story())


def test_a_snapshot_may_have_many_entries_and_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here in small: it is as if records and deliveries were larger than any frame can be."""
    monkeypatch.setattr(compaction, "RECORD_BYTES_PER_ENTRY", 10_000)
    monkeypatch.setattr(journal, "FRAME_BYTES", 30_000)
    monkeypatch.setattr(journal_frames, "_LIMIT", 100_000)
    town = Neighbourhood(tmp_path, 2, level="none", more="[limits]\ninbox_bytes = 10000")
    count = 60

    async def story() -> None:
        one = town.node(1)
        await one.start()
        host = one._running()
        for number in range(count):
            await one.group("all").publish(b"%d" % number + BODY)
        host._compact_at = 0
        await one.group("all").publish(b"%d" % count + BODY)
        await until(lambda: host._compact_at > 0 and not host._compacting)
        await one.stop()
        content = (tmp_path / "node-1/data/journal").read_bytes()
        assert content.startswith(journal_frames.COMPACTED)
        monkeypatch.undo()  # node 2 gets all of it at once
        assert len(read_frames(content).entries) > 20
        expected = [b"%d" % number + BODY for number in range(count + 1)]
        async with town.running() as (one, two):
            assert await take(one.group("all"), count + 1) == expected
            assert await take(two.group("all"), count + 1) == expected

    asyncio.run(story())
