"""Messages that wait, found again by what they lack.

A message stands in the queue of one thing it lacks, such as *more messages of that sender*. Only
when there is more of it is the message looked at again. So a message that arrives late costs a look
at those that waited for it, never at everything that waits.
"""

from typing import final

from causalcast.core.ids import NodeId
from causalcast.core.message import Message

Entry = tuple[NodeId, Message]  # sender and message
Lack = tuple[int, int]  # a group (or nothing) and a node: its messages to that group


@final
class WaitingRoom:
    """What is to be looked at, and what waits for which lack."""

    def __init__(self) -> None:
        self._new: list[Entry] = []
        self._queues: dict[Lack, list[Entry]] = {}

    def enter(self, sender: NodeId, message: Message) -> None:
        """Something arrived, and is to be looked at."""
        self._new.append((sender, message))

    def next(self) -> Entry | None:
        """What is to be looked at now, in the order it came; it is out of the room."""
        return self._new.pop(0) if self._new else None

    def wait(self, lack: Lack, entry: Entry) -> None:
        """It has to wait for this."""
        self._queues.setdefault(lack, []).append(entry)

    def wake(self, lack: Lack) -> None:
        """There is more of this: look at all that wait for it."""
        self._new += self._queues.pop(lack, [])

    def wake_all(self) -> None:
        """Anything may be ready now."""
        for queue in self._queues.values():
            self._new += queue
        self._queues = {}

    def entries(self) -> list[Entry]:
        """Everything in the room."""
        return [*self._new, *(entry for queue in self._queues.values() for entry in queue)]

    def lacks(self) -> list[Lack]:
        """All that is waited for."""
        return list(self._queues)

    def leave_only(self, entries: list[Entry]) -> None:
        """Everything else is forgotten; what stays is to be looked at."""
        self._new, self._queues = list(entries), {}

    def size(self) -> int:
        """How many are in the room."""
        return len(self._new) + sum(len(queue) for queue in self._queues.values())
