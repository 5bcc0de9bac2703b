"""A reader with a name: it gets every message of a group, whoever else reads it.

search = await node.group("chat").subscribe("search")
async for message in search:
    index(message.payload)
    await message.ack()                      # the mark of "search", and of nobody else
"""

import asyncio
from collections.abc import Iterable

from causalcast.any_node import AnyMessage
from causalcast.limits import Limit
from causalcast.runtime.group_reader import GroupReader
from causalcast.runtime.host.host import Host
from causalcast.runtime.host.inbox import NamedInbox
from causalcast.runtime.host.readers import ReaderHandle
from causalcast.runtime.received_message import ReceivedMessage, ack_many

# An application that finds something waiting every time lets the links have their turn after this.
MESSAGES_PER_TURN = Limit(
    "runtime.reader.messages_per_turn",
    64,
    least=2,
    most=1 << 16,
    unit="messages",
    about="taken by one reader before others have their turn",
)


class TakesTurns:
    """Lets a reader for whom something waits every time stop now and then."""

    def __init__(self, host: Host) -> None:
        self._pressure = host.parts.pressure
        self._taken = 0  # since the last pause

    async def one_more(self) -> None:
        """Before something is taken."""
        self._taken += 1
        if self._taken % MESSAGES_PER_TURN.value == 1:
            self.note_reader()
        elif self._taken % MESSAGES_PER_TURN.value == 0:
            await asyncio.sleep(0)

    def note_reader(self) -> None:
        """The task that takes messages must not wait for itself when it publishes."""
        reader = asyncio.current_task()
        if reader is not None:
            self._pressure.readers.add(reader)


class Reader(GroupReader[ReceivedMessage]):
    """What a group delivers, for one reader with a name; it goes on where it was after a restart.

    Each has its own acknowledgements. One at a time reads under a name.
    """

    def __init__(self, host: Host, named: NamedInbox, group: str) -> None:
        self.name = named.of.name
        self.group = group
        parts = host.parts
        self._host = host
        self._handle = ReaderHandle(parts.readers, host.inbox, parts.acknowledgements, named)
        self._turns = TakesTurns(host)

    async def receive_many(
        self, most: int = 1000, timeout: float | None = None
    ) -> list[ReceivedMessage]:
        """The next messages: what waits, but at most `most`; one if none waits yet. Empty if none
        has come after `timeout` seconds."""
        await asyncio.sleep(0)  # before anything is taken: whoever is cancelled loses nothing
        return await super().receive_many(most, timeout)

    async def ack_many(self, messages: Iterable[AnyMessage], durable: bool = False) -> None:
        """Acknowledge all of them; with `durable` it returns when all marks are on disk."""
        await ack_many(messages, durable)

    def _take(self) -> ReceivedMessage | None:
        self._host.running.check_alive()
        self._check_not_called()
        publication = self._handle.take()
        if publication is None:
            return None
        return ReceivedMessage(self._handle, publication, self.group)

    async def _arrival(self) -> None:
        await self._handle.arrival()

    async def _let_others_have_their_turn(self) -> None:
        await self._turns.one_more()

    def __repr__(self) -> str:
        return f"<reader {self.name!r} of {self.group!r}>"
