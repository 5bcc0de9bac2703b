"""Messages on their way, found again in the rows of a run: which sending led to which arrival.

A row says that something of a kind, a size and a publication left or came; copies of one message
look alike, and so does the picture whichever of them came first.
"""

from typing import Final

from causalcast.trace.kinds import KIND_CODE
from causalcast.trace.recorder import RecordedRow

_SEND: Final = KIND_CODE["send"]
_RECEIVE: Final = KIND_CODE["receive"]
_DROP: Final = KIND_CODE["drop"]

Looks = tuple[int, str | None, int, int]


class Frame:
    """One message from node to node; `end` is when it arrived, or was lost."""

    __slots__ = ("end", "looks", "lost", "receiver", "sender", "sent")

    def __init__(self, sender: int, receiver: int, sent: int, looks: Looks) -> None:
        self.sender = sender
        self.receiver = receiver
        self.sent = sent
        self.looks = looks  # publication, name, bytes of payload, bytes of metadata
        self.end: int | None = None
        self.lost = ""


def frames_of(rows: list[RecordedRow]) -> tuple[list[Frame], list[tuple[int, int, int, str]]]:
    """All messages in the order of their sending, and refusals: when, at whom, to whom, why."""
    frames: list[Frame] = []
    under_way: dict[tuple[int, int], list[Frame]] = {}
    arrived: dict[tuple[int, int, Looks], Frame] = {}
    refused: list[tuple[int, int, int, str]] = []
    for node, at, kind, message, _, peer, payload, metadata, _, note in rows:
        if kind == _SEND:
            frame = Frame(node, peer, at, (message, note, payload, metadata))
            frames.append(frame)
            under_way.setdefault((node, peer), []).append(frame)
        elif kind == _RECEIVE:
            looks = (message, note, payload, metadata)
            queue = under_way.get((peer, node), [])
            place = next((i for i, one in enumerate(queue) if one.looks == looks), None)
            if place is not None:
                frame = queue.pop(place)
            elif (peer, node, looks) in arrived:  # the network brought it twice
                frame = Frame(peer, node, arrived[peer, node, looks].sent, looks)
                frames.append(frame)
            else:
                continue  # it left before the picture begins
            frame.end = at
            arrived[peer, node, looks] = frame
        elif kind == _DROP:
            _drop(under_way, refused, node, peer, at, note or "")
    return frames, refused


def _drop(
    under_way: dict[tuple[int, int], list[Frame]],
    refused: list[tuple[int, int, int, str]],
    node: int,
    peer: int,
    at: int,
    note: str,
) -> None:
    """A row of the sender comes with the sending, or the network lost something; else it arrived
    where nobody takes it."""
    sent = under_way.get((node, peer), [])
    came = under_way.get((peer, node), [])
    if note == "loss" and sent:
        frame = sent.pop(-1 if sent[-1].sent == at else 0)
    elif note in ("receiver is down", "cut", "link is no longer current") and came:
        frame = came.pop(0)
    else:
        refused.append((at, node, peer, note))
        return
    frame.end = at
    frame.lost = note
