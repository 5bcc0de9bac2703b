"""Where an application is in the order of a group: by origin the last message that it has handled.

That says all only while messages of one origin are handled in their order, and none is in hand.
"""

from collections.abc import Collection

from causalcast.core.ids import MessageId, number_of, origin_of


def position_of(
    handled: dict[int, int], waits: Collection[MessageId], unhandled: Collection[MessageId]
) -> dict[int, int] | None:
    """What was `handled`, if that is a position: all that is `unhandled` still `waits`, and nothing
    that waits stands before something that was handled."""
    if len(waits) < len(unhandled) or covered_by(handled, waits):
        return None
    return dict(handled)


def covered_by(position: dict[int, int], messages: Collection[MessageId]) -> set[MessageId]:
    """Those that a state of that position contains."""
    return {one for one in messages if number_of(one) <= position.get(origin_of(one), 0)}
