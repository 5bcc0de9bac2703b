"""A disk that went back in time is noticed: by the neighbours, by the node, and told."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from loopback_nodes import Neighbourhood, links, take, until

from causalcast import Node
from causalcast.errors import ConfigError, JournalError, NodeError
from causalcast.parts.broadcast.stamped_broadcast import broadcast_of
from causalcast.protocols.causal_barriers import CausalBarriers
from causalcast.protocols.cbcast.protocol import Cbcast
from causalcast.runtime.lives import Known, Life, PastLife, went_back

PROTOCOLS = pytest.mark.parametrize("protocol", ["vector_clock_broadcast", "cbcast", "locamu"])


def a_town(folder: Path, protocol: str, nodes: int = 2, more: str = "") -> Neighbourhood:
    overlay = 'kind = "line"' if protocol == "locamu" else 'kind = "full_mesh"'
    return Neighbourhood(folder, nodes, protocol, overlay, level="none", more=more)


def data(town: Neighbourhood, node: int) -> Path:
    return town.folder / f"node-{node}" / "data"


async def publish(node: Node, *bodies: bytes) -> None:
    for body in bodies:
        await node.group("all").publish(body)


def keep_a_copy(town: Neighbourhood) -> None:
    shutil.copytree(data(town, 1), town.folder / "copy")


def put_the_copy_back(town: Neighbourhood) -> None:
    shutil.rmtree(data(town, 1))
    shutil.copytree(town.folder / "copy", data(town, 1))


def lose_everything(town: Neighbourhood) -> None:
    shutil.rmtree(data(town, 1))


def cut_the_end_off(town: Neighbourhood) -> None:
    """As a disk does that said it had written what it had not."""
    journal = data(town, 1) / "journal"
    content = journal.read_bytes()
    place = content.index(b"after the copy")  # its entry and all that follow are gone
    journal.write_bytes(content[:place])


def nothing_is_kept(node: Node) -> bool:
    """Whether all that a node sent was acknowledged."""
    multicast = node._running().parts.stack.multicast
    if isinstance(multicast, Cbcast | CausalBarriers):
        return multicast.sending.links.kept() == 0
    return broadcast_of(multicast).sending.kept() == 0


WAYS_BACK = pytest.mark.parametrize(
    "go_back", [put_the_copy_back, lose_everything, cut_the_end_off]
)


async def live_and_go_back(
    town: Neighbourhood, two: Node, go_back: Callable[[Neighbourhood], None]
) -> None:
    """Node 1 publishes, a copy is made, it publishes more, and its disk goes back."""
    async with town.node(1) as one:
        await publish(one, b"before")
        assert await take(two.group("all"), 1) == [b"before"]
    keep_a_copy(town)
    async with town.node(1) as one:
        await publish(one, b"after the copy", b"and more", b"and the last")
        assert len(await take(two.group("all"), 3)) == 3
    go_back(town)


async def is_told(one: Node, two: Node) -> None:
    """Both ends refuse the link and say why, and nothing can be published."""
    await until(lambda: two.status()["trouble"].get("older_storage", 0) > 0)
    await until(lambda: one.status()["trouble"].get("own_storage_is_older", 0) > 0)
    assert links(one) == links(two) == []
    assert one.status()["notes"]["own_storage_is_older"] == 1
    assert two.status()["notes"]["older_storage"] == 1
    with pytest.raises(NodeError, match="node 2 knows more of this node than its storage does"):
        await publish(one, b"nobody would see it")


@PROTOCOLS
@WAYS_BACK
def test_neighbours_notice_a_disk_that_went_back(
    tmp_path: Path, protocol: str, go_back: Callable[[Neighbourhood], None]
) -> None:
    town = a_town(tmp_path, protocol)

    async def story() -> None:
        async with town.node(2) as two:
            await live_and_go_back(town, two, go_back)
            async with town.node(1) as one:
                await is_told(one, two)

    asyncio.run(story())


@PROTOCOLS
@WAYS_BACK
def test_they_notice_after_a_crash_of_their_own(
    tmp_path: Path, protocol: str, go_back: Callable[[Neighbourhood], None]
) -> None:
    """… and although the node has used up as many numbers as it lost, before it met anybody."""
    town = a_town(tmp_path, protocol)

    async def story() -> None:
        two = town.node(2)
        await two.start()
        await live_and_go_back(town, two, go_back)
        two._running().fail(RuntimeError("a crash"), "a test")
        async with town.node(1) as one:
            await publish(one, b"again", b"and again", b"and again", b"and again", b"and again")
        async with town.node(1) as one, town.node(2) as two:
            await is_told(one, two)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("protocol", "note"),
    [
        ("vector_clock_broadcast", "reliable_sending.cannot_bring"),
        ("psync", "reliable_sending.cannot_bring"),
        ("cbcast", "reliable_links.forgot"),
        ("causal_barriers", "reliable_links.forgot"),
    ],
)
def test_who_forgot_what_it_had_taken_does_not_wait_without_a_word(
    tmp_path: Path, protocol: str, note: str
) -> None:
    """It has published nothing, so its numbers do not tell; its acknowledgements do."""
    town = a_town(tmp_path, protocol)

    async def story() -> None:
        async with town.node(2) as two:
            async with town.node(1) as one:
                await until(lambda: links(one) == [2])
                await publish(two, b"before", b"after the copy", b"and more")
                assert len(await take(one.group("all"), 3)) == 3
                await take(two.group("all"), 3)
                await until(lambda: nothing_is_kept(two))
            cut_the_end_off(town)
            async with town.node(1):
                await until(lambda: two.status()["notes"].get(note, 0) == 1)
                told = [event.name for event in two._running().observed.events.since(0)]
                assert note in told

    asyncio.run(story())


@PROTOCOLS
def test_honest_restarts_are_believed(tmp_path: Path, protocol: str) -> None:
    """In every order, also after crashes in which numbers were lost that nobody saw."""
    town = a_town(tmp_path, protocol)

    async def story() -> None:
        two = town.node(2)
        await two.start()
        for life in range(4):
            one = town.node(1)
            await one.start()
            await until(lambda: links(one) == [2])  # noqa: B023 - at once
            await publish(one, b"%d" % life)
            while await take(two.group("all"), 1) != [b"%d" % life]:
                pass  # what a crash before it left unacknowledged comes again
            # Given out, never durable, seen by nobody.
            one._running().parts.publishing.published += 5
            one._running().fail(RuntimeError("a crash"), "a test")
            if life % 2:
                two._running().fail(RuntimeError("a crash"), "a test")
                two = town.node(2)
                await two.start()
        assert two.status()["trouble"].get("older_storage", 0) == 0
        await two.stop()

    asyncio.run(story())


def test_the_trace_knows_of_entries_that_the_journal_lacks(tmp_path: Path) -> None:
    """Then nobody else is needed to notice."""
    town = Neighbourhood(tmp_path, 2)

    async def story() -> None:
        async with town.node(2) as two:
            await live_and_go_back(town, two, cut_the_end_off)
            with pytest.raises(NodeError, match=r"knows entry \d+ of the journal, which ends with"):
                await town.node(1).start()
            lose_everything(town)
            with pytest.raises(NodeError, match=r"knows entry \d+ of the journal, which ends with"):
                await town.node(1).start()

    asyncio.run(story())


@PROTOCOLS
def test_a_node_that_is_added_after_a_compaction_is_refused(tmp_path: Path, protocol: str) -> None:
    """It could never get what all others had by then, and would wait for it without a word."""
    small = "[limits]\ncompact_bytes = 4096"
    town = a_town(tmp_path, protocol, more=small)

    async def story() -> None:
        async with town.node(1) as one, town.node(2) as two:
            for number in range(100):
                await publish(one, b"%d" % number * 20)
            await take(two.group("all"), 100)
            await take(one.group("all"), 100)
            await until(lambda: (data(town, 1) / "journal").read_bytes()[7:8] == b"c")
        larger = a_town(tmp_path, protocol, 3, more=small)
        with pytest.raises(ConfigError, match=r"node 3 is new in cluster.peers"):
            await larger.node(1).start()
        async with town.node(1):
            pass  # as it was

    asyncio.run(story())


def test_a_journal_of_another_version_is_named(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 2)
    data(town, 1).mkdir(parents=True)
    (data(town, 1) / "journal").write_bytes(b"CCJRNL2\n")

    async def story() -> None:
        with pytest.raises(JournalError, match=r"a journal of format 2, and this version .* 4"):
            await town.node(1).start()

    asyncio.run(story())


NOW = Life(incarnation=7, start=5, life=55, past=[PastLife(44, 8), PastLife(33, 3)], began=10)


@pytest.mark.parametrize(
    ("known", "noticed"),
    [
        (None, ""),
        (Known(7, 5, 55, 99), ""),  # the same life, which goes on publishing
        (Known(7, 4, 44, 10), ""),
        (Known(7, 3, 33, 8), ""),
        (Known(7, 3, 33, 9), "number 9 is known"),  # used up again, in the life that followed
        (Known(7, 1, 11, 10), ""),  # too long ago to tell lives
        (Known(0, 9, 99, 99), ""),  # kept nothing
        (Known(8, 5, 55, 10), "not the one"),
        (Known(7, 6, 66, 10), "start 6 is known"),
        (Known(7, 5, 56, 10), "another life"),
        (Known(7, 4, 45, 10), "another life"),
        (Known(7, 4, 44, 11), "number 11 is known"),
        (Known(7, 1, 11, 11), "number 11 is known"),
    ],
)
def test_what_counts_as_older(known: Known | None, noticed: str) -> None:
    reason = went_back(NOW, known)
    assert noticed in reason
    assert bool(noticed) == bool(reason)
