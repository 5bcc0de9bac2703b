"""The same as `typed_groups` for programs with threads: `open_sync` and `connect_sync`."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar, cast

from causalcast.any_node import MessageFields
from causalcast.errors import Undecodable
from causalcast.typed_values import JSON, NotDecoded, ValueCodec
from causalcast.wrapped_message import WrappedMessage

T = TypeVar("T")


class AnySyncMessage(MessageFields, Protocol):
    """A message in a thread, with bytes."""

    def ack(self) -> None:
        """Say that it is handled."""

    def give_back(self) -> None:
        """Say that it could not be handled: it comes again next."""


OnSyncUndecodable = Callable[[AnySyncMessage, Undecodable], object]


class SyncTypedMessage(WrappedMessage[AnySyncMessage], Generic[T]):
    """A message with a value; `raw` is the message with bytes."""

    __slots__ = ("value",)

    def __init__(self, raw: AnySyncMessage, value: T) -> None:
        super().__init__(raw)
        self.value = value

    def ack(self) -> None:
        """Say that it is handled."""
        self.raw.ack()

    def give_back(self) -> None:
        """Say that it could not be handled: it comes again next."""
        self.raw.give_back()

    def __repr__(self) -> str:
        return f"<{self.raw!r} as {self.value!r}>"


class SyncTypedReader(Generic[T]):
    """What a reader takes, decoded. `untyped` is a `SyncGroup`, a reader of one, or a client's."""

    def __init__(
        self, untyped: Any, codec: ValueCodec[T], undecodable: OnSyncUndecodable | None
    ) -> None:
        self.untyped = untyped
        self._codec = codec
        self._undecodable = undecodable

    def receive(self, timeout: float | None = None) -> SyncTypedMessage[T] | None:
        """The next message; None if none has come after `timeout` seconds."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if until is None else max(0.0, until - time.monotonic())
            raw = cast(AnySyncMessage | None, self.untyped.receive(left))
            if raw is None:
                return None
            message = self._decoded(raw)
            if message is not None:
                return message

    def receive_many(
        self, most: int = 1000, timeout: float | None = None
    ) -> list[SyncTypedMessage[T]]:
        """The next messages: what waits, but at most `most`; one if none waits yet. Fewer, or none,
        where some cannot be decoded."""
        return self._all_decoded(list(self.untyped.receive_many(most, timeout)))

    def batches(
        self, most: int = 1000, timeout: float | None = None
    ) -> Iterator[list[SyncTypedMessage[T]]]:
        """All messages, as many together as wait, but at most `most`; ends when none has come for
        `timeout` seconds."""
        for raw in self.untyped.batches(most, timeout):
            messages = self._all_decoded(list(raw))
            if messages:
                yield messages

    def _all_decoded(self, waiting: list[AnySyncMessage]) -> list[SyncTypedMessage[T]]:
        """Those that carry values; what is behind one that does not comes again."""
        found: list[SyncTypedMessage[T]] = []
        try:
            while waiting:
                message = self._decoded(waiting[0])
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

    def messages(self, timeout: float | None = None) -> Iterator[SyncTypedMessage[T]]:
        """One message after the other, until none has come for `timeout` seconds."""
        while (message := self.receive(timeout)) is not None:
            yield message

    def __iter__(self) -> Iterator[SyncTypedMessage[T]]:
        return self.messages()

    def ack_many(self, messages: "Iterable[SyncTypedMessage[T]]") -> None:
        """Acknowledge all of them."""
        self.untyped.ack_many([message.raw for message in messages])

    def _decoded(self, raw: AnySyncMessage) -> SyncTypedMessage[T] | None:
        try:
            return SyncTypedMessage(raw, self._codec.decode(raw.payload, raw.content_type))
        except NotDecoded as error:
            failure = Undecodable(f"{raw!r} cannot be decoded: {error}", raw)
        if self._undecodable is None:
            raise failure
        try:
            self._undecodable(raw, failure)
        except BaseException:
            if not raw.is_given_back:
                raw.give_back()
            raise
        if not raw.is_given_back:
            raw.ack()
        return None


class SyncTypedGroup(SyncTypedReader[T]):
    """A group whose messages carry values of one type."""

    @property
    def name(self) -> str:
        """As in the configuration."""
        return cast(str, self.untyped.name)

    def __enter__(self) -> "SyncTypedGroup[T]":
        self.untyped.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.untyped.__exit__(*error)

    def publish(self, value: T, headers: Mapping[str, str] | None = None) -> Any:
        """Publish `value`; returns a receipt when it is durable. NodeError, and nothing is
        published, if others could not decode it."""
        return self.untyped.publish(self._codec.encode(value), headers, JSON)

    def publish_many(self, values: Sequence[T]) -> Any:
        """Publish all of them in this order; returns receipts when all are durable."""
        payloads = [self._codec.encode(value) for value in values]
        return self.untyped.publish_many(payloads, content_type=JSON)


def typed_sync(
    group: Any, kind: type[T], undecodable: OnSyncUndecodable | None = None
) -> SyncTypedGroup[T]:
    """A group of a thread with values of the type `kind`."""
    return SyncTypedGroup(group, ValueCodec(kind), undecodable)
