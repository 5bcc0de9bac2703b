"""The replicated map of the examples keeps its word under faults, and planted bugs are noticed."""

import asyncio
import collections
from pathlib import Path
from typing import Any

import pytest
from replicated_map_story import BusyGroup, Story, example

from causalcast.errors import NodeError
from causalcast.testing import Applications, Cluster, VirtualNode

SEEDS = range(12)
MOST_SEEDS = 60  # within which every planted bug must be noticed


def play(seed: int, folder: Path, **classes: type[Any]) -> tuple[Story, list[str]]:
    """One story in a folder of its own."""
    place = folder / str(seed)
    place.mkdir()
    story = Story(seed, place, **classes)
    return story, story.run()


def test_sessions_and_convergence_under_faults(tmp_path: Path) -> None:
    """Crashes, partitions, delays and loss; and each of them did happen."""
    fired: collections.Counter[str] = collections.Counter()
    for seed in SEEDS:
        story, wrong = play(seed, tmp_path)
        assert wrong == [], f"seed {seed}"
        story.cluster.settle()
        story.cluster.check()
        fired.update(story.fired)
    for kind in (
        "crash",
        "partition",
        "delay",
        "redelivered",
        "moved",
        "waited",
        "unanswered",
        "busy",
    ):
        assert fired[kind] >= 5, fired


def test_the_same_seed_tells_the_same_story(tmp_path: Path) -> None:
    tellings = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        story, _ = play(3, tmp_path / name)
        pasts = [(client.past, client.token) for client in story.clients]
        tellings.append((pasts, story.order, story.fired, story.finals))
    assert tellings[0] == tellings[1]


# Planted bugs: each leaves out one thing that the example does.


class ReadsDoNotWait(example.ReplicatedMap):
    """A node that is behind the session answers all the same."""

    async def _catch_up(self, session: Any) -> None:
        session.remember(self.replica.seen)


class WritesDoNotWait(example.ReplicatedMap):
    """A node that is behind the session takes writes all the same."""

    async def _write(self, session: Any, **what: Any) -> None:
        here = example.Session()
        await super()._write(here, **what)
        session.remember(here.seen)


class WritesAreForgotten(example.ReplicatedMap):
    """The session does not remember what it wrote."""

    async def _write(self, session: Any, **what: Any) -> None:
        await super()._write(example.Session(session.token()), **what)


class ReadsAreForgotten(example.ReplicatedMap):
    """The session does not remember what it read."""

    async def _catch_up(self, session: Any) -> None:
        await self._until(session.seen)


class AcknowledgesFirst(example.ReplicatedMap):
    """Messages are acknowledged when they are applied, not when that is committed."""

    async def _apply(self) -> None:
        async for message in self._group:
            self.replica.apply(message.origin, message.number, message.payload)
            self._uncommitted.append(message)
            await message.ack()
            self._news.set()
            self._news = example.asyncio.Event()


class ForgetsEarlierWrites(example.ReplicatedMap):
    """A new life writes before it knows the clocks of the one before."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._earlier = 0


class LastToArriveWins(example.Replica):
    """Writes replace one another in the order in which they come."""

    PUT = example.Replica.PUT.partition("WHERE")[0]


class TiesGoToTheFirst(example.Replica):
    """Of two writes with the same clock, the one that came first stays."""

    PUT = example.Replica.PUT.partition("WHERE")[0] + "WHERE excluded.clock > entries.clock"


class ClockOfOwnWrites(example.Replica):
    """The clock counts own writes, and does not follow those of others."""

    def apply(self, node: int, number: int, body: bytes) -> bool:
        before = self.clock
        applied: bool = super().apply(node, number, body)
        self.clock = before
        return applied


class AppliesTwice(example.Replica):
    """What is handed over again is applied again."""

    def apply(self, node: int, number: int, body: bytes) -> bool:
        self.seen[node] = min(self.seen.get(node, 0), number - 1)
        applied: bool = super().apply(node, number, body)
        return applied


class DeletedRowsVanish(example.Replica):
    """Deleting a key removes its row, and an older write brings it back."""

    def apply(self, node: int, number: int, body: bytes) -> bool:
        applied: bool = super().apply(node, number, body)
        self._file.execute("DELETE FROM entries WHERE value IS NULL")
        return applied


MUTANTS: dict[str, list[type[Any]]] = {
    "map_class": [
        ReadsDoNotWait,
        WritesDoNotWait,
        WritesAreForgotten,
        ReadsAreForgotten,
        AcknowledgesFirst,
    ],
    "replica_class": [
        LastToArriveWins,
        TiesGoToTheFirst,
        ClockOfOwnWrites,
        AppliesTwice,
        DeletedRowsVanish,
    ],
}
PLANTED = [(kind, mutant) for kind, mutants in MUTANTS.items() for mutant in mutants]


@pytest.mark.parametrize(("kind", "mutant"), PLANTED, ids=[each.__name__ for _, each in PLANTED])
def test_a_planted_bug_is_noticed(kind: str, mutant: type[Any], tmp_path: Path) -> None:
    for seed in range(MOST_SEEDS):
        _, wrong = play(seed, tmp_path, **{kind: mutant})
        if wrong:
            print(f"seed {seed}: {wrong[0]}")
            return
    pytest.fail(f"{mutant.__name__} was not noticed in {MOST_SEEDS} seeds")


@pytest.mark.parametrize("map_class", [example.ReplicatedMap, ForgetsEarlierWrites])
def test_a_new_life_writes_after_the_one_before(map_class: type[Any], tmp_path: Path) -> None:
    """Node 0 is busy and is killed between a write and its application; it comes back, and the
    next write comes before the first is applied. Seeds alone hardly ever find that."""
    cluster = Cluster(groups={"map": range(3)})
    applications = Applications(cluster)
    maps: list[Any] = []

    async def busy(node: VirtualNode) -> None:
        shared = map_class(node, tmp_path / "map.sqlite")
        shared._group = BusyGroup(node, "map", cluster.group_id("map"))
        shared._group.pause = lambda: 0.05
        async with shared:
            maps.append(shared)
            await asyncio.Event().wait()

    async def story() -> str | None:
        applications.start(0, busy)
        await asyncio.sleep(0.1)
        killed = asyncio.ensure_future(applications.call(0, maps[0].put("key", "old")))
        await asyncio.sleep(0.01)
        applications.crash(0)
        maps[0].replica.close()
        with pytest.raises(NodeError):
            await killed
        applications.recover(0, busy)
        await asyncio.sleep(0)
        await applications.call(0, maps[1].put("key", "new"))
        value: str | None = await applications.call(0, maps[1].get("key"))
        return value

    expected = "new" if map_class is example.ReplicatedMap else "old"
    assert applications.run(story()) == expected
