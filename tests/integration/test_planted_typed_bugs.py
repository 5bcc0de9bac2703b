"""Bugs planted in groups of values: their tests notice each of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import test_typed_groups as stories
from test_any_node import at_a_real_node

from causalcast.any_node import AnyMessage
from causalcast.errors import NodeError, Undecodable
from causalcast.typed_groups import TypedMessage, TypedReader
from causalcast.typed_values import NotDecoded, ValueCodec

Plant = Callable[[pytest.MonkeyPatch], None]


def skipped_in_silence(patch: pytest.MonkeyPatch) -> None:
    async def decoded(self: TypedReader[Any], raw: AnyMessage) -> TypedMessage[Any] | None:
        try:
            return TypedMessage(raw, self._codec.decode(raw.payload, raw.content_type))
        except NotDecoded:
            return None

    patch.setattr(TypedReader, "_decoded", decoded)


def acknowledged_before_it_is_handled(patch: pytest.MonkeyPatch) -> None:
    before = TypedReader._decoded

    async def decoded(self: TypedReader[Any], raw: AnyMessage) -> TypedMessage[Any] | None:
        try:
            return await before(self, raw)
        except Undecodable:
            await raw.ack()
            raise

    patch.setattr(TypedReader, "_decoded", decoded)


def many_forget_the_rest(patch: pytest.MonkeyPatch) -> None:
    async def receive_many(
        self: TypedReader[Any], most: int = 1000, timeout: float | None = None
    ) -> list[TypedMessage[Any]]:
        found = [await self._decoded(raw) for raw in await self._source.receive_many(most, timeout)]
        return [message for message in found if message is not None]

    patch.setattr(TypedReader, "receive_many", receive_many)


def published_unseen(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ValueCodec, "encode", lambda self, value: self._write(value))


def at_a_node(story: Callable[..., None]) -> Callable[[Path], None]:
    return lambda folder: story(folder, at_a_real_node)


@pytest.mark.parametrize(
    ("plant", "story"),
    [
        (
            skipped_in_silence,
            at_a_node(stories.test_what_cannot_be_decoded_is_an_error_with_the_message),
        ),
        (skipped_in_silence, at_a_node(stories.test_a_handler_gets_what_cannot_be_decoded)),
        (
            acknowledged_before_it_is_handled,
            stories.test_none_of_many_is_lost_at_one_that_cannot_be_decoded,
        ),
        (many_forget_the_rest, stories.test_none_of_many_is_lost_at_one_that_cannot_be_decoded),
        (published_unseen, stories.test_what_others_could_not_read_is_not_published),
    ],
)
def test_it_is_noticed(
    plant: Plant,
    story: Callable[[Path], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stories, "PATIENCE", 2.0)
    plant(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception, NodeError, TimeoutError)):
        story(tmp_path)
