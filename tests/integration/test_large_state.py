"""What grows with a node's state or the size of the cluster still reaches the others."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from loopback_nodes import Neighbourhood, links, take, until
from test_joining_nodes import Comers, run_with

from causalcast.core.ids import ANY_LINK, GroupId, MessageId, NodeId, message_id
from causalcast.core.message import Publication
from causalcast.errors import WireError
from causalcast.parts.broadcast.reliable_sending import Have
from causalcast.protocols.naive_flood import Copy
from causalcast.runtime.links import links as tcp
from causalcast.runtime.links.greeting import LIMIT, differences
from causalcast.runtime.security.revocations import MOST_BYTES
from causalcast.wire.framing import LONGEST_MESSAGE, frame


@pytest.mark.parametrize("setup", ["vector", "safe_path"])
@pytest.mark.parametrize("protocol", ["cptcast", "prc_broadcast"])
def test_a_newcomer_gets_a_log_larger_than_a_frame(
    tmp_path: Path, protocol: str, setup: str
) -> None:
    comers = Comers(tmp_path, f'{protocol}"\nlink_setup = "{setup}')

    async def story() -> None:
        one = await comers.come(1)
        for number in range(4):
            await one.group("all").publish(bytes([number]) * 1_000_000)
        two = await comers.come(2)
        await comers.all_take_part()
        await one.group("all").publish(b"after all that")
        assert await take(two.group("all"), 1) == [b"after all that"]
        trouble = [node.status()["trouble"] for node in (one, two)]
        assert not any("bad_frames" in counts for counts in trouble)

    run_with(comers, story)


def test_any_message_of_a_protocol_may_be_longer_than_a_frame(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 2)

    async def story() -> None:
        async with town.running() as (one, two):
            host = one._running()
            ids = [MessageId(message_id(NodeId(2), number)) for number in range(1, 400_000)]
            data = host.wire.codec.encode(Have({}, ids, False, False))
            assert len(data) > host.wire.codec.max_frame
            host.links.send(NodeId(2), data, ANY_LINK)
            host.links.flush()
            await one.group("all").publish(b"behind it")
            assert await take(two.group("all"), 1) == [b"behind it"]
            assert [node.status()["trouble"] for node in (one, two)] == [{}, {}]

    asyncio.run(story())


def test_what_is_too_long_for_anything_is_told_and_ends_no_link(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 2)

    async def story() -> None:
        async with town.running() as (one, two):
            host = one._running()
            host.links.send(NodeId(2), bytes(LONGEST_MESSAGE.value + 1), ANY_LINK)
            host.links.flush()
            await one.group("all").publish(b"behind it")
            assert await take(two.group("all"), 1) == [b"behind it"]
            assert one.status()["trouble"] == {"too_long": 1}

    asyncio.run(story())


def test_a_greeting_fits_however_many_nodes_there_are(tmp_path: Path) -> None:
    """With a list of revocations as long as it may be, which travels in it."""
    groups = "\n".join(f"group-with-a-name-{number} = '*'" for number in range(30))
    town = Neighbourhood(tmp_path, 300, groups=groups)

    async def story() -> None:
        async with town.node(1) as one, town.node(2) as two:
            await until(lambda: links(one) == [2] and links(two) == [1])
            greeting = one._running().links.greeting
            full = msgspec.structs.replace(greeting, revoked=bytes(MOST_BYTES.value))
            assert len(full.encode()) < LIMIT.value

    asyncio.run(story())


def test_nodes_that_accept_bodies_of_different_sizes_refuse_each_other(tmp_path: Path) -> None:
    """What one may publish the other would refuse, again on every new link."""
    small = Neighbourhood(tmp_path, 2, more="[limits]\nbody_bytes = 1000")
    town = Neighbourhood(tmp_path, 2)
    small.ports = town.ports

    async def story() -> None:
        async with town.node(1) as one, small.node(2):
            await until(lambda: one.status()["trouble"].get("refused_greetings", 0) > 0)
            assert links(one) == []
            mine, theirs = (
                msgspec.structs.replace(one._running().links.greeting, facts=config.facts())
                for config in (town.config(1), small.config(2))
            )
            theirs = msgspec.structs.replace(theirs, digest="other", node=2)
            assert differences(mine, theirs) == ["body_bytes 1048576 here, 1000 there"]

    asyncio.run(story())


def test_a_link_that_is_lost_at_once_is_dialled_less_and_less_often(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 2)

    async def story() -> None:
        async with town.node(1) as one, town.node(2) as two:
            refusing, dialling = one._running(), two._running()

            def refuse(link: object, frames: object) -> None:
                raise WireError("nothing suits me")

            refusing._listener.frames_came = refuse  # type: ignore[method-assign]
            await until(
                lambda: dialling.links._pauses.get(NodeId(1), 0) >= 4 * tcp.FIRST_PAUSE.value
            )

    asyncio.run(story())


def test_whoever_sends_is_alive_before_its_message_is_whole(tmp_path: Path) -> None:
    """On a slow link a large message takes longer than a detector waits for beats."""
    town = Neighbourhood(tmp_path, 2, "naive_flood")

    async def story() -> None:
        one = town.node(1)
        await one.start()
        host = one._running()
        heard: list[NodeId] = []
        host._listener.heard = heard.append  # type: ignore[method-assign]
        _, writer = await asyncio.open_connection("127.0.0.1", town.ports[1])
        hello = msgspec.structs.replace(
            host.links.greeting, node=2, start=1, link=2 << 32 | 1, wanted=1
        )
        writer.write(frame(hello.encode()))
        await until(lambda: links(one) == [2])
        large = frame(
            host.wire.codec.encode(
                Copy(Publication(message_id(NodeId(2), 1), GroupId(0), bytes(100_000)))
            )
        )
        for place in range(40):
            writer.write(large[place : place + 1])
            await writer.drain()
            await asyncio.sleep(0.02)
        assert len(heard) >= 2
        assert one.status()["delivered"] == {}
        writer.write(large[40:])
        await until(lambda: one.status()["delivered"] == {"all": 1})
        writer.close()
        await one.stop()

    asyncio.run(story())
