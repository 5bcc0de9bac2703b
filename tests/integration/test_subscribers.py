"""Programs on the control socket: a message is handled when one of them says so, not before."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from loopback_nodes import PATIENCE, Neighbourhood, take, until

from causalcast import Node
from causalcast.runtime.operating.control import ControlServer
from causalcast.runtime.operating.control_client import control_path, line_of
from causalcast.runtime.operating.subscriptions import WINDOW

Story = Callable[["Desk"], Awaitable[None]]


class Program:
    """Another program at the control socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def say(self, **request: Any) -> None:
        self._writer.write(line_of(request))

    async def hear(self) -> dict[str, Any]:
        line = await asyncio.wait_for(self._reader.readline(), PATIENCE)
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def handle(self, count: int) -> list[str]:
        """Take messages and acknowledge each."""
        texts = []
        for _ in range(count):
            message = await self.hear()
            texts.append(message["text"])
            self.say(do="ack", message=message["message"])
        return texts

    async def hang_up(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


class Desk:
    """A node with a control socket."""

    def __init__(self, node: Node) -> None:
        self.node = node

    async def open(self) -> Program:
        path = control_path(self.node.config.folder, self.node.config.control_name())
        return Program(*await asyncio.open_unix_connection(str(path), limit=1 << 24))

    async def subscribe(self) -> Program:
        program = await self.open()
        program.say(do="subscribe", group="all")
        assert (await program.hear())["ok"]
        return program

    async def publish(self, *numbers: int) -> None:
        for number in numbers:
            await self.node.group("all").publish(b"%d" % number)


@asynccontextmanager
async def desk_of(town: Neighbourhood) -> AsyncIterator[Desk]:
    async with town.running() as (node,):
        server = ControlServer(node)
        await server.start()
        try:
            yield Desk(node)
        finally:
            await server.close()


def tell(folder: Path, *stories: Story) -> None:
    """Play each story in a life of its own."""

    async def told() -> None:
        town = Neighbourhood(folder, 1, level="none")
        for story in stories:
            async with desk_of(town) as desk:
                await asyncio.wait_for(story(desk), PATIENCE)

    asyncio.run(told())


def texts(numbers: range) -> list[str]:
    return [str(number) for number in numbers]


def test_what_a_subscriber_never_acknowledged_comes_again(tmp_path: Path) -> None:
    """It hangs up with most of it in its buffer; the next one gets all of that, in order."""

    async def story(desk: Desk) -> None:
        await desk.publish(*range(50))
        first = await desk.subscribe()
        assert await first.handle(10) == texts(range(10))
        await first.hear()  # and dies with it
        await first.hang_up()
        second = await desk.subscribe()
        assert await second.handle(40) == texts(range(10, 50))
        await until(lambda: desk.node.status()["unacknowledged"] == 0)

    tell(tmp_path, story)


def test_what_nobody_acknowledged_comes_again_after_a_restart(tmp_path: Path) -> None:
    async def before(desk: Desk) -> None:
        await desk.publish(*range(20))
        program = await desk.subscribe()
        assert await program.handle(5) == texts(range(5))
        await program.hear()
        await until(lambda: desk.node.status()["unacknowledged"] == 15)

    async def after(desk: Desk) -> None:
        assert await take(desk.node.group("all"), 15) == [b"%d" % n for n in range(5, 20)]

    tell(tmp_path, before, after)


def test_who_does_not_read_holds_up_no_other(tmp_path: Path) -> None:
    """It is told that it was cut off; the other one gets everything."""
    count = 3 * WINDOW.value

    async def story(desk: Desk) -> None:
        idle = await desk.subscribe()
        busy = await desk.subscribe()
        publishing = asyncio.create_task(desk.publish(*range(count)))
        assert await busy.handle(count) == texts(range(count))
        await publishing
        assert [(await idle.hear())["text"] for _ in range(WINDOW.value)] == texts(
            range(WINDOW.value)
        )
        last = await idle.hear()
        assert not last["ok"] and "cut off" in last["error"]

    tell(tmp_path, story)


def test_the_only_subscriber_may_take_its_time(tmp_path: Path) -> None:
    """Beyond its window messages wait in the node; none is lost, and it is not cut off."""
    count = 2 * WINDOW.value

    async def story(desk: Desk) -> None:
        program = await desk.subscribe()
        await desk.publish(*range(count))
        await until(lambda: desk.node.status()["waiting"] == count - WINDOW.value)
        assert await program.handle(count) == texts(range(count))

    tell(tmp_path, story)


def test_a_further_subscriber_begins_with_what_nobody_handled(tmp_path: Path) -> None:
    """So that nothing comes to it out of order when the first one dies."""

    async def story(desk: Desk) -> None:
        await desk.publish(*range(3))
        first = await desk.subscribe()
        assert await first.handle(1) == ["0"]
        await until(lambda: desk.node.status()["unacknowledged"] == 2)
        second = await desk.subscribe()
        assert await second.handle(1) == ["1"]
        await desk.publish(3)
        await first.hang_up()
        assert await second.handle(2) == ["2", "3"]
        await until(lambda: desk.node.status()["unacknowledged"] == 0)

    tell(tmp_path, story)


def test_what_the_application_reads_no_subscriber_gets(tmp_path: Path) -> None:
    async def story(desk: Desk) -> None:
        desk.node.group("all").on_message(lambda message: None)
        program = await desk.open()
        program.say(do="subscribe", group="all")
        assert (await program.hear())["ok"]
        assert "is read already" in (await program.hear())["error"]

    tell(tmp_path, story)


def test_who_says_something_else_is_told(tmp_path: Path) -> None:
    async def story(desk: Desk) -> None:
        for nonsense in ({"do": "status"}, {"do": "ack", "message": "first"}):
            program = await desk.subscribe()
            program.say(**nonsense)
            assert not (await program.hear())["ok"]

    tell(tmp_path, story)


def test_bytes_are_published_as_base64(tmp_path: Path) -> None:
    async def story(desk: Desk) -> None:
        program = await desk.open()
        program.say(do="publish", group="all", base64="AAEC/w==")
        assert (await program.hear())["ok"]
        assert await take(desk.node.group("all"), 1) == [b"\x00\x01\x02\xff"]
        program.say(do="publish", group="all", text="")
        assert (await program.hear())["ok"]
        assert await take(desk.node.group("all"), 1) == [b""]

    tell(tmp_path, story)


@pytest.mark.parametrize(
    "request_", [{}, {"base64": "A"}, {"base64": 7}, {"text": 7}, {"text": "a", "base64": "AAEC"}]
)
def test_a_body_that_is_none_is_refused(tmp_path: Path, request_: dict[str, Any]) -> None:
    async def story(desk: Desk) -> None:
        program = await desk.open()
        program.say(do="publish", group="all", **request_)
        answer = await program.hear()
        assert not answer["ok"] and "base64" in answer["error"]
        assert desk.node.status()["published"] == {}

    tell(tmp_path, story)
