"""Messages that wait, found again by what is missing.

A message stands in the queue of one thing that is missing, such as *more messages of that sender*.
Only when there is more of it is the message looked at again. So a message that arrives late costs a
look at those that waited for it, never at everything that waits.
"""

from typing import final

from causalcast.core.ids import MessageId, NodeId
from causalcast.core.message import Message
from causalcast.parts.addressed.addressed_messages import Numbered, Waiting, publication_in
from causalcast.parts.safe_keeping import Name

Entry = tuple[NodeId, Numbered]  # sender and message
Missing = tuple[int, int]  # a group (or nothing) and a node: its messages to that group


@final
class WaitingRoom:
    """What is to be looked at, and what waits until something that is missing comes."""

    def __init__(self) -> None:
        self._new: list[Entry] = []
        self._queues: dict[Missing, list[Entry]] = {}
        self._names: dict[tuple[NodeId, Name], None] = {}  # of everything in the room

    def enter(self, sender: NodeId, message: Numbered) -> None:
        """Something arrived, and is to be looked at."""
        self._names[sender, message.name] = None
        self._new.append((sender, message))

    def next(self) -> Entry | None:
        """What is to be looked at now, in the order it came; it is out of the room."""
        if not self._new:
            return None
        sender, message = self._new.pop(0)
        del self._names[sender, message.name]
        return sender, message

    def wait(self, missing: Missing, entry: Entry) -> None:
        """It has to wait for this."""
        self._names[entry[0], entry[1].name] = None
        self._queues.setdefault(missing, []).append(entry)

    def wake(self, missing: Missing) -> None:
        """There is more of this: look at all that wait for it."""
        self._new += self._queues.pop(missing, [])

    def wake_all(self) -> None:
        """Anything may be ready now."""
        for queue in self._queues.values():
            self._new += queue
        self._queues = {}

    def has(self, sender: NodeId, name: Name) -> bool:
        """Whether the message of this name is in the room."""
        return (sender, name) in self._names

    def with_publication(self, publication: MessageId) -> Entry | None:
        """The message in the room that brings this publication."""
        for entry in self.entries():
            inside = publication_in(entry[1])
            if inside is not None and inside.id == publication:
                return entry
        return None

    def entries(self) -> list[Entry]:
        """Everything in the room."""
        return [*self._new, *(entry for queue in self._queues.values() for entry in queue)]

    def missing(self) -> list[Missing]:
        """All that is waited for."""
        return list(self._queues)

    def leave_only(self, entries: list[Entry]) -> None:
        """Everything else is forgotten; what stays is to be looked at."""
        self._new, self._queues = list(entries), {}
        self._names = {(sender, message.name): None for sender, message in entries}

    def restore(self, record: Message) -> None:
        """Take in a record of a snapshot."""
        if isinstance(record, Waiting) and isinstance(record.message, Numbered):
            self.enter(record.sender, record.message)

    def snapshot(self) -> list[Message]:
        """Records for a restart."""
        return [Waiting(sender, message) for sender, message in self.entries()]

    def size(self) -> int:
        """How many are in the room."""
        return len(self._new) + sum(len(queue) for queue in self._queues.values())
