"""Strangers and broken peers send nonsense: it is counted, their link is closed, work goes on."""

import asyncio
import os
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
from loopback_nodes import Neighbourhood, take, until

from causalcast import Node
from causalcast.runtime.links.greeting import MAGIC, Greeting, read_greeting

Attack = Callable[[asyncio.StreamReader, asyncio.StreamWriter, Node], Awaitable[None]]


def framed(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


async def garbage(_: asyncio.StreamReader, writer: asyncio.StreamWriter, __: Node) -> None:
    writer.write(os.urandom(3000))


async def http(_: asyncio.StreamReader, writer: asyncio.StreamWriter, __: Node) -> None:
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")


async def huge_length(_: asyncio.StreamReader, writer: asyncio.StreamWriter, __: Node) -> None:
    writer.write(struct.pack(">I", (1 << 32) - 1))


async def wrong_magic(_: asyncio.StreamReader, writer: asyncio.StreamWriter, __: Node) -> None:
    writer.write(framed(b"CAUSALC9" + b"\x90"))


async def unreadable_greeting(
    _: asyncio.StreamReader, writer: asyncio.StreamWriter, __: Node
) -> None:
    writer.write(framed(MAGIC + b"\xc1\xc1\xc1"))


async def bad_frame_after_greeting(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, node: Node
) -> None:
    """Greets as node 9 in good order, and then sends what is no message."""
    await _greet(reader, writer, node)
    writer.write(framed(b"\xc1 no message"))


async def long_frame_after_greeting(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, node: Node
) -> None:
    await _greet(reader, writer, node)
    writer.write(struct.pack(">I", 1 << 30))


async def _greet(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, node: Node
) -> Greeting:
    mine = node._running().links.greeting
    hello = msgspec.structs.replace(mine, node=9, start=1, link=9 << 32 | 1, wanted=mine.node)
    writer.write(framed(hello.encode()))
    (length,) = struct.unpack(">I", await reader.readexactly(4))
    answer = read_greeting(await reader.readexactly(length))
    assert answer.refusal == ""
    return answer


@pytest.mark.parametrize(
    ("attack", "counted"),
    [
        (garbage, "bad_greetings"),
        (http, "bad_greetings"),
        (huge_length, "bad_greetings"),
        (wrong_magic, "bad_greetings"),
        (unreadable_greeting, "bad_greetings"),
        (bad_frame_after_greeting, "bad_frames"),
        (long_frame_after_greeting, "bad_frames"),
    ],
)
def test_nonsense_is_counted_and_stops_nobody(tmp_path: Path, attack: Attack, counted: str) -> None:
    town = Neighbourhood(tmp_path, 2)

    async def story() -> None:
        async with town.running() as (one, two):
            reader, writer = await asyncio.open_connection("127.0.0.1", town.ports[1])
            await attack(reader, writer, one)
            await until(lambda: one.status()["trouble"].get(counted, 0) == 1)
            async with asyncio.timeout(5):
                try:
                    while await reader.read(1000):
                        pass
                except ConnectionError:
                    pass  # hung up on, as it should be
            writer.close()
            await two.group("all").publish(b"still here")
            assert await take(one.group("all"), 1) == [b"still here"]
            assert one.status()["links"] == [2]

    asyncio.run(story())


def test_a_truncated_greeting_holds_nobody_up(tmp_path: Path) -> None:
    """Half a greeting, then silence, then the end; many of them at once."""
    town = Neighbourhood(tmp_path, 2)

    async def story() -> None:
        async with town.running() as (one, two):
            greeting = framed(one._running().links.greeting.encode())
            writers = []
            for length in range(0, len(greeting), 7):
                _, writer = await asyncio.open_connection("127.0.0.1", town.ports[1])
                writer.write(greeting[:length])
                writers.append(writer)
            await two.group("all").publish(b"meanwhile")
            assert await take(one.group("all"), 1) == [b"meanwhile"]
            for writer in writers:
                writer.close()
            await until(lambda: len(one._running().links._connections) == 1)
            assert one.status()["links"] == [2]

    asyncio.run(story())


def test_a_stranger_cannot_speak_for_a_neighbour_of_another_cluster(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 2)

    async def story() -> None:
        async with town.running() as (one, _):
            mine = one._running().links.greeting
            for changed, reason in (
                ({"cluster": "other"}, "cluster 'test' here, 'other' there"),
                ({"wire_version": 99}, "wire version 5 here, 99 there"),
                ({"node": 1}, "both are node 1"),
                ({"wanted": 2}, "you want node 2, this is node 1"),
                ({"link": 2 << 32 | 1}, "was not dialled by node 9"),
                ({"address": "nowhere"}, "'nowhere' is no address"),
            ):
                usual = {"node": 9, "start": 1, "link": 9 << 32 | 1, "wanted": 1}
                hello = msgspec.structs.replace(mine, **{**usual, **changed})
                reader, writer = await asyncio.open_connection("127.0.0.1", town.ports[1])
                writer.write(framed(hello.encode()))
                (length,) = struct.unpack(">I", await reader.readexactly(4))
                answer = read_greeting(await reader.readexactly(length))
                assert reason in answer.refusal
                assert await reader.read() == b""
                writer.close()
            assert one.status()["trouble"]["refused_greetings"] == 6

    asyncio.run(story())
