"""How a group is read, whoever has it: a real node, one of the test kit, or a client."""

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Generic, TypeVar

from causalcast.any_node import AnyMessage
from causalcast.errors import NodeError
from causalcast.runtime.received_message import as_many

Received = TypeVar("Received", bound=AnyMessage)


class GroupReader(ABC, Generic[Received]):
    """One reader at a time: what one takes no other gets."""

    _calling: "asyncio.Task[None] | None" = None  # that of `on_message`

    @abstractmethod
    def _take(self) -> Received | None:
        """What waits; None if one may wait for the next."""

    @abstractmethod
    async def _arrival(self) -> None:
        """Return when something may be there."""

    async def _let_others_have_their_turn(self) -> None:
        """Now and then, before something is taken."""

    def __aiter__(self) -> AsyncIterator[Received]:
        return self

    async def __anext__(self) -> Received:
        """The next message; cancelling this loses none, for none is taken before it is returned."""
        await self._let_others_have_their_turn()
        while True:
            message = self._take()
            if message is not None:
                return message
            await self._arrival()

    async def receive(self, timeout: float | None = None) -> Received | None:
        """The next message; None if none has come after `timeout` seconds.

        With a timeout of 0 that is what waits already, or None.
        """
        await self._let_others_have_their_turn()
        message = self._take()
        if message is None and (timeout is None or timeout > 0):
            try:
                async with asyncio.timeout(timeout):
                    message = await anext(self)
            except TimeoutError:
                return None
        return message

    async def receive_many(self, most: int = 1000, timeout: float | None = None) -> list[Received]:
        """The next messages: what waits, but at most `most`; one if none waits yet. Empty if none
        has come after `timeout` seconds."""
        return await as_many(self.receive, self._take, most, timeout)

    async def batches(self, most: int = 1000) -> AsyncIterator[list[Received]]:
        """All messages from now on, as many together as wait, but at most `most`: one transaction
        and one `ack_many` for all of them. A loop that is left or cancelled has lost none."""
        while True:
            yield await self.receive_many(most)

    async def ack_many(self, messages: Iterable[AnyMessage]) -> None:
        """Acknowledge all of them."""
        for message in messages:
            await message.ack()

    def on_message(self, callback: Callable[[Received], object]) -> None:
        """Call `callback` with every message from now on, instead of iterating.

        It may be an asynchronous function: then it is awaited, one message after the other. What it
        returns from is acknowledged, unless it gave it back; what it fails at is not, and goes to
        the loop's exception handler.
        """
        self._check_not_called()
        self._calling = asyncio.get_running_loop().create_task(self._call(callback))

    def stop_calling(self) -> None:
        """Let the callback of `on_message`, if there is one, hear no more."""
        if self._calling is not None:
            self._calling.cancel()
            self._calling = None

    def _check_not_called(self) -> None:
        """Raise if a callback has the messages, unless this is its own task."""
        if self._calling not in (None, asyncio.current_task()):
            raise NodeError("this group is read already, by a callback (on_message)")

    async def _call(self, callback: Callable[[Received], object]) -> None:
        while True:
            try:
                message = await anext(self)
            except NodeError as error:
                _report({"message": "no more messages come", "exception": error})
                return
            try:
                result = callback(message)
                if inspect.isawaitable(result):
                    await result
                if not message.is_given_back:
                    await message.ack()
            except Exception as error:
                _report({"message": f"handling {message!r} failed", "exception": error})


def _report(problem: dict[str, Any]) -> None:
    asyncio.get_running_loop().call_exception_handler(problem)
