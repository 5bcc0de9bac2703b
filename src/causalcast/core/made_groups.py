"""Groups that are made and removed while the system runs, as one node knows them.

News of them are publications to a group of their own, which reaches everybody: whoever publishes to
a group knows that it was made, so in causal order nobody hears of a publication before that. Two
nodes that make a group of the same name make the same one, because its id follows from the name and
from how often a group of that name was removed before. News may come in any order that causality
leaves open: what counts for a name is the last epoch that was made and the last that was removed,
and both only grow, so all nodes end with the same groups.
"""

import hashlib
from typing import Final, final

from causalcast.core.ids import NODE_LIMIT, GroupId

FIRST_MADE: Final = 1 << 20  # ids from here on are of groups that were made
NEWS: Final = GroupId(NODE_LIMIT - 1)  # of groups, to everybody
_IDS: Final = NODE_LIMIT - 1 - FIRST_MADE
MAKE: Final = "make"
REMOVE: Final = "remove"


@final
class News:
    """That somebody made or removed a group."""

    def __init__(self, kind: str, name: str, epoch: int, salt: int = 0) -> None:
        self.kind = kind
        self.name = name
        self.epoch = epoch  # which of the groups that ever had this name
        self.salt = salt  # so that its id is nobody else's

    def encode(self) -> bytes:
        """As it travels."""
        return f"{self.kind} {self.epoch} {self.salt} {self.name}".encode()


def decode_news(body: bytes) -> News | None:
    """The news in a body; None if there are none."""
    try:
        kind, epoch, salt, name = body.decode().split(" ", 3)
        news = News(kind, name, int(epoch), int(salt))
    except ValueError:
        return None
    is_known = kind in (MAKE, REMOVE) and name != "" and news.epoch > 0 and news.salt >= 0
    return news if is_known and news.encode() == body else None


def id_of_made(name: str, epoch: int, salt: int) -> GroupId:
    """Which id a made group has."""
    text = f"{epoch} {salt} {name}".encode()
    drawn = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
    return GroupId(FIRST_MADE + drawn % _IDS)


@final
class Change:
    """What news have changed: groups that there are from now on, and that there are no longer."""

    def __init__(self) -> None:
        self.made: list[GroupId] = []
        self.removed: list[GroupId] = []
        self.contested: list[GroupId] = []  # of two groups; nobody can use either


@final
class _Known:
    """What is known of a name."""

    __slots__ = ("epoch", "removed", "salt")

    def __init__(self, epoch: int, salt: int, removed: int) -> None:
        self.epoch = epoch  # the last that was made
        self.salt = salt  # of that
        self.removed = removed  # the last that was removed; all before it are too


# Name, epoch, salt, removed epoch, whether it is contested.
Standing = tuple[str, int, int, int, bool]


@final
class MadeGroups:
    """All names that were ever used, and the groups that there are."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._names: dict[GroupId, str] = {}  # of the groups that there are
        self._contested: dict[GroupId, None] = {}

    def __len__(self) -> int:
        return len(self._names)

    def known_names(self) -> int:
        """How many names are remembered, those of removed groups among them."""
        return len(self._known)

    def names(self) -> list[str]:
        """The groups that there are, in the order in which this node heard of them."""
        return list(self._names.values())

    def has(self, group: GroupId) -> bool:
        """Whether there is a made group of that id."""
        return group in self._names

    def name_of(self, group: GroupId) -> str:
        """The name of a group that there is; empty if there is none."""
        return self._names.get(group, "")

    def was_removed(self, name: str) -> bool:
        """Whether there was a group of this name, and there is none any more."""
        known = self._known.get(name)
        return known is not None and known.epoch <= known.removed

    def id_of(self, name: str) -> GroupId | None:
        """The id of a group that there is."""
        known = self._known.get(name)
        if known is None or known.epoch <= known.removed:
            return None
        return id_of_made(name, known.epoch, known.salt)

    def is_contested(self, group: GroupId) -> bool:
        """Whether two groups have this id: nobody can use either."""
        return group in self._contested

    def making(self, name: str) -> News:
        """The news that make a group of this name."""
        known = self._known.get(name)
        epoch = 1 if known is None else known.removed + 1
        salt = 0
        while id_of_made(name, epoch, salt) in self._names:
            salt += 1
        return News(MAKE, name, epoch, salt)

    def removing(self, name: str) -> News:
        """The news that remove the group of this name, which there is."""
        return News(REMOVE, name, self._known[name].epoch)

    def take(self, news: News) -> Change:
        """Believe news; they may be old, or known."""
        change = Change()
        known = self._known.get(news.name)
        if known is None:
            known = self._known[news.name] = _Known(0, 0, 0)
        if news.kind == REMOVE:
            self._remove(news, known, change)
        elif news.epoch > known.removed:
            self._make(news, known, change)
        return change

    def _make(self, news: News, known: _Known, change: Change) -> None:
        group = id_of_made(news.name, news.epoch, news.salt)
        if news.epoch == known.epoch:
            if news.salt != known.salt:  # two made it who knew different others
                mine = id_of_made(news.name, known.epoch, known.salt)
                self._contest(mine, change)
            return
        if news.epoch < known.epoch:
            return
        if self.id_of(news.name) is not None:  # its removal is not here yet
            self._remove(News(REMOVE, news.name, known.epoch), known, change)
        known.epoch, known.salt = news.epoch, news.salt
        if group in self._names:
            self._contest(group, change)
        else:
            self._names[group] = news.name
            change.made.append(group)

    def _contest(self, group: GroupId, change: Change) -> None:
        self._contested[group] = None
        change.contested.append(group)

    def _remove(self, news: News, known: _Known, change: Change) -> None:
        if known.removed < known.epoch <= news.epoch:
            group = id_of_made(news.name, known.epoch, known.salt)
            if self._names.get(group) == news.name:
                del self._names[group]
                self._contested.pop(group, None)
                change.removed.append(group)
        known.removed = max(known.removed, news.epoch)

    def standing(self) -> list[Standing]:
        """All of it, for `restore`."""
        return [
            (name, one.epoch, one.salt, one.removed, self._is_contested(name, one))
            for name, one in self._known.items()
        ]

    def restore(self, standing: list[Standing]) -> None:
        """What was known before a restart."""
        for name, epoch, salt, removed, is_contested in standing:
            self._known[name] = _Known(epoch, salt, removed)
            if epoch > removed:
                group = id_of_made(name, epoch, salt)
                self._names.setdefault(group, name)
                if is_contested:
                    self._contested[group] = None

    def _is_contested(self, name: str, known: _Known) -> bool:
        return id_of_made(name, known.epoch, known.salt) in self._contested
