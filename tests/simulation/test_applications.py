"""Applications under virtual time: they are handed what real nodes hand over, and die like them."""

import asyncio

import pytest

from causalcast.errors import NodeError
from causalcast.testing import Applications, Cluster, VirtualNode


def test_what_was_not_acknowledged_comes_again() -> None:
    """The first life acknowledges one of three messages well before it is killed."""
    cluster = Cluster(nodes=2, loss=0.2, seed=3)
    applications = Applications(cluster)
    lives: list[list[bytes]] = []
    cleaned_up: list[str] = []

    async def reader(node: VirtualNode) -> None:
        seen: list[bytes] = []
        lives.append(seen)
        try:
            async with node.group("all") as group:
                async for message in group:
                    assert (message.origin, message.number) == (0, len(seen) + len(lives))
                    seen.append(message.payload)
                    if message.payload == b"1":
                        await message.ack()
        finally:
            cleaned_up.append("finally")

    async def writer(node: VirtualNode) -> None:
        for text in (b"1", b"2", b"3"):
            await node.group("all").publish(text)

    async def story() -> None:
        applications.start(1, reader)
        applications.start(0, writer)
        await asyncio.sleep(10)
        applications.crash(1)
        await asyncio.sleep(1)
        assert cleaned_up == []  # a killed process runs no `finally`
        applications.recover(1, reader)
        await asyncio.sleep(10)
        assert applications.nodes[1].status()["delivered"] == {"all": 3}
        assert applications.nodes[0].status()["published"] == {"all": 3}

    applications.run(story())
    assert lives == [[b"1", b"2", b"3"], [b"2", b"3"]]
    assert cleaned_up == ["finally", "finally"]  # when the test is over


def test_a_fresh_acknowledgement_may_be_lost() -> None:
    """Over some seeds both happens: it reached the disk, or it did not."""
    handed_over = set()
    for seed in range(10):
        cluster = Cluster(nodes=1)
        applications = Applications(cluster, seed)
        count = 0

        async def reader(node: VirtualNode) -> None:
            nonlocal count
            async for message in node.group("all"):
                count += 1
                await message.ack()

        async def story(applications: Applications = applications) -> None:
            node = applications.start(0, reader)
            await node.group("all").publish(b"x")
            await asyncio.sleep(0.001)
            applications.crash(0)
            applications.recover(0, reader)
            await asyncio.sleep(1)

        applications.run(story())
        handed_over.add(count)
    assert handed_over == {1, 2}


def test_publish_returns_when_the_disk_has_it() -> None:
    cluster = Cluster(nodes=1, sync_ms=30)
    applications = Applications(cluster)

    async def idle(node: VirtualNode) -> None:
        await asyncio.Event().wait()

    async def story() -> float:
        node = applications.start(0, idle)
        await asyncio.sleep(1)
        began = asyncio.get_running_loop().time()
        await node.group("all").publish(b"x")
        return asyncio.get_running_loop().time() - began

    assert applications.run(story()) == pytest.approx(0.03)


def test_a_request_to_a_node_that_is_killed_fails() -> None:
    cluster = Cluster(nodes=1)
    applications = Applications(cluster)

    async def idle(node: VirtualNode) -> None:
        await asyncio.Event().wait()

    async def story() -> None:
        applications.start(0, idle)
        asking = asyncio.ensure_future(applications.call(0, asyncio.sleep(5)))
        await asyncio.sleep(1)
        applications.crash(0)
        with pytest.raises(NodeError, match="node 0 was killed"):
            await asking

    applications.run(story())


def test_an_application_that_fails_fails_the_test() -> None:
    applications = Applications(Cluster(nodes=1))

    async def broken(node: VirtualNode) -> None:
        await asyncio.sleep(3)
        raise ValueError("a bug")

    async def story() -> None:
        applications.start(0, broken)
        await asyncio.sleep(60)

    with pytest.raises(ValueError, match="a bug"):
        applications.run(story())


def test_a_story_that_waits_for_nothing_is_told_so() -> None:
    applications = Applications(Cluster(nodes=1))

    async def story() -> None:
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="nothing is under way"):
        applications.run(story())


def test_a_late_member_joins_and_leaves() -> None:
    cluster = Cluster(nodes=3, groups={"some": [0, 1], "rest": [2]})
    applications = Applications(cluster)
    seen: list[bytes] = []

    async def guest(node: VirtualNode) -> None:
        async with node.group("some") as group:
            async for message in group:
                seen.append(message.payload)
                if message.payload == b"bye":
                    return

    async def story() -> None:
        applications.start(2, guest)
        await asyncio.sleep(1)
        cluster.publish(0, b"hello", "some")
        cluster.publish(0, b"bye", "some")
        await asyncio.sleep(1)
        cluster.publish(0, b"still there?", "some")
        await asyncio.sleep(1)
        assert cluster.groups_of(2) == [cluster.group_id("rest")]
        with pytest.raises(NodeError, match="no group 'none'"):
            applications.nodes[2].group("none")
        with pytest.raises(NodeError, match="keeps nothing for late members"):
            applications.nodes[2].group("some", since="kept")

    applications.run(story())
    assert seen == [b"hello", b"bye"]


def test_readers_are_as_on_real_nodes() -> None:
    """One at a time; a timeout is virtual; the first word about a message counts."""
    applications = Applications(Cluster(nodes=1))

    async def application(node: VirtualNode) -> None:
        await asyncio.sleep(3600)

    async def story() -> None:
        node = applications.start(0, application)
        group = node.group("all")
        assert await group.receive(timeout=0) is None
        assert await group.receive(timeout=60) is None
        waiting = asyncio.ensure_future(anext(group))
        await asyncio.sleep(1)
        with pytest.raises(NodeError, match="is read already"):
            await group.receive()
        await group.publish(b"one")
        message = await waiting
        message.give_back()
        message.give_back()
        again = await group.receive(timeout=0)
        assert again is not None and again.payload == b"one"
        assert await group.receive(timeout=0) is None

    applications.run(story())


def test_many_at_once_as_at_real_nodes() -> None:
    applications = Applications(Cluster(nodes=2))
    taken: list[bytes] = []

    async def writer(node: VirtualNode) -> None:
        receipts = await node.group("all").publish_many([b"1", b"2", b"3"])
        assert [receipt.id & 0xFFFF for receipt in receipts] == [1, 2, 3]

    async def reader(node: VirtualNode) -> None:
        group = node.group("all")
        while True:
            messages = await group.receive_many(most=2)
            assert len(messages) <= 2
            taken.extend(message.payload for message in messages)
            await group.ack_many(messages, durable=True)

    async def story() -> None:
        applications.start(0, writer)
        await asyncio.sleep(5)
        applications.start(1, reader)
        await asyncio.sleep(5)
        applications.crash(1)
        applications.recover(1, reader)
        await asyncio.sleep(5)

    applications.run(story())
    assert taken == [b"1", b"2", b"3"]
