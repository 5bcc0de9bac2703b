"""Clients that lie, shout, dawdle or have no right: each is let go with a reason, others go on."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from door_nodes import Doors, let_go, run
from loopback_nodes import PATIENCE, until
from websockets.exceptions import ConnectionClosed, InvalidStatus

from causalcast import connect
from causalcast.errors import NodeError
from causalcast.limits import set_to
from causalcast.runtime.security.authority import Authority
from causalcast.runtime.security.client_token import make_client_token

DAY = timedelta(days=1)


FRAMES = [
    "",
    "{}",
    "[1, 2]",
    '{"do": "hello"}',
    '{"do": "hello", "version": 1}',  # for the second time
    '{"do": "shutdown", "id": 1}',
    '{"do": "publish", "id": 1, "group": "all"}',
    '{"do": "publish", "id": 1, "group": "all", "text": "a", "base64": "YQ=="}',
    '{"do": "publish", "id": 1, "group": "all", "base64": "?"}',
    json.dumps({"do": "publish", "id": 1, "group": "all", "text": "a", "key": "k" * 65}),
    '{"do": "ack", "messages": ["1.x"]}',
    '{"do": "ack", "messages": [7]}',
    '{"do": "subscribe", "id": 1, "groups": "all"}',
    '{"do": "subscribe", "id": 1, "groups": ["all"], "seen": {"all": {"x": 1}}}',
    '{"do": "subscribe", "id": 1, "groups": ["all"], "since": "yesterday"}',
    b"",
    b"\xff\xff\xff\xff{}",
    b"\x00\x00\x00\x02{}",
    "[" * 5000,
]


def test_nonsense_ends_a_connection_and_nothing_else(tmp_path: Path) -> None:
    async def tell() -> None:
        doors = Doors(tmp_path, 1)
        async with doors.running() as (node,), connect(doors.url(1)) as good:
            for frame in FRAMES:
                async with doors.plain(1) as client:
                    await client.socket.send(frame)
                    heard = await client.hear()
                    assert (heard["id"], heard["code"]) == (0, "bad_frame"), frame
                    await client.socket.wait_closed()
                    assert client.socket.close_code == 4400
            for frame in (*FRAMES[:4], "x", '{"do": "hello", "version": 2}'):
                async with doors.dial(1) as client:
                    await client.socket.send(frame)
                    assert (await client.hear())["code"] == "bad_frame", frame
            assert let_go(node) == {"bad_frame": len(FRAMES) + 6}
            await good.group("all").publish(b"all is well")

    run(tell())


def test_what_is_too_large_is_not_read(tmp_path: Path) -> None:
    async def tell() -> None:
        doors = Doors(tmp_path, 1, more="[limits]\nbody_bytes = 1000")
        async with doors.running() as (node,):
            async with doors.dial(1) as client:  # before the token little is read
                await client.socket.send("x" * (300 << 10))
                await client.socket.wait_closed()
                assert client.socket.close_code == 1009
            async with doors.plain(1) as client:
                refused = await client.ask(do="publish", id=1, group="all", text="x" * 1001)
                assert refused["code"] == "refused" and "1000" in refused["error"]
                await client.socket.send("x" * 40_000)
                await client.socket.wait_closed()
                assert client.socket.close_code == 1009
            assert node.status()["published"] == {}
            assert let_go(node)["too_large"] >= 1

    run(tell())


def test_who_says_nothing_is_not_waited_for(tmp_path: Path) -> None:
    async def tell() -> None:
        doors = Doors(tmp_path, 1)
        with set_to({"clients.admission.hello_within": 1.0}):  # the handshake has to be made in it
            async with doors.running() as (node,), doors.dial(1) as client:
                assert (await client.hear())["code"] == "too_slow"
                reader, writer = await asyncio.open_connection("127.0.0.1", doors.doors[1])
                assert await reader.read() == b""  # no handshake either
                writer.close()
                assert let_go(node) == {"too_slow": 1}

    run(tell())


def test_who_does_not_acknowledge_keeps_a_window_and_is_let_go_behind_the_log(
    tmp_path: Path,
) -> None:
    async def tell() -> None:
        doors = Doors(tmp_path, 1, door="kept_messages = 20")
        with set_to({"clients.session.window": 3}):
            async with doors.running() as (node,), doors.plain(1) as slow:
                async with connect(doors.url(1)) as good, good.group("all") as group:
                    await slow.ask(do="subscribe", id=1, groups=["all"])
                    for number in range(30):
                        await node.group("all").publish(b"%d" % number)
                        message = await group.receive(PATIENCE)
                        assert message is not None and message.payload == b"%d" % number
                        await message.ack()
                    heard = [await slow.hear() for _ in range(4)]
                    assert [one.get("text", one.get("code")) for one in heard] == [
                        *("0", "1", "2"),
                        "too_slow",
                    ]
                assert let_go(node) == {"too_slow": 1}
                assert node.status()["clients"]["kept_messages"] == 20

    run(tell())


def test_who_does_not_read_is_let_go(tmp_path: Path) -> None:
    async def tell() -> None:
        doors = Doors(tmp_path, 1)
        limits = {
            "clients.session.sent_within": 0.2,
            "clients.session.window": 1 << 20,
            "clients.session.window_bytes": 1 << 30,
        }
        with set_to(limits):
            async with doors.running() as (node,), doors.dial(1, max_queue=1) as deaf:
                await deaf.ask(do="hello", version=1)
                await deaf.ask(do="subscribe", id=1, groups=["all"])
                deaf.socket.transport.pause_reading()
                for _ in range(200):
                    await node.group("all").publish(b"x" * 100_000)
                    if let_go(node):
                        break
                await until(lambda: let_go(node) == {"too_slow": 1})
                await until(lambda: node.status()["clients"]["connections"] == 0)
                deaf.socket.transport.abort()

    run(tell())


def test_who_asks_too_much_is_read_slowly(tmp_path: Path) -> None:
    async def tell() -> None:
        doors = Doors(tmp_path, 1)
        with set_to({"clients.session.requests_per_second": 10}):
            async with doors.running() as (node,), doors.plain(1) as client:
                began = asyncio.get_running_loop().time()
                for number in range(40):
                    await client.say(do="groups", id=number)
                for _ in range(40):
                    await client.hear()
                assert asyncio.get_running_loop().time() - began > 1.5
                assert let_go(node)["slowed_down"] >= 1

    run(tell())


def test_connections_and_subscriptions_are_counted(tmp_path: Path) -> None:
    async def tell() -> None:
        doors = Doors(tmp_path, 1, groups='all = "*"\nother = "*"')
        limits = {
            "clients.admission.connections": 3,
            "clients.admission.connections_of_one": 2,
            "clients.session.subscriptions": 1,
        }
        with set_to(limits):
            async with doors.running() as (node,), doors.plain(1, name="a") as client:
                assert (await client.ask(do="subscribe", id=1, groups=["*"]))["code"] == "too_many"
                async with doors.plain(1, name="a"):
                    assert await doors.refusal(1, name="a") == "too_many"
                    async with doors.plain(1, name="b"):
                        with pytest.raises((OSError, ConnectionClosed, Exception)):
                            async with doors.dial(1):
                                pass
                assert let_go(node) == {"too_many": 2, "turned_away": 1}
                await until(lambda: node.status()["clients"]["connections"] == 1)
                async with doors.plain(1, name="b"):
                    pass

    run(tell())


def test_pages_of_other_origins_are_refused(tmp_path: Path) -> None:
    async def tell() -> None:
        doors = Doors(tmp_path, 1, door='origins = ["https://good.example"]')
        async with doors.running():
            async with doors.dial(1, origin="https://good.example"):
                pass
            for origin in ("https://evil.example", "http://good.example", "null"):
                with pytest.raises(InvalidStatus, match="403"):
                    async with doors.dial(1, origin=origin):
                        pass

    run(tell())


# Tokens


def token(
    authority: Authority, name: str = "a", groups: tuple[str, ...] = ("all",), life: timedelta = DAY
) -> str:
    return make_client_token(authority, name, groups, groups, life)


def test_only_a_good_token_opens_the_door(tmp_path: Path) -> None:
    async def tell() -> None:
        doors = Doors(tmp_path, 1, tls=True)
        authority = doors.authority
        assert authority is not None
        good = token(authority)
        others = Authority.found(tmp_path / "others", "test")
        elsewhere = Authority(authority.folder, "other", authority.key, authority.certificates)
        async with doors.running() as (node,):
            async with doors.plain(1, token=good), connect(doors.url(1), good) as client:
                await client.group("all").publish(b"1")
            flipped = good[:60] + ("A" if good[60] != "A" else "B") + good[61:]
            for bad in (
                *("", "x", good[:-100], flipped, f"{good}x" * 100),
                token(others),
                token(elsewhere),
                token(authority, life=timedelta(seconds=-1)),
            ):
                assert await doors.refusal(1, token=bad) == "no_token", bad
            with pytest.raises(NodeError, match="lapsed"):
                async with connect(doors.url(1), token(authority, life=timedelta(seconds=-1))):
                    pass
            assert let_go(node)["no_token"] == 9

    run(tell())


def test_a_client_believes_only_nodes_of_its_authority(tmp_path: Path) -> None:
    async def tell() -> None:
        doors = Doors(tmp_path, 1, tls=True)
        others = Authority.found(tmp_path / "others", "test")
        async with doors.running() as (node,):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5), connect(doors.url(1), token(others)):
                    pass
            assert let_go(node) == {}  # it was not told the token

    run(tell())


def test_a_token_opens_its_groups_alone(tmp_path: Path) -> None:
    async def tell() -> None:
        doors = Doors(tmp_path, 1, tls=True, groups='all = "*"\n"doc/1" = "*"\ndocs = "*"')
        assert doors.authority is not None
        reader = make_client_token(doors.authority, "r", [], ["doc/*"], DAY)
        async with doors.running() as (node,), doors.plain(1, token=reader) as client:

            async def code(**words: Any) -> str:
                found: str = (await client.ask(id=1, **words)).get("code", "")
                return found

            for group in ("all", "docs", "none"):
                assert await code(do="subscribe", groups=[group]) == "not_allowed"
            assert await code(do="subscribe", groups=["doc/2"]) == "no_group"
            assert await code(do="publish", group="doc/1", text="x") == "not_allowed"
            allowed = await client.ask(do="subscribe", id=1, groups=["*"])
            assert allowed["groups"] == ["doc/1"]
            listed = await client.ask(do="groups", id=1)
            assert (listed["publish"], listed["subscribe"]) == ([], ["doc/1"])
            await node.group("all").publish(b"secret")
            await node.group("doc/1").publish(b"open")
            assert (await client.hear())["text"] == "open"
            assert node.status()["published"] == {"all": 1, "doc/1": 1}

    run(tell())


def test_revoked_and_lapsed_tokens_end_their_connections(tmp_path: Path) -> None:
    async def tell() -> None:
        doors = Doors(tmp_path, 1, tls=True)
        authority = doors.authority
        assert authority is not None
        words = token(authority)
        serial = next(line["serial"] for line in authority.issued() if line["for"] == "client")
        with set_to({"clients.door.look_every": 0.05, "runtime.host.key_watch.look_every": 0.05}):
            async with doors.running() as (node,):
                brief = token(authority, life=timedelta(seconds=4))
                async with doors.plain(1, token=brief) as b, doors.plain(1, token=words) as client:
                    authority.revoke(serial=serial)
                    heard = await client.hear()
                    assert (heard["code"], heard["error"]) == ("no_token", "this token was revoked")
                    assert (await b.hear())["error"].startswith("this token lapsed")
                assert await doors.refusal(1, token=words) == "no_token"
                assert node.status()["clients"]["connections"] == 0

    run(tell())
