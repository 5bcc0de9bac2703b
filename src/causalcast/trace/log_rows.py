"""Rows of a node's own log, and what they say of messages and groups. Compiled: a busy node writes
several for each message."""

from typing import Final

from causalcast.core.ids import NUMBER_BITS, NUMBER_MASK
from causalcast.trace.kinds import KIND_CODE

# at_us, kind, message, group, peer, payload_bytes, metadata_bytes, value, note
Row = tuple[int, int, int, int, int, int, int, int, str | None]

NONE: Final = -1  # "no value" in the integer columns, as in `recorder`
_PUBLISH: Final = KIND_CODE["publish"]
_DELIVER: Final = KIND_CODE["deliver"]
_JOIN: Final = KIND_CODE["join"]
_LEAVE: Final = KIND_CODE["leave"]


def note_rows(rows: list[Row], highest: dict[int, int], members: dict[int, None]) -> None:
    """Remember what rows say of messages and groups; the piece they are in may be let go."""
    for row in rows:
        kind = row[1]
        if kind in (_DELIVER, _PUBLISH):
            message = row[2]
            origin, number = message >> NUMBER_BITS, message & NUMBER_MASK
            if number > highest.get(origin, 0):
                highest[origin] = number
        elif row[3] != NONE:
            if kind == _JOIN:
                members[row[3]] = None
            elif kind == _LEAVE:
                members.pop(row[3], None)


def is_the_end(row: Row) -> bool:
    """Whether the node left the run with this row in good order; leaving a group is not that."""
    return row[1] == _LEAVE and row[3] == NONE
