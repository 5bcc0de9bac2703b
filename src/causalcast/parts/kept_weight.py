"""How much memory messages take, roughly, while they are kept for somebody who lacks them."""

from collections.abc import Callable
from typing import Final, final

from causalcast.core.message import Message

KEPT_OVERHEAD: Final = 500  # bytes that a small message takes


@final
class SharedWeight:
    """What messages weigh that are kept for several nodes, each counted once."""

    def __init__(self, body_bytes: Callable[[Message], int] | None = None) -> None:
        """`body_bytes` says how large the bodies in a message are."""
        self.bytes = 0
        self._body_bytes = body_bytes
        self._kept_for: dict[Message, int] = {}  # by the very object: for how many

    def keep(self, message: Message) -> None:
        """It is kept for one more node."""
        times = self._kept_for.get(message, 0)
        self._kept_for[message] = times + 1
        if times == 0:
            self.bytes += self._weigh(message)

    def drop(self, message: Message) -> None:
        """It is kept for one node less."""
        times = self._kept_for[message]
        if times > 1:
            self._kept_for[message] = times - 1
        else:
            del self._kept_for[message]
            self.bytes -= self._weigh(message)

    def _weigh(self, message: Message) -> int:
        return KEPT_OVERHEAD + (0 if self._body_bytes is None else self._body_bytes(message))
