"""Who reads which group: the plain reader that every group has, and those with names.

A delivery owes itself to everybody who read its group when its step was taken. That is a set of
bits, one for each reader; it is settled in the order of the journal, so a restart finds the same.
"""

from typing import Final, final

from causalcast.core.ids import GroupId
from causalcast.errors import NodeError
from causalcast.limits import Limit

MOST_READERS: Final = Limit(
    "runtime.storage.reader_table.most_readers",
    16,
    least=1,
    most=32,
    unit="readers",
    about="readers with names that a group of a node may have",
)
LONGEST_NAME: Final = Limit(
    "runtime.storage.reader_table.longest_name",
    200,
    least=1,
    most=4096,
    unit="characters",
    about="the name of a reader",
)
PLAIN: Final = 1  # the bit of the reader without a name
_BITS: Final = 62  # what an entry of the journal can hold

# How a reader stands.
ENDED: Final = 0
READS: Final = 1
LOST: Final = 2  # it fell too far behind, and was ended; its application has to hear of it


@final
class NamedReader:
    """One reader with a name."""

    __slots__ = ("bit", "group", "is_lost", "name")

    def __init__(self, group: GroupId, bit: int, name: str) -> None:
        self.group = group
        self.bit = bit
        self.name = name
        self.is_lost = False


@final
class ReaderTable:
    """The readers of all groups of a node."""

    def __init__(self) -> None:
        self.owed: dict[GroupId, int] = {}  # who reads; the plain one alone where it says nothing
        self._named: dict[GroupId, dict[str, NamedReader]] = {}
        self._last: dict[GroupId, int] = {}  # the bit that was given last

    def owed_in(self, group: GroupId) -> int:
        """Whom a delivery of `group` is for."""
        return self.owed.get(group, PLAIN)

    def find(self, group: GroupId, name: str) -> NamedReader | None:
        """The reader of that name; one that was lost, too."""
        return self._named.get(group, {}).get(name)

    def named(self) -> list[NamedReader]:
        """All readers with names, group by group, in the order in which they began."""
        return [reader for of_group in self._named.values() for reader in of_group.values()]

    def next_bit(self, group: GroupId) -> int:
        """A bit for a new reader: not soon one that somebody had before, for deliveries that are
        under way still name that one."""
        taken = {reader.bit for reader in self._named.get(group, {}).values()}
        if len(taken) >= MOST_READERS.value:
            raise NodeError(
                f"the group has {len(taken)} readers with names, and may not have more: end those "
                "that are not needed any more (`unsubscribe`)"
            )
        bit = self._last.get(group, PLAIN)
        while True:
            bit = bit << 1 if bit < 1 << (_BITS - 1) else PLAIN << 1
            if bit not in taken:
                return bit

    def note(self, group: GroupId, bit: int, name: str, state: int) -> None:
        """How one reader stands from now on."""
        owed = self.owed.get(group, PLAIN)
        self.owed[group] = owed | bit if state == READS else owed & ~bit
        if bit == PLAIN:
            return
        named = self._named.setdefault(group, {})
        if state == ENDED:
            named.pop(name, None)
        else:
            if name not in named:
                named[name] = NamedReader(group, bit, name)
                self._last[group] = bit
            named[name].is_lost = state == LOST

    def forget(self, group: GroupId) -> None:
        """The group is no more, and nobody reads it."""
        self.owed.pop(group, None)
        self._last.pop(group, None)
        self._named.pop(group, None)

    def standing(self) -> list[tuple[GroupId, int, str, int]]:
        """What `note` has to be told to get to where this is."""
        told = [(group, PLAIN, "", ENDED) for group, owed in self.owed.items() if not owed & PLAIN]
        for reader in self.named():
            state = LOST if reader.is_lost else READS
            told.append((reader.group, reader.bit, reader.name, state))
        return told


def check_name(name: str) -> None:
    """Raise NodeError unless a reader may be called this."""
    if not isinstance(name, str) or not name or len(name) > LONGEST_NAME.value:
        raise NodeError(
            f"{name!r} is no name of a reader: expected a text of 1 to {LONGEST_NAME.value} "
            "characters"
        )
