"""Clients make groups, read them, and remove them, as far as their tokens allow."""

import asyncio
import datetime
from pathlib import Path

import pytest
from door_nodes import Doors
from loopback_nodes import PATIENCE, until

from causalcast import connect, connect_sync
from causalcast.errors import GroupRefused, NodeError
from causalcast.runtime.security.client_token import make_client_token

EVERYWHERE = 'all = "*"\n"doc/*" = "*"'
HOUR = datetime.timedelta(hours=1)


def test_a_client_makes_a_group_that_others_read_elsewhere(tmp_path: Path) -> None:
    """Over restarts of the nodes, and until somebody removes it."""
    doors = Doors(tmp_path, 2, groups=EVERYWHERE)

    async def first() -> dict[str, object]:
        async with doors.running() as (_, two), connect(doors.url(1), name="Ada") as ada:
            doc = await ada.create_group("doc/42")
            await ada.create_group("doc/42")
            await doc.publish(b"hello")
            await until(lambda: two.status()["delivered"].get("doc/42") == 1)
            async with connect(doors.url(2), name="Bob") as bob:
                assert (await bob.groups())["subscribe"] == ["all", "doc/42"]
                async with bob.group("doc/42", since="kept") as read:
                    message = await read.receive(timeout=PATIENCE)
                    assert message is not None and message.payload == b"hello"
                    await message.ack()
                    await doc.publish(b"more")
                    again = await read.receive(timeout=PATIENCE)
                    assert again is not None and again.payload == b"more"
                return bob.position()

    async def second(position: dict[str, object]) -> None:
        async with (
            doors.running() as nodes,
            connect(doors.url(1), name="Bob", position=position) as bob,
        ):
            async with bob.group("doc/42") as read:
                message = await read.receive(timeout=PATIENCE)
                assert message is not None and message.payload == b"more"
                await message.ack()
            await bob.remove_group("doc/42")
            await until(lambda: all(node.groups() == ["all"] for node in nodes))
            assert (await bob.groups())["publish"] == ["all"]
            with pytest.raises(NodeError, match="no group 'doc/42'"):
                await bob.group("doc/42").publish(b"too late")
            # What it has seen there keeps it out of no node.
            async with connect(doors.url(2), position=bob.position()) as moved:
                await moved.group("all").publish(b"here")

    async def both() -> None:
        await second(await first())

    asyncio.run(asyncio.wait_for(both(), 2 * PATIENCE))


def test_who_has_seen_a_group_waits_until_its_news_are_there(tmp_path: Path) -> None:
    """A client that moves faster than the news is not told that there is no such group."""
    doors = Doors(tmp_path, 2, groups=EVERYWHERE)

    async def tell() -> None:
        async with doors.node(1), connect(doors.url(1)) as ada:
            await (await ada.create_group("doc/1")).publish(b"a")
            past = ada.position()["past"]

        async def come() -> None:
            async with doors.plain(2, past=past) as moved:
                answer = await moved.ask(do="groups", id=1)
                assert "doc/1" in answer["publish"]

        async with doors.node(2):
            coming = asyncio.create_task(come())
            await asyncio.sleep(0.2)
            assert not coming.done()
            async with doors.node(1):
                await coming

    asyncio.run(asyncio.wait_for(tell(), PATIENCE))


def test_tokens_say_who_may(tmp_path: Path) -> None:
    doors = Doors(tmp_path, 1, groups=EVERYWHERE, tls=True)
    assert doors.authority is not None
    everything = ["*"]
    maker = make_client_token(doors.authority, "maker", everything, everything, HOUR, ["doc/*"])
    other = make_client_token(doors.authority, "other", everything, everything, HOUR)

    async def tell() -> None:
        async with doors.running():  # noqa: SIM117 - three are too long for a line
            async with (
                connect(doors.url(1), maker) as allowed,
                connect(doors.url(1), other) as not_allowed,
            ):
                with pytest.raises(NodeError, match="does not allow to make 'doc/1'"):
                    await not_allowed.create_group("doc/1")
                with pytest.raises(NodeError, match="does not allow to make 'other'"):
                    await allowed.create_group("other")
                await allowed.create_group("doc/1")
                await not_allowed.group("doc/1").publish(b"fine")
                with pytest.raises(NodeError, match="does not allow to remove 'doc/1'"):
                    await not_allowed.remove_group("doc/1")
                with pytest.raises(NodeError, match="no name of a group"):
                    await allowed.create_group("doc/" + "x" * 300)
                await allowed.remove_group("doc/1")

    asyncio.run(asyncio.wait_for(tell(), PATIENCE))


@pytest.mark.parametrize(("served", "is_served"), [("all", False), ("doc/*", True)])
def test_a_door_serves_what_its_file_says(tmp_path: Path, served: str, is_served: bool) -> None:
    doors = Doors(tmp_path, 1, f'groups = ["{served}"]', groups=EVERYWHERE)

    async def tell() -> None:
        async with doors.running() as (node,), connect(doors.url(1)) as client:
            await node.create_group("doc/1")
            await node.create_group("other")
            expected = ["doc/1"] if is_served else ["all"]
            assert (await client.groups())["publish"] == expected
            if is_served:
                with pytest.raises(NodeError, match="not one of this door"):
                    await client.create_group("third")

    asyncio.run(asyncio.wait_for(tell(), PATIENCE))


def test_threads_make_groups(tmp_path: Path) -> None:
    doors = Doors(tmp_path, 1, groups=EVERYWHERE)

    def client() -> None:
        with connect_sync(doors.url(1)) as node, node.create_group("doc/1") as doc:
            doc.publish(b"a")
            message = doc.receive(timeout=PATIENCE)
            assert message is not None and message.payload == b"a"
            node.remove_group("doc/1")

    async def tell() -> None:
        async with doors.running():
            await asyncio.wait_for(asyncio.to_thread(client), PATIENCE)

    asyncio.run(tell())


def test_a_group_that_was_removed_ends_its_reading_alone(tmp_path: Path) -> None:
    """A client that comes back goes on in its other groups; before, all of them ended."""
    doors = Doors(tmp_path, 1, groups=EVERYWHERE)

    async def tell() -> None:
        async with doors.running() as (node,), connect(doors.url(1)) as ada:
            doc = await ada.create_group("doc/1")
            async with ada.group("all") as others, doc:
                await node.remove_group("doc/1")
                ada.cut()
                await ada.group("all").publish(b"on")
                message = await others.receive(timeout=PATIENCE)
                assert message is not None and message.payload == b"on"
                with pytest.raises(GroupRefused, match="no group 'doc/1'"):
                    await doc.receive(timeout=PATIENCE)

    asyncio.run(asyncio.wait_for(tell(), PATIENCE))


def test_a_removal_may_be_asked_for_again(tmp_path: Path) -> None:
    """As a client does that lost the answer."""
    doors = Doors(tmp_path, 1, groups=EVERYWHERE)

    async def tell() -> None:
        async with doors.running(), connect(doors.url(1)) as ada:
            await ada.create_group("doc/1")
            await ada.remove_group("doc/1")
            await ada.remove_group("doc/1")
            with pytest.raises(NodeError, match="no group 'doc/2' that was made"):
                await ada.remove_group("doc/2")

    asyncio.run(asyncio.wait_for(tell(), PATIENCE))


def test_what_a_removed_group_had_is_nobodys(tmp_path: Path) -> None:
    """Another group of the same name does not begin with it."""
    doors = Doors(tmp_path, 1, groups=EVERYWHERE)

    async def tell() -> None:
        async with doors.running() as (node,), connect(doors.url(1)) as ada:
            await (await ada.create_group("doc/1")).publish(b"old")
            await until(lambda: node.status()["clients"]["kept_messages"] == 1)
            await ada.remove_group("doc/1")
            assert node.status()["clients"]["kept_messages"] == 0
            assert node.status()["clients"]["kept_bytes"] == 0
            await ada.create_group("doc/1")
            async with ada.group("doc/1", since="kept") as doc:
                await doc.publish(b"new")
                message = await doc.receive(timeout=PATIENCE)
                assert message is not None and message.payload == b"new"

    asyncio.run(asyncio.wait_for(tell(), PATIENCE))
