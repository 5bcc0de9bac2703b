"""Groups of values: dataclasses, structs and pydantic models, at every kind of node."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from door_nodes import Doors
from loopback_nodes import PATIENCE, Neighbourhood
from test_any_node import EVERYWHERE, Run, at_a_real_node

from causalcast import AnyMessage, AnyNode, SyncNode, TypedMessage, connect_sync
from causalcast.errors import NodeError, Undecodable


@dataclass
class Said:
    who: str
    text: str
    times: int = 1


class Moved(msgspec.Struct):
    piece: str
    to: tuple[int, int]


class Opened(msgspec.Struct, tag="opened"):
    by: str


class Closed(msgspec.Struct, tag="closed"):
    by: str


@EVERYWHERE
@pytest.mark.parametrize(
    "values",
    [
        [Said("Ada", "tea?"), Said("Bob", "ja", 3)],
        [Moved("rook", (1, 2)), Moved("pawn", (0, 0))],
    ],
    ids=["dataclass", "struct"],
)
def test_values_come_as_they_were_published(tmp_path: Path, run: Run, values: list[Any]) -> None:
    async def application(node: AnyNode) -> list[Any]:
        async with node.group("all", type=type(values[0])) as group:
            await group.publish(values[0], {"from": "a test"})
            await group.publish_many(values[1:])
            first = await anext(group)
            assert (first.content_type, first.headers) == ("application/json", {"from": "a test"})
            rest = await group.receive_many()
            await group.ack_many([first, *rest])
            assert [message.content_type for message in rest] == ["application/json"]
            return [message.value for message in [first, *rest]]

    assert run(tmp_path, application) == values


def test_models_of_pydantic_are_values(tmp_path: Path) -> None:
    pydantic = pytest.importorskip("pydantic")
    Event = pydantic.create_model("Event", text=(str, ...), level=(int, 0))  # noqa: N806

    async def application(node: AnyNode) -> Any:
        async with node.group("all", type=Event) as group:
            await group.publish(Event(text="hello", level=2))
            await group.untyped.publish(b'{"text": 3}')
            value = (await anext(group)).value
            with pytest.raises(Undecodable, match="text"):
                await anext(group)
            return value

    assert at_a_real_node(tmp_path, application) == Event(text="hello", level=2)


class LikePydantic:
    """What is asked of a model, where pydantic is not installed."""

    def __init__(self, text: str) -> None:
        self.text = text

    def model_dump_json(self) -> str:
        return json.dumps({"text": self.text})

    @classmethod
    def model_validate_json(cls, payload: bytes) -> "LikePydantic":
        found = json.loads(payload)
        if set(found) != {"text"}:
            raise ValueError("expected a text")
        return cls(found["text"])


@EVERYWHERE
def test_a_model_reads_and_writes_itself(tmp_path: Path, run: Run) -> None:
    async def application(node: AnyNode) -> str:
        async with node.group("all", type=LikePydantic) as group:
            await group.publish(LikePydantic("hello"))
            await group.untyped.publish(b'{"texts": 3}')
            value = (await anext(group)).value
            with pytest.raises(Undecodable, match="expected a text"):
                await anext(group)
            return value.text

    assert run(tmp_path, application) == "hello"


NONSENSE = [b"", b"{", b'{"who": 1, "text": "x"}', b"[]", b"\xff", b'{"who": "Ada"}']


@EVERYWHERE
def test_what_cannot_be_decoded_is_an_error_with_the_message(tmp_path: Path, run: Run) -> None:
    """And what comes behind it is read as ever."""

    async def application(node: AnyNode) -> None:
        async with node.group("all", type=Said) as group:
            for payload in NONSENSE:
                await group.untyped.publish(payload)
            await group.untyped.publish(b"a picture", content_type="image/png")
            await group.publish(Said("Ada", "tea"))
            for payload in [*NONSENSE, b"a picture"]:
                with pytest.raises(Undecodable) as told:
                    await anext(group)
                assert told.value.message.payload == payload
                await told.value.message.ack()
            assert (await anext(group)).value == Said("Ada", "tea")

    run(tmp_path, application)


@EVERYWHERE
def test_a_handler_gets_what_cannot_be_decoded(tmp_path: Path, run: Run) -> None:
    seen: list[tuple[bytes, str]] = []

    async def odd(message: AnyMessage, error: Undecodable) -> None:
        await asyncio.sleep(0)
        seen.append((message.payload, str(error)))

    async def application(node: AnyNode) -> list[str]:
        async with node.group("all", type=Said, undecodable=odd) as group:
            for payload in (b"{", b'{"who": "Ada", "text": "a"}', b"[", b"]"):
                await group.untyped.publish(payload)
            await group.publish(Said("Bob", "b"))
            texts = [(await anext(group)).value.text]
            while len(texts) < 2:
                texts += [message.value.text for message in await group.receive_many(timeout=1)]
            assert await group.receive(timeout=0.01) is None
            return texts

    assert run(tmp_path, application) == ["a", "b"]
    assert [payload for payload, _ in seen] == [b"{", b"[", b"]"]
    assert all("Said" in words for _, words in seen)


def test_none_of_many_is_lost_at_one_that_cannot_be_decoded(tmp_path: Path) -> None:
    """They come in their order, before the error and behind it; after a restart, too."""
    town = Neighbourhood(tmp_path, 1, level="none")

    async def first() -> None:
        async with town.node(1) as node, node.group("all", type=Said) as group:
            await group.publish_many([Said("Ada", "1"), Said("Ada", "2")])
            await group.untyped.publish(b"nonsense")
            await group.publish_many([Said("Ada", "3"), Said("Ada", "4")])
            assert texts(await group.receive_many()) == ["1", "2"]
            with pytest.raises(Undecodable):
                await group.receive_many()
            assert texts(await group.receive_many()) == ["3", "4"]

    async def second() -> None:
        def fails(message: AnyMessage, error: Undecodable) -> None:
            raise ZeroDivisionError

        async with town.node(1) as node:
            group = node.group("all", type=Said, undecodable=fails)
            assert [(await anext(group)).value.text for _ in range(2)] == ["1", "2"]
            for _ in range(2):
                with pytest.raises(ZeroDivisionError):
                    await anext(group)
            assert (await anext(node.group("all"))).payload == b"nonsense"
            assert texts(await group.receive_many()) == ["3", "4"]

    def texts(messages: list[TypedMessage[Said]]) -> list[str]:
        return [message.value.text for message in messages]

    for story in (first, second):
        asyncio.run(asyncio.wait_for(story(), PATIENCE))


@EVERYWHERE
def test_callbacks_get_values(tmp_path: Path, run: Run) -> None:
    values: list[Said] = []
    odd: list[bytes] = []

    async def application(node: AnyNode) -> None:
        async with node.group(
            "all", type=Said, undecodable=lambda message, error: odd.append(message.payload)
        ) as group:
            group.on_message(lambda message: values.append(message.value))
            await group.untyped.publish(b"{}")
            await group.publish(Said("Ada", "tea"))
            while not values:
                await asyncio.sleep(0.01)

    run(tmp_path, application)
    assert (values, odd) == ([Said("Ada", "tea")], [b"{}"])


def test_readers_with_names_get_values(tmp_path: Path) -> None:
    async def application(node: AnyNode) -> list[Said]:
        group = node.group("all", type=Said)
        reader = await group.subscribe("search")
        await group.publish(Said("Ada", "tea"))
        found = await reader.receive(timeout=5)
        assert found is not None
        await found.ack()
        await group.unsubscribe("search")
        return [found.value, (await anext(group)).value]

    assert at_a_real_node(tmp_path, application) == [Said("Ada", "tea")] * 2


def test_what_others_could_not_read_is_not_published(tmp_path: Path) -> None:
    async def application(node: AnyNode) -> None:
        group = node.group("all", type=Said)
        for value, words in (
            (Said("Ada", 5), "Expected `str`"),  # type: ignore[arg-type]
            ({"who": "Ada", "text": "x"}, "not dict"),
            (Moved("rook", (1, 2)), "not Moved"),
            (Said("Ada", object()), "not published"),  # type: ignore[arg-type]
        ):
            with pytest.raises(NodeError, match=words):
                await group.publish(value)  # type: ignore[arg-type]
        with pytest.raises(NodeError):
            await group.publish_many([Said("Ada", "x"), Said("Ada", 5)])  # type: ignore[arg-type]
        assert await group.untyped.receive(timeout=0) is None
        for kind in (dict, int, "Said", AnyNode):
            with pytest.raises(NodeError, match="expected a dataclass"):
                node.group("all", type=kind)  # type: ignore[call-overload]

    at_a_real_node(tmp_path, application)


def test_one_of_several_types(tmp_path: Path) -> None:
    async def application(node: AnyNode) -> list[Any]:
        group = node.group("all", type=Opened | Closed)  # type: ignore[call-overload]
        await group.publish_many([Opened("Ada"), Closed("Bob")])
        return [message.value for message in await group.receive_many()]

    assert at_a_real_node(tmp_path, application) == [Opened("Ada"), Closed("Bob")]


def test_threads_have_groups_of_values(tmp_path: Path) -> None:
    odd: list[bytes] = []
    with SyncNode(Neighbourhood(tmp_path, 1).config(1)) as node:
        with node.group(
            "all", type=Said, undecodable=lambda message, error: odd.append(message.payload)
        ) as group:
            group.publish(Said("Ada", "tea"))
            group.untyped.publish(b"nonsense")
            group.publish_many([Said("Bob", "b"), Said("Cleo", "c")])
            assert [m.value.who for m in group.messages(timeout=0)] == ["Ada", "Bob", "Cleo"]
            assert odd == [b"nonsense"]
        strict = node.group("all", type=Said)
        strict.publish(Said("Ada", "1"))
        strict.untyped.publish(b"nonsense")
        strict.publish(Said("Ada", "2"))
        strict.ack_many(strict.receive_many())
        with pytest.raises(Undecodable):
            strict.receive_many()
        assert [m.value.text for m in strict.receive_many()] == ["2"]


def test_clients_in_threads_have_groups_of_values(tmp_path: Path) -> None:
    doors = Doors(tmp_path, 1)
    done: list[str] = []

    def client() -> None:
        with connect_sync(doors.url(1)) as node, node.group("all", type=Said) as group:
            group.publish(Said("Ada", "1"))
            group.untyped.publish(b"nonsense")
            group.publish_many([Said("Ada", "2")])
            message = group.receive(timeout=5)
            assert message is not None
            done.append(message.value.text)
            message.ack()
            with pytest.raises(Undecodable) as told:
                group.receive(timeout=5)
            told.value.message.give_back()
            done.append(group.untyped.receive(timeout=5).payload.decode())

    async def tell() -> None:
        async with doors.running():
            await asyncio.wait_for(asyncio.to_thread(client), PATIENCE)

    asyncio.run(tell())
    assert done == ["1", "nonsense"]
