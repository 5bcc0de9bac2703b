"""Requests to neighbours: bounded, answered once, and clear about what is known."""

import asyncio
from collections.abc import Coroutine

import msgspec
import pytest

from causalcast.core.ids import NodeId
from causalcast.errors import NodeError, WireError
from causalcast.runtime.host.direct import MOST_ASKED, Direct, Reply, Request

ONE, TWO = NodeId(1), NodeId(2)


class Wire:
    """Two ends; what is sent waits until it is let through."""

    def __init__(self) -> None:
        self.sent: list[tuple[NodeId, bytes]] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.direct = Direct(self._send, self._beside)

    def _send(self, to: NodeId, data: bytes) -> str:
        self.sent.append((to, data))
        return "" if to == TWO else "it is of an earlier version, which takes no requests"

    def _beside(self, work: Coroutine[None, None, None]) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work))

    def last(self) -> Request | Reply:
        decoded: Request | Reply = msgspec.msgpack.decode(self.sent[-1][1], type=Request | Reply)
        return decoded


def test_answers_count_only_from_whom_was_asked() -> None:
    async def story() -> None:
        wire = Wire()
        asking = asyncio.create_task(wire.direct.ask(TWO, "ask", 0, b"q", 5))
        await asyncio.sleep(0)
        number = wire.last().number
        wire.direct.came(ONE, msgspec.msgpack.encode(Reply(number, b"of another")))
        wire.direct.came(TWO, msgspec.msgpack.encode(Reply(number + 1, b"of another question")))
        await asyncio.sleep(0)
        assert not asking.done()
        wire.direct.came(TWO, msgspec.msgpack.encode(Reply(number, b"yes")))
        wire.direct.came(TWO, msgspec.msgpack.encode(Reply(number, b"once more")))
        assert await asking == b"yes"

    asyncio.run(story())


def test_what_is_no_request_closes_the_link() -> None:
    direct = Wire().direct
    for nonsense in (b"", b"\xc1", b"\x94\x00\x01\xa1a\x00", b"\x93\x05\x01\x02"):
        with pytest.raises(WireError, match="no request and no answer"):
            direct.came(TWO, nonsense)


def test_errors_travel_in_words() -> None:
    async def story() -> None:
        wire = Wire()
        with pytest.raises(NodeError, match="node 1 was not asked: it is of an earlier version"):
            await wire.direct.ask(ONE, "ask", 0, b"q", 5)
        asking = asyncio.create_task(wire.direct.ask(TWO, "ask", 0, b"q", 5))
        await asyncio.sleep(0)
        told = "\x1b[31m" + "long " * 1000
        wire.direct.came(TWO, msgspec.msgpack.encode(Reply(wire.last().number, b"", told)))
        with pytest.raises(NodeError) as error:
            await asking
        assert "\x1b" not in str(error.value) and len(str(error.value)) < 600
        wire.direct.came(TWO, msgspec.msgpack.encode(Request(7, "odd", 0, b"")))
        await asyncio.gather(*wire.tasks)
        assert wire.last() == Reply(7, b"", "it knows no request 'odd'")

    asyncio.run(story())


def test_so_many_wait_and_no_more() -> None:
    async def story() -> None:
        wire = Wire()
        asking = [
            asyncio.create_task(wire.direct.ask(TWO, "ask", 0, b"q", 5))
            for _ in range(MOST_ASKED.value)
        ]
        await asyncio.sleep(0)
        with pytest.raises(NodeError, match="ask more slowly"):
            await wire.direct.ask(TWO, "ask", 0, b"q", 5)
        wire.direct.lost(TWO)
        found = await asyncio.gather(*asking, return_exceptions=True)
        assert all("was lost before it answered" in str(one) for one in found)
        asked = asyncio.create_task(wire.direct.ask(TWO, "ask", 0, b"q", 5))
        await asyncio.sleep(0)
        wire.direct.end()
        with pytest.raises(NodeError, match="the node was stopped"):
            await asked

    asyncio.run(story())
