"""What a client has of a group and has not handled; who has it need not be given it again."""

import collections
from typing import final

from causalcast.core.ids import NO_MESSAGE, MessageId, origin_of


@final
class Unhandled:
    """Messages by origin, in their order: the position is behind those without a gap."""

    def __init__(self) -> None:
        # By origin, the oldest first; True when it is handled and one before it is not.
        self._messages: dict[int, collections.OrderedDict[MessageId, bool]] = {}

    def arrived(self, message: MessageId) -> tuple[bool, bool]:
        """Whether it is new here, and whether it was handled."""
        of_origin = self._messages.setdefault(origin_of(message), collections.OrderedDict())
        if message in of_origin:
            return False, of_origin[message]
        of_origin[message] = False
        return True, False

    def handled(self, message: MessageId) -> MessageId:
        """It was handled: the last one of its origin before which all were, NO_MESSAGE if the
        position stays where it is."""
        of_origin = self._messages.get(origin_of(message))
        last = NO_MESSAGE
        if of_origin is not None and message in of_origin:
            of_origin[message] = True
            while of_origin and of_origin[next(iter(of_origin))]:
                last, _ = of_origin.popitem(last=False)
        return last
