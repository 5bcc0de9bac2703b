"""Messages that were processed here and that not all targets have confirmed.

They are found by any number they were given.
"""

from typing import Final

from causalcast.core.ids import NodeId
from causalcast.core.message import Message
from causalcast.parts.kept_weight import KEPT_OVERHEAD
from causalcast.parts.tree.neighbourhood import NOBODY, Pair
from causalcast.protocols.locamu.messages import Copy, Key, key_of
from causalcast.protocols.locamu.safe_path import Numbers, Stamp, Stamped

STANDBY_BYTES: Final = 500  # that a publisher's own numbers and dependencies take, roughly


class Standby:
    """All that a publisher would send of one of its messages: its numbers for everybody within its
    reach, and all that the message depends on."""

    def __init__(self, numbers: dict[NodeId, int], needs: dict[Pair, int]) -> None:
        self.numbers = numbers
        self.needs = needs
        self.sent_at: dict[NodeId, int] = {}  # when it was sent in the publisher's place
        self.answered: dict[NodeId, None] = {}  # who has it, as they said when it was sent so
        self.tries = 0  # how often that was in vain


class Record(Stamped):
    """A message, and how far its way onward is known to be done.

    `needs` is the past when the message was processed. It never changes: a message that took on
    later dependencies when it is repeated would wait for its own successors.
    """

    def __init__(
        self,
        message: Message,
        origin: NodeId,
        epoch: int,
        back: NodeId,
        numbers: Numbers,
        at: int,
    ) -> None:
        super().__init__(origin, epoch, back, numbers)
        self.message = message
        body = message.publication.body if isinstance(message, Copy) else b""
        self.weight = KEPT_OVERHEAD + len(body)  # bytes, roughly
        self.since = at  # when it was processed here
        self.needs: dict[Pair, int] = {}
        self.targets: dict[NodeId, int] = {}  # whom I numbered it for
        self.handed_on: dict[NodeId, None] = {}  # targets that are not on its way onward from here
        self.apart: dict[NodeId, int] = {}  # numbers for me without the vector they are of
        self.heard_from: dict[NodeId, None] = {}  # who sent it here, and so told its numbers
        self.standby: Standby | None = None  # to stand in for its publisher
        self.is_complete = False  # all its numbers were seen to be known here; they never get lost
        self.complete_at: dict[NodeId, None] = {}  # targets that have it and know all its numbers
        self.known_at: dict[NodeId, dict[NodeId, None]] = {}  # targets that have it: whose numbers
        self.sent: dict[NodeId, list[NodeId]] = {}  # whose numbers the last copy to a target had
        self.given: dict[NodeId, None] = {}  # targets that were ever sent a copy from here
        self.is_finished = False  # and those who might stand in for this node are told so
        self.held_at: dict[NodeId, None] = {}  # targets where my copy waits, on this link
        self.tried_at: dict[NodeId, int] = {}  # when it was last sent to a target or asked after
        self.tries: dict[NodeId, int] = {}  # how often that was in vain

    def forget_tries(self, node: NodeId) -> None:
        """There is another link to a target, or none: what it was sent may be lost."""
        self.sent.pop(node, None)
        self.held_at.pop(node, None)
        self.tries.pop(node, None)

    def is_numbered(self, issuer: NodeId, node: NodeId) -> bool:
        """Whether it is known how an issuer numbered it for a node."""
        return issuer in self.numbers and node in self.numbers[issuer]

    def numbers_for(self, node: NodeId) -> dict[NodeId, int]:
        """Who numbered it for a node, and how."""
        return {issuer: vector[node] for issuer, vector in self.numbers.items() if node in vector}

    def onward(self) -> dict[NodeId, int]:
        """The targets on the message's normal path, without those it is handed on to in place of a
        node that failed."""
        return {node: number for node, number in self.targets.items() if node not in self.handed_on}

    def given_by_others(self, me: NodeId) -> Stamp:
        """A number by which it is found after a crash, too: its own ones may have been added to."""
        return next(stamp for stamp in self.stamps() if stamp[0] != me)


class MessageLog:
    """The records in the order they were processed, and where each number leads."""

    def __init__(self, me: NodeId) -> None:
        self.me = me
        self.records: dict[Record, None] = {}
        self.own: dict[Record, None] = {}  # those that were published here
        self.open: dict[NodeId, dict[Record, None]] = {}  # by targets that may not be complete
        self.standbys: dict[NodeId, dict[Record, None]] = {}  # by publishers to stand in for
        self._index: dict[Stamp, Record] = {}
        self._by_key: dict[Key, Record] = {}
        self.kept_bytes = 0  # that the records take, roughly

    def add(self, record: Record) -> None:
        """Keep a record."""
        self.records[record] = None
        self.kept_bytes += record.weight
        if record.back == NOBODY:
            self.own[record] = None
        self.open_for(record, record.targets)
        for stamp in record.stamps():
            self._index[stamp] = record
        self._by_key[key_of(record.message)] = record
        if record.standby is not None:
            self.stand_by(record, record.standby)

    def stand_by(self, record: Record, standby: Standby) -> None:
        """This node can stand in for the publisher of a record."""
        record.standby = standby
        records = self.standbys.setdefault(record.origin, {})
        if record not in records:
            records[record] = None
            self.kept_bytes += STANDBY_BYTES

    def named(self, key: Key) -> Record | None:
        """The message with this key."""
        return self._by_key.get(key)

    def open_for(self, record: Record, targets: dict[NodeId, int]) -> None:
        """These targets have to confirm a record."""
        for node in targets:
            self.open.setdefault(node, {})[record] = None

    def close_for(self, record: Record, node: NodeId) -> None:
        """A target confirmed a record."""
        record.complete_at[node] = None
        if node in self.open:
            self.open[node].pop(record, None)

    def at(self, stamp: Stamp) -> Record | None:
        """The message that was given this number."""
        return self._index.get(stamp)

    def find(self, stamps: list[Stamp]) -> Record | None:
        """The message that was given one of these numbers."""
        for stamp in stamps:
            record = self._index.get(stamp)
            if record is not None:
                return record
        return None

    def learn(self, record: Record, origin: NodeId, numbers: Numbers) -> Numbers:
        """Take over numbers and the origin of a further copy; what was new comes back."""
        news: Numbers = {}
        for issuer, vector in numbers.items():
            if issuer not in record.numbers:
                record.numbers[issuer] = {}
                news[issuer] = {}
            known = record.numbers[issuer]
            for node, number in vector.items():
                if node not in known:
                    known[node] = number
                    self._index[issuer, node, number] = record
                    news.setdefault(issuer, {})[node] = number
        if record.origin == NOBODY:
            record.origin = origin
        return news

    def note_apart(self, record: Record, issuer: NodeId, number: int) -> None:
        """Of a node's numbers for it only the one for me is known: it was handed on, or named."""
        record.apart[issuer] = number
        self._index[issuer, self.me, number] = record

    def remove(self, record: Record) -> None:
        """Forget a record."""
        del self.records[record]
        self.kept_bytes -= record.weight
        self.own.pop(record, None)
        for node in record.targets:
            if node in self.open:
                self.open[node].pop(record, None)
        for stamp in record.stamps():
            self._index.pop(stamp, None)
        self._by_key.pop(key_of(record.message), None)
        if record.standby is not None:
            self.kept_bytes -= STANDBY_BYTES
            self.standbys[record.origin].pop(record, None)
        for issuer, number in record.apart.items():
            self._index.pop((issuer, self.me, number), None)

    def numbers_onward(self) -> list[Numbers]:
        """The numbers of all records, without those that were given to hand them on."""
        return [
            {**record.numbers, self.me: record.onward()} if record.handed_on else record.numbers
            for record in self.records
        ]

    def size(self) -> int:
        """Numbers kept."""
        return len(self._index)
