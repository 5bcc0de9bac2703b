"""Groups whose messages carry values of one type, at any kind of node.

    async with node.group("chat", type=Said) as chat:
        await chat.publish(Said("Ada", "hello"))
        async for message in chat:
            print(message.value.text)
            await message.ack()

A payload that is no such value goes to the handler `undecodable`, or is an `Undecodable` error that
has the raw message. Nothing is skipped in silence.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, TypeVar, cast

from causalcast.any_node import AnyGroup, AnyMessage, AnyReader, AnyReceipt, Since
from causalcast.errors import NodeError, Undecodable
from causalcast.typed_values import JSON, NotDecoded, ValueCodec
from causalcast.wrapped_message import WrappedMessage

T = TypeVar("T")

# Gets the raw message and why it was not decoded. What it returns from is acknowledged, unless it
# gave the message back.
OnUndecodable = Callable[[AnyMessage, Undecodable], object]


class TypedMessage(WrappedMessage[AnyMessage], Generic[T]):
    """A message with a value. It comes again until it is acknowledged."""

    __slots__ = ("value",)

    def __init__(self, raw: AnyMessage, value: T) -> None:
        super().__init__(raw)
        self.value = value

    async def ack(self) -> None:
        """Say that it is handled."""
        await self.raw.ack()

    def give_back(self) -> None:
        """Say that it could not be handled: it comes again next."""
        self.raw.give_back()

    def __repr__(self) -> str:
        return f"<{self.raw!r} as {self.value!r}>"


class TypedReader(Generic[T]):
    """What a reader takes, decoded."""

    def __init__(
        self, source: AnyReader, codec: ValueCodec[T], undecodable: OnUndecodable | None
    ) -> None:
        self._source = source
        self._codec = codec
        self._undecodable = undecodable

    def __aiter__(self) -> AsyncIterator[TypedMessage[T]]:
        return self

    async def __anext__(self) -> TypedMessage[T]:
        """The next message; cancelling this loses none."""
        while True:
            message = await self._decoded(await self._source.__anext__())
            if message is not None:
                return message

    async def receive(self, timeout: float | None = None) -> TypedMessage[T] | None:
        """The next message; None if none has come after `timeout` seconds."""
        loop = asyncio.get_running_loop()
        until = None if timeout is None else loop.time() + timeout
        while True:
            left = None if until is None else max(0.0, until - loop.time())
            raw = await self._source.receive(left)
            if raw is None:
                return None
            message = await self._decoded(raw)
            if message is not None:
                return message

    async def receive_many(
        self, most: int = 1000, timeout: float | None = None
    ) -> list[TypedMessage[T]]:
        """The next messages: what waits, but at most `most`; one if none waits yet. Fewer, or none,
        where some cannot be decoded."""
        waiting = list(await self._source.receive_many(most, timeout))
        found: list[TypedMessage[T]] = []
        try:
            while waiting:
                message = await self._decoded(waiting[0])
                waiting.pop(0)
                if message is not None:
                    found.append(message)
        except Undecodable:
            if not found:
                waiting.pop(0)  # it is in the error
                raise
        finally:
            for raw in reversed(waiting):  # what is given back comes next
                if not raw.is_given_back:
                    raw.give_back()
        return found

    async def batches(self, most: int = 1000) -> AsyncIterator[list[TypedMessage[T]]]:
        """All messages from now on, as many together as wait, but at most `most`."""
        while True:
            messages = await self.receive_many(most)
            if messages:
                yield messages

    async def ack_many(self, messages: "Iterable[TypedMessage[T]]", durable: bool = False) -> None:
        """Acknowledge all of them; with `durable`, at a real node, it returns when all marks are on
        disk."""
        raw = [message.raw for message in messages]
        if durable:
            await cast(Any, self._source).ack_many(raw, durable=True)
        else:
            await self._source.ack_many(raw)

    def on_message(self, callback: Callable[[TypedMessage[T]], object]) -> None:
        """Call `callback` with every message from now on, instead of iterating. Without a handler
        for it, what cannot be decoded goes to the loop's exception handler and is not
        acknowledged."""

        async def handle(raw: AnyMessage) -> None:
            message = await self._decoded(raw)
            if message is not None:
                result = callback(message)
                if inspect.isawaitable(result):
                    await result

        self._source.on_message(handle)

    async def _decoded(self, raw: AnyMessage) -> TypedMessage[T] | None:
        """The message with its value; None if the handler for undecodable ones has it."""
        try:
            return TypedMessage(raw, self._codec.decode(raw.payload, raw.content_type))
        except NotDecoded as error:
            failure = Undecodable(f"{raw!r} cannot be decoded: {error}", raw)
        if self._undecodable is None:
            raise failure
        try:
            result = self._undecodable(raw, failure)
            if inspect.isawaitable(result):
                await result
        except BaseException:
            if not raw.is_given_back:
                _give_back(raw)
            raise
        if not raw.is_given_back:
            await raw.ack()
        return None


def _give_back(raw: AnyMessage) -> None:
    """Unless its handler has acknowledged it before it failed."""
    try:
        raw.give_back()
    except NodeError:
        return


class TypedGroup(TypedReader[T]):
    """A group whose messages carry values of one type."""

    def __init__(
        self, group: AnyGroup, codec: ValueCodec[T], undecodable: OnUndecodable | None
    ) -> None:
        super().__init__(group, codec, undecodable)
        self.untyped = group  # the same group, with bytes

    @property
    def name(self) -> str:
        """As in the configuration."""
        return self.untyped.name

    async def __aenter__(self) -> "TypedGroup[T]":
        await self.untyped.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        await self.untyped.__aexit__(kind, error, traceback)

    async def publish(self, value: T, headers: Mapping[str, str] | None = None) -> AnyReceipt:
        """Publish `value`; returns when it is durable at the node. NodeError, and nothing is
        published, if others could not decode it."""
        return await self.untyped.publish(self._codec.encode(value), headers, JSON)

    async def publish_many(self, values: Sequence[T]) -> Sequence[AnyReceipt]:
        """Publish all of them in this order; returns when all are durable."""
        return await self.untyped.publish_many(
            [self._codec.encode(value) for value in values], content_type=JSON
        )

    async def subscribe(self, name: str, since: Since = "now") -> TypedReader[T]:
        """The reader `name`, with acknowledgements of its own."""
        reader = await self.untyped.subscribe(name, since)
        return TypedReader(reader, self._codec, self._undecodable)

    async def unsubscribe(self, name: str) -> None:
        """End the reader `name`: nothing is kept for it any more."""
        await self.untyped.unsubscribe(name)


def typed(
    group: AnyGroup, kind: type[T], undecodable: OnUndecodable | None = None
) -> TypedGroup[T]:
    """A group with values of the type `kind`."""
    return TypedGroup(group, ValueCodec(kind), undecodable)
