"""Rows of a run as the lists that the page draws; the lab and reports make them of the same rows.

event     when, where, kind, message, peer, note
frame     from, to, sent, arrived or lost, why lost, message, name, payload, metadata
waiting   where, message, since, until, [[when, reason], …]
"""

from collections.abc import Iterable
from typing import Any, Final

from causalcast.runview.frames import Frame
from causalcast.trace.kinds import KINDS, NONE
from causalcast.trace.recorder import RecordedRow

MOST_FRAMES: Final = 20_000
MOST_EVENTS: Final = 20_000
MARGIN_US: Final = 5_000  # of the picture, after the last thing in it
SHOWN: Final = (
    "publish", "deliver", "hold", "release", "crash", "recover", "join", "leave", "suspect",
    "trust", "duplicate",
)  # fmt: skip


def name_of(message: int) -> str:
    """A message as people call it."""
    return f"{message >> 32}.{message & 0xFFFFFFFF}"


def drawn_events(rows: Iterable[RecordedRow]) -> list[list[Any]]:
    """What is drawn of rows that are in the order of time."""
    return [
        [at, node, KINDS[kind], _name(message), None if peer == NONE else peer, note or ""]
        for node, at, kind, message, _, peer, _, _, _, note in rows
        if KINDS[kind] in SHOWN
    ]


def drawn_frames(frames: Iterable[Frame]) -> list[list[Any]]:
    """Messages on their way."""
    return [
        [
            frame.sender,
            frame.receiver,
            frame.sent,
            frame.end,
            frame.lost,
            _name(frame.looks[0]),
            frame.looks[1] or "",
            max(frame.looks[2], 0),
            max(frame.looks[3], 0),
        ]
        for frame in frames
    ]


def _name(message: int) -> str:
    return "" if message == NONE else name_of(message)
