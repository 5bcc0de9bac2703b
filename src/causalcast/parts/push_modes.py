"""Whether a link pushes messages or only announces them: one mode for all, or one per origin.

A mode is a hint that shapes a spanning tree. Nothing that must be true depends on it, so the table
may forget: an origin that is forgotten is pushed again, and its tree is learnt once more.
"""

from typing import Final, final

from causalcast.core.ids import MessageId, NodeId, origin_of

ALL: Final = NodeId(-1)
TREES: Final = ["shared", "source"]  # by name: one for all; one per origin
ROOT: Final = "root"  # one for all that messages do not shape (`root_tree`)


@final
class PushModes:
    """The origins whose messages a link only announces; `ALL` stands for the shared tree."""

    def __init__(self, tree: str, most: int) -> None:
        self._per_origin = tree == "source"
        self._is_given = tree == ROOT
        self._most = most  # origins remembered
        self._lazy: dict[NodeId, None] = {}

    def is_eager(self, message: MessageId) -> bool:
        """Whether `message` is to be pushed."""
        return not self._lazy or self._key(message) not in self._lazy

    def make_eager(self, message: MessageId) -> None:
        """Push messages like this one from now on."""
        if self._lazy and not self._is_given:
            self._lazy.pop(self._key(message), None)

    def make_lazy(self, message: MessageId) -> None:
        """Only announce messages like this one from now on."""
        if self._is_given:
            return
        self._lazy[self._key(message)] = None
        if len(self._lazy) > self._most:
            del self._lazy[next(iter(self._lazy))]

    def give(self, eager: bool) -> None:
        """Push all messages, or none: the link is a part of the tree or not."""
        if eager:
            self._lazy.pop(ALL, None)
        else:
            self._lazy[ALL] = None

    def size(self) -> int:
        """Entries kept."""
        return len(self._lazy)

    def _key(self, message: MessageId) -> NodeId:
        return origin_of(message) if self._per_origin else ALL
