"""Clients over HTTP: POST to ask, server-sent events to read; the same rights, limits and order."""

import asyncio
import base64
import json
from datetime import timedelta
from pathlib import Path

import pytest
from door_nodes import let_go, run
from http_client import HttpDoors
from loopback_nodes import until

from causalcast.clients.position_token import past_token, position_in
from causalcast.errors import ConfigError
from causalcast.limits import set_to
from causalcast.runtime.security.client_token import make_client_token

DAY = timedelta(days=1)


def test_what_is_posted_is_read_elsewhere_and_goes_on_where_it_was(tmp_path: Path) -> None:
    """A stream that breaks goes on at another node by the id of its last event."""

    async def tell() -> None:
        doors = HttpDoors(tmp_path, 2)
        async with doors.running(), doors.client(1) as client:
            async with doors.client(2) as reader:
                await reader.read("all")
                first = await client.ask(do="publish", id=7, group="all", text="1", key="k")
                assert (first.status, first.said["message"]) == (200, "1.1")
                again = await client.ask(do="publish", id=8, group="all", text="1", key="k")
                assert again.said == {"do": "published", "id": 8, "message": "1.1"}
                frame = {"do": "publish", "id": 9, "group": "all"}
                head = json.dumps(frame).encode()
                body = len(head).to_bytes(4, "big") + head + b"\xff\x00"
                client.say("POST", "/v1/ask", body, Content_Type="application/octet-stream")
                assert (await client.hear()).said["message"] == "1.2"
                event = await reader.event()
                assert (event.kind, event.said["text"]) == ("message", "1")
                second = await reader.event()
                assert base64.b64decode(second.said["base64"]) == b"\xff\x00"
            await client.ask(do="publish", id=10, group="all", text="3")
            for node, last in ((1, event.id), (2, event.id), (1, second.id)):
                async with doors.client(node, Last_Event_ID=last) as reader:
                    await reader.read("all")
                    if last == event.id:
                        assert "base64" in (await reader.event()).said
                    assert await reader.texts(1) == ["3"]
            async with doors.client(2) as reader:
                await reader.read("all", query=f"&after={event.id}")
                assert "base64" in (await reader.event()).said
            async with doors.client(2) as reader:
                await reader.read("all", query="&since=kept")
                assert await reader.texts(1) == ["1"]
            groups = await client.ask(do="groups", id=11)
            assert groups.said["subscribe"] == ["all"]

    run(tell())


def test_a_node_waits_for_what_a_client_has_seen(tmp_path: Path) -> None:
    """The answer of one node is the past at the next; a node that lacks it says so."""

    async def tell() -> None:
        doors = HttpDoors(tmp_path, 2)
        with set_to({"clients.session.not_yet_after": 0.2}):
            async with doors.node(1), doors.client(1) as client:
                answer = await client.ask(do="publish", id=1, group="all", text="cause")
                past = answer.headers["causalcast-past"]
                assert position_in(past) == ("", {"all": {1: 1}})
            async with doors.node(2) as two, doors.client(2) as client:
                early = await client.ask(past, do="publish", id=2, group="all", text="effect")
                assert (early.status, early.said["code"]) == (503, "not_yet")
                for query in (f"&past={past}", f"&past={past}&after=s.WyIiLHt9XQ"):
                    async with doors.client(2) as reader:
                        assert (await reader.read("all", query=query)).status == 503
                async with doors.node(1):
                    await until(lambda: two.status()["delivered"].get("all", 0) == 1)
                    async with doors.client(2) as client:
                        late = await client.ask(past, do="publish", id=2, group="all", text="e")
                        assert late.status == 200
                        _, merged = position_in(late.headers["causalcast-past"])
                        assert merged == {"all": {1: 1, 2: 1}}

    run(tell())


def test_a_window_waits_for_acknowledgements(tmp_path: Path) -> None:
    async def tell() -> None:
        doors = HttpDoors(tmp_path, 1)
        async with doors.running() as (node,), doors.client(1) as client:
            for text in "12345":
                await client.ask(do="publish", id=1, group="all", text=text)
            async with doors.client(1) as reader:
                answer = await reader.read("all", query="&since=kept&window=2&name=r")
                stream = answer.headers["causalcast-stream"]
                assert await reader.texts(2) == ["1", "2"]
                assert node.status()["clients"]["unacknowledged"] == 2
                for query in ("", "?stream=x", f"?stream={stream}&name=somebody"):
                    refused = await client.ask(query=query, do="ack", messages=["1.1"])
                    assert refused.status == 404
                    await client.__aexit__()
                    await client.__aenter__()
                query = f"?stream={stream}&name=r"
                acked = await client.ask(query=query, do="ack", messages=["1.1", "1.2"])
                assert acked.status == 200
                assert await reader.texts(2) == ["3", "4"]

    run(tell())


def test_what_is_not_kept_any_more_is_gone(tmp_path: Path) -> None:
    async def tell() -> None:
        doors = HttpDoors(tmp_path, 1, door="kept_messages = 2")
        async with doors.running(), doors.client(1) as client:
            async with doors.client(1) as reader:
                await reader.read("all")
                await client.ask(do="publish", id=1, group="all", text="1")
                last = (await reader.event()).id
            for text in "2345":
                await client.ask(do="publish", id=1, group="all", text=text)
            async with doors.client(1, Last_Event_ID=last) as reader:
                answer = await reader.read("all")
                assert (answer.status, answer.said["code"]) == (410, "gap")

    run(tell())


def test_tokens_and_rights_are_those_of_the_other_door(tmp_path: Path) -> None:
    async def tell() -> None:
        doors = HttpDoors(tmp_path, 1, tls=True, groups='all = "*"\n"doc/1" = "*"')
        authority = doors.authority
        assert authority is not None
        token = make_client_token(authority, "r", ["all"], ["doc/*"], DAY)
        serial = next(line["serial"] for line in authority.issued() if line["for"] == "client")
        limits = {"clients.door.look_every": 0.05, "runtime.host.key_watch.look_every": 0.05}
        with set_to(limits):
            async with doors.running() as (node,):
                bearer = {"Authorization": f"Bearer {token}"}
                async with doors.client(1) as nobody:
                    assert (await nobody.ask(do="groups", id=1)).status == 401
                async with doors.client(1, **bearer) as client, doors.client(1) as reader:
                    asked = {"do": "publish", "id": 1, "text": "x"}
                    assert (await client.ask(group="all", **asked)).status == 200
                    assert (await client.ask(group="doc/1", **asked)).status == 403
                    assert (await client.ask(group="doc/1", **asked)).said["code"] == "not_allowed"
                    async with doors.client(1, **bearer) as other:
                        assert (await other.read("all")).status == 403
                    await reader.read("doc/*", query=f"&token={token}")  # as EventSource has to
                    await node.group("doc/1").publish(b"open")
                    assert await reader.texts(1) == ["open"]
                    authority.revoke(serial=serial)
                    event = await reader.event()
                    assert (event.kind, event.said["code"]) == ("refusal", "no_token")
                    assert await reader.reader.read() == b""
                    assert (await client.ask(group="all", **asked)).status == 401

    run(tell())


def test_pages_come_in_from_their_origins_alone(tmp_path: Path) -> None:
    async def tell() -> None:
        doors = HttpDoors(tmp_path, 1, door='origins = ["https://shop.example"]')
        asked = {"do": "publish", "id": 1, "group": "all", "text": "x"}
        async with doors.running() as (node,):
            async with doors.client(1, Origin="https://shop.example") as page:
                page.say("OPTIONS", "/v1/ask")
                before = await page.hear()
                assert before.status == 204
                assert "Authorization" in before.headers["access-control-allow-headers"]
                answer = await page.ask(**asked)
                assert answer.status == 200
                assert answer.headers["access-control-allow-origin"] == "https://shop.example"
            for header in ({"Origin": "https://evil.example"}, {"Host": "evil.example:7500"}):
                async with doors.client(1, **header) as page:
                    assert (await page.ask(**asked)).status == 401
                async with doors.client(1, **header) as page:
                    assert (await page.read("all")).status == 401
            assert node.status()["published"] == {"all": 1}

    run(tell())


HEADS = [
    b"\r\n\r\n",
    b"hello\r\n\r\n",
    b"GET /v1/messages HTTP/2\r\n\r\n",
    b"GET /v1/messages?group=all HTTP/1.1\r\nHost: localhost\r\nno header\r\n\r\n",
    b"GET /v1/messages HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /v1/messages?group=all&window=x HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /v1/messages?group=all&since=ever HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /v1/messages?group=all&after=s.! HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /v1/messages?group=all&name=a&name=b HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /v1/messages?" + b"group=all&" * 2000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n[]",
    b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n\xff\xff",
    b"GET / HTTP/1.1\r\nHost: " + b"x" * 300_000,
]
SUBSCRIBE = b'{"do": "subscribe", "id": 1, "groups": ["all"]}'


def test_nonsense_is_refused_and_costs_nobody_else_anything(tmp_path: Path) -> None:
    async def tell() -> None:
        doors = HttpDoors(tmp_path, 1, door='groups = ["all"]')  # none that are made: nobody waits
        async with doors.running() as (node,), doors.client(1) as good:
            for head in HEADS:
                async with doors.client(1) as client:
                    client.writer.write(head)
                    answer = await client.hear()
                    assert (answer.status, answer.said["code"]) == (400, "bad_frame"), head[:60]
                    assert await client.reader.read() == b""
            assert let_go(node)["bad_frame"] == len(HEADS)
            async with doors.client(1) as client:
                client.say("POST", "/v1/ask", SUBSCRIBE)
                assert "GET /v1/messages" in (await client.hear()).said["error"]
            async with doors.client(1) as client:
                client.say("GET", "/")
                assert (await client.hear()).status == 404
            async with doors.client(1) as client:  # a body that is too large is not read
                client.say("POST", "/v1/ask", Content_Length=str(1 << 30))
                assert (await client.hear()).status == 422
            async with doors.client(1) as client:
                token = past_token({"nowhere": {2: 1}})
                assert (await client.ask(token, do="groups", id=1)).status == 421
            assert (await good.ask(do="groups", id=1)).status == 200
            await until(lambda: node.status()["clients"]["connections"] == 0)

    run(tell())


def test_who_says_nothing_or_reads_nothing_is_let_go(tmp_path: Path) -> None:
    async def tell() -> None:
        doors = HttpDoors(tmp_path, 1)
        limits = {"clients.session.sent_within": 0.3, "clients.admission.hello_within": 0.3}
        with set_to(limits):
            async with doors.running() as (node,):
                async with doors.client(1) as silent:
                    assert await silent.reader.read() == b""
                async with doors.client(1) as slow:  # half a body
                    slow.say("POST", "/v1/ask", b"{", Content_Length="100")
                    assert await slow.reader.read() == b""
                assert let_go(node)["too_slow"] == 2
                async with doors.client(1) as deaf, doors.client(1) as other:
                    await deaf.read("all")
                    await other.read("all")
                    deaf.writer.transport.pause_reading()  # type: ignore[attr-defined]
                    sent = 0
                    while let_go(node)["too_slow"] == 2:
                        await node.group("all").publish(b"x" * 100_000)
                        await other.event()
                        sent += 1
                        assert sent < 400
                    await until(lambda: node.status()["clients"]["connections"] == 1)

    run(tell())


def test_requests_of_one_name_are_counted_over_connections(tmp_path: Path) -> None:
    async def tell() -> None:
        doors = HttpDoors(tmp_path, 1)
        with set_to({"clients.session.requests_per_second": 10}):
            async with doors.running() as (node,):
                began = asyncio.get_running_loop().time()
                for _ in range(40):
                    async with doors.client(1) as client:
                        assert (await client.ask(do="groups", id=1)).status == 200
                assert asyncio.get_running_loop().time() - began > 1.5
                assert let_go(node)["slowed_down"] >= 1

    run(tell())


def test_a_node_that_stops_ends_its_streams(tmp_path: Path) -> None:
    async def tell() -> None:
        doors = HttpDoors(tmp_path, 1)
        async with doors.running() as (node,), doors.client(1) as reader, doors.client(1):
            await reader.read("all")
            await node.stop()
            event = await reader.event()
            assert (event.kind, event.said["code"]) == ("refusal", "stopping")

    run(tell())


def test_without_tokens_it_is_for_loopback_alone(tmp_path: Path) -> None:
    doors = HttpDoors(tmp_path, 1)
    doors.http_host = "0.0.0.0"
    with pytest.raises(ConfigError, match=r"0\.0\.0\.0.*only loopback"):
        doors.config(1)
