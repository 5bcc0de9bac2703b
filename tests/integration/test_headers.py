"""What an application says of a message travels with it, over links, disks and doors."""

import asyncio
from pathlib import Path

import pytest
from door_nodes import Doors
from loopback_nodes import Neighbourhood, until

from causalcast import connect_sync
from causalcast.errors import NodeError
from causalcast.runtime.metadata import MARK, METADATA_BYTES
from causalcast.runtime.sync_node import SyncNode

HEADERS = {"traceparent": "00-1-2-01", "kind": "größer"}


def test_they_arrive_at_others_also_after_a_restart_and_signed(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 2, tls=True, more="sign = true\n[limits]\ninbox_bytes = 1")

    async def story() -> None:
        async with town.node(1) as one, town.node(2) as two:
            sent = one.group("all")
            await sent.publish(b'{"a": 1}', HEADERS, "application/json")
            await sent.publish(b"plain")
            await sent.publish(b"ends so" + MARK, content_type="text/plain")
            await until(lambda: two.status()["delivered"] == {"all": 3})
        async with town.node(2) as two:
            first, second, third = [await two.group("all").receive(timeout=10) for _ in range(3)]
        assert first is not None and second is not None and third is not None
        assert (first.payload, first.headers) == (b'{"a": 1}', HEADERS)
        assert first.content_type == "application/json" and first.published_at is not None
        assert (second.payload, second.headers, second.content_type) == (b"plain", {}, "")
        assert (third.payload, third.headers) == (b"ends so" + MARK, {})
        assert third.content_type == "text/plain"

    asyncio.run(story())


def test_they_are_small_texts_and_what_is_not_is_refused_before_it_counts(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 1)

    async def story() -> None:
        async with town.node(1) as node:
            group = node.group("all")
            with pytest.raises(NodeError, match="take 4116 bytes; at most 4096 travel"):
                await group.publish(b"", {"much": "x" * (METADATA_BYTES.value)})
            with pytest.raises(NodeError, match="are text, not int"):
                await group.publish(b"", {"count": 1})  # type: ignore[dict-item]
            with pytest.raises(NodeError, match="UTF-8"):
                await group.publish(b"", {"half": "\ud800"})
            assert (await group.publish(b"first")).id & 0xFF == 1
            room = METADATA_BYTES.value - 32
            await group.publish(b"x" * node.config.limits.body_bytes, {"much": "x" * room})
            found = [await group.receive(timeout=10) for _ in range(2)]
            assert found[1] is not None and len(found[1].headers["much"]) == room

    asyncio.run(story())


def test_threads_have_them_too(tmp_path: Path) -> None:
    with SyncNode(Neighbourhood(tmp_path, 1).config(1)) as node:
        group = node.group("all")
        group.publish(b"x", HEADERS, "text/plain")
        message = group.receive(timeout=10)
        assert message is not None and message.headers == HEADERS
        assert message.content_type == "text/plain" and message.published_at is not None


def test_clients_in_threads_say_and_hear_them(tmp_path: Path) -> None:
    def client(url: str) -> None:
        with connect_sync(url) as node, node.group("all") as group:
            first = group.publish(b"x", HEADERS, "text/plain", key="k")
            assert group.publish(b"x", HEADERS, "text/plain", key="k").id == first.id
            with pytest.raises(NodeError, match="was used for another"):
                group.publish(b"x", {"other": "1"}, key="k")
            message = group.receive(10)
            assert message is not None and message.headers == HEADERS
            assert message.content_type == "text/plain" and message.published_at is not None

    async def story() -> None:
        doors = Doors(tmp_path, 1)
        async with asyncio.timeout(60), doors.running():
            await asyncio.to_thread(client, doors.url(1))

    asyncio.run(story())
