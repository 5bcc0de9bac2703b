"""Where a client is: what it has handled, and what it has seen or published anywhere."""

import copy
from collections.abc import Mapping
from typing import Any, final

from causalcast.clients.protocol import Position, Subscribed
from causalcast.errors import ConfigError


@final
class ClientPosition:
    """Two positions, and whose deliveries the first one counts."""

    def __init__(self, data: Mapping[str, Any] | None = None) -> None:
        """`data` is what `as_data` returned, here or in another process."""
        self.seen: Position = {}  # handled, without a gap
        self.past: Position = {}  # seen or published
        self.log = ""  # whose positions `seen` has
        if data is not None:
            try:
                self.seen, self.past = _read(data["seen"]), _read(data["past"])
                self.log = str(data["log"])
            except (KeyError, ValueError, AttributeError, TypeError):
                raise ConfigError("position: expected what `position()` returned") from None

    def as_data(self) -> dict[str, Any]:
        """Both as plain data that JSON can carry."""
        return copy.deepcopy({"seen": self.seen, "past": self.past, "log": self.log})

    def note_subscribed(self, reply: Subscribed) -> None:
        """A node says where the groups that are new here begin."""
        self.log = reply.log
        for group, seen in reply.seen.items():
            self.seen.setdefault(group, seen)
            self.note_group(group)

    def note_group(self, group: str) -> None:
        """There is such a group: a node that has not heard of it yet is behind this client."""
        self.past.setdefault(group, {})


def _read(data: Mapping[Any, Any]) -> Position:
    return {
        str(group): {int(origin): int(number) for origin, number in of_group.items()}
        for group, of_group in data.items()
    }
