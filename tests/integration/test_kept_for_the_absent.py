"""What absent neighbours lack is bounded and told in time; a snapshot of it may be of any size."""

import asyncio
from pathlib import Path

import pytest
from loopback_nodes import PATIENCE, Neighbourhood, take, until

from causalcast import Node
from causalcast.runtime.host import compaction
from causalcast.runtime.storage import journal, journal_frames
from causalcast.runtime.storage.journal_frames import read_frames

LIMIT = 400_000
BODY = b"." * 4000
TIME_OF_PUBLICATION = 32  # bytes at most that travel with a body
PROTOCOLS = [
    "vector_clock_broadcast",
    "locamu",
    "delta_neighbourhood",
    "cbcast",
    "causal_barriers",
    "causal_separators",
]


class Town(Neighbourhood):
    """Neighbours that may keep little for each other."""

    def __init__(self, folder: Path, protocol: str, nodes: int = 2) -> None:
        overlay = "line" if protocol in ("locamu", "delta_neighbourhood") else "full_mesh"
        self.options = 'zones = "1; 2"' if protocol == "causal_separators" else ""
        limits = f"[limits]\nkept_bytes = {LIMIT}"
        super().__init__(folder, nodes, protocol, f'kind = "{overlay}"', level="none", more=limits)

    def node(self, node: int) -> Node:
        return Node(self.config(node, options=self.options))


class Publisher:
    """Publishes as fast as it may."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.published = 0
        self._task = asyncio.create_task(self._publish())

    async def _publish(self) -> None:
        while True:
            await self.node.group("all").publish(BODY)
            self.published += 1

    async def until_it_waits(self) -> None:
        """Until it is told why it waits, and for whom."""
        await until(lambda: self.node.status()["publishers_wait"] != [])
        assert self.node.status()["publishers_wait"] == [
            "too much is kept for node 2 ([limits] kept_bytes)"
        ]
        assert self.published * len(BODY) < LIMIT

    async def stop(self) -> int:
        """How many it has published then."""
        self._task.cancel()
        await asyncio.wait([self._task])
        count: int = self.node.status()["published"]["all"]
        return count

    def events(self) -> list[str]:
        """What its operator heard of what is kept."""
        names = [event.name for event in self.node._running().observed.events.since(0)]
        return [name for name in names if name.startswith("keeps_")]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_publishers_wait_for_an_absent_neighbour_in_the_end(tmp_path: Path, protocol: str) -> None:
    """Half-way the operator hears of it; when the neighbour is back everybody goes on."""
    town = Town(tmp_path, protocol)

    async def story() -> None:
        one = town.node(1)
        await one.start()
        publisher = Publisher(one)
        await publisher.until_it_waits()
        assert LIMIT < one.status()["kept_bytes"] < LIMIT + 3 * len(BODY)
        assert publisher.events() == ["keeps_much"]
        assert f'causalcast_kept_bytes{{node="1"}} {one.status()["kept_bytes"]}' in one.metrics()
        await asyncio.sleep(0.3)  # what was under way is done
        waiting = publisher.published
        await asyncio.sleep(0.3)
        assert publisher.published == waiting, "nobody publishes now"
        async with asyncio.timeout(PATIENCE):
            two = town.node(2)
            await two.start()
            await until(lambda: publisher.published > 2 * waiting)
        count = await publisher.stop()
        assert await take(two.group("all"), count) == [BODY] * count
        await until(lambda: one.status()["kept_bytes"] == 0)
        assert "keeps_little" in publisher.events()
        await one.stop()
        await two.stop()

    asyncio.run(story())


def test_who_keeps_something_only_in_case_its_publisher_falls_waits_too(tmp_path: Path) -> None:
    """Node 2 publishes and node 3 is away. Node 1 has nothing to pass on, and would stand in for
    node 2: what it keeps for that counts as well."""
    town = Town(tmp_path, "locamu", nodes=3)

    async def story() -> None:
        one, two = town.node(1), town.node(2)
        await one.start()
        await two.start()
        publisher = Publisher(two)
        await until(lambda: two.status()["publishers_wait"] != [])
        await until(lambda: one.status()["publishers_wait"] != [])
        assert one.status()["kept_bytes"] > LIMIT
        three = town.node(3)
        await three.start()
        waiting = publisher.published
        await until(lambda: publisher.published > 2 * waiting)
        await publisher.stop()
        await until(lambda: one.status()["kept_bytes"] == two.status()["kept_bytes"] == 0)
        for node in (one, two, three):
            await node.stop()

    asyncio.run(story())


def test_publishers_go_on_when_the_absent_one_is_declared_gone(tmp_path: Path) -> None:
    town = Town(tmp_path, "locamu")

    async def story() -> None:
        one = town.node(1)
        await one.start()
        publisher = Publisher(one)
        await publisher.until_it_waits()
        waiting = publisher.published
        one.command("gone 2")
        await until(lambda: publisher.published > 2 * waiting)
        await publisher.stop()
        await until(lambda: one.status()["kept_bytes"] == 0)
        await one.stop()

    asyncio.run(story())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_was_kept_before_a_restart_makes_publishers_wait_after_it(
    tmp_path: Path, protocol: str
) -> None:
    town = Town(tmp_path, protocol)

    async def story() -> None:
        one = town.node(1)
        await one.start()
        publisher = Publisher(one)
        await publisher.until_it_waits()
        await publisher.stop()
        kept = one.status()["kept_bytes"]
        await one.stop()
        one = town.node(1)
        await one.start()
        assert one.status()["kept_bytes"] == kept
        await Publisher(one).until_it_waits()
        await one.stop()

    asyncio.run(story())


def test_what_is_kept_is_counted_after_a_restart(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 2, level="none")

    async def story() -> None:
        kept = 0
        for _ in range(2):
            one = town.node(1)
            await one.start()
            await one.group("all").publish(BODY)
            now = one.status()["kept_bytes"]
            assert kept + len(BODY) + 500 <= now <= kept + len(BODY) + 500 + TIME_OF_PUBLICATION
            kept = now
            await one.stop()

    asyncio.run(story())


def test_a_snapshot_may_have_many_entries_and_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here in small: it is as if records and deliveries were larger than any frame can be."""
    monkeypatch.setattr(compaction.RECORD_BYTES_PER_ENTRY, "value", 10_000)
    monkeypatch.setattr(journal.FRAME_BYTES, "value", 30_000)
    monkeypatch.setattr(journal_frames, "_LIMIT", 100_000)
    town = Neighbourhood(tmp_path, 2, level="none", more="[limits]\ninbox_bytes = 10000")
    count = 60

    async def story() -> None:
        one = town.node(1)
        await one.start()
        host = one._running()
        keeper = host.parts.keeper
        assert keeper is not None
        for number in range(count):
            await one.group("all").publish(b"%d" % number + BODY)
        keeper._compact_at = 0
        await one.group("all").publish(b"%d" % count + BODY)
        await until(lambda: keeper._compact_at > 0 and not keeper._is_compacting)
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
