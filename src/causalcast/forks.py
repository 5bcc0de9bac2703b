"""What a process that is forked off must not keep: locks and ports belong to its parent.

A node whose program forks, dies and is started again would find its journal locked and its port in
use by the child for as long as that lives.
"""

import os
import weakref
from typing import Protocol, final

from causalcast.errors import NodeError


class Closable(Protocol):
    """A file or a socket."""

    def close(self) -> None:
        """Let go of it; once is enough."""


_things: "weakref.WeakSet[Closable]" = weakref.WeakSet()


def close_in_child(thing: Closable) -> None:
    """Close this in every process that is forked off from now on."""
    _things.add(thing)


def _close_all() -> None:
    for thing in list(_things):
        thing.close()


@final
class OwnProcess:
    """Whose threads do the work: a process that is forked off has none of them, and would wait for
    ever."""

    def __init__(self) -> None:
        self._process = os.getpid()

    @property
    def is_this(self) -> bool:
        """Whether this is that process."""
        return os.getpid() == self._process

    def check(self) -> None:
        """NodeError in a process that was forked off."""
        if not self.is_this:
            raise NodeError(
                "this process was forked off, and the node belongs to the one that opened it; open "
                "or connect after the fork (`causalcast.connect_sync` in each worker)"
            )


os.register_at_fork(after_in_child=_close_all)
