"""What the point-to-point layer does, in words: the flag -D of both UDP programs.

Numbers are shown from 1 on, as they count within a conversation; on the wire the first is drawn.
"""

from causalcast.core.duration import MILLISECOND, SECOND
from causalcast.datagrams import point_to_point as ptp
from causalcast.datagrams.point_to_point import Datagram, Effect, Note, PointToPoint
from causalcast.datagrams.round_trip import give_up_after

_NOTES = {
    "came": "received message {number} (copy {copy})",
    "duplicate": "message {number} was here already: not taken again",
    "beyond the window": "message {number} is far ahead: ignored",
    "stray": "a datagram of an earlier conversation: ignored",
    "ack came": "acknowledgement of {number} received",
    "ack of nothing": "acknowledgement of {number} received, which was never sent: ignored",
    "ack of ack came": "acknowledgement of the acknowledgement of {number} received",
    "ack delayed": "acknowledgement of {number} delayed",
    "retransmit": "no acknowledgement of {number}: retransmission {copy}",
    "gave up": "retransmission failed: no answer to {copy} copies",
    "hello again": "no answer to the greeting: retransmission {copy}",
    "ack again": "acknowledgement of {number} not acknowledged: retransmission {copy}",
    "ack given up": "acknowledgement of {number} never acknowledged: dropped",
    "queue full": "the message queue is full",
    "overtaken": "message {number} was overtaken: retransmission {copy}",
}
# Whose numbers a note is about: the peer's, else ours.
_THEIRS = {
    "came", "duplicate", "beyond the window", "ack of ack came", "ack delayed", "ack again",
    "ack given up",
}  # fmt: skip


def told(layer: PointToPoint, effect: Effect) -> str:
    """An effect in words; empty where there is nothing to tell."""
    if isinstance(effect, ptp.Opened):
        return "conversation begins"
    if not isinstance(effect, Note):
        return ""
    number = counted(layer, effect.number, effect.what in _THEIRS)
    if effect.what == "ack of ack came" and number == 0:
        return "it is there: the greeting was answered"
    text = _NOTES[effect.what].format(number=number, copy=effect.transmission)
    if effect.what in ("retransmit", "hello again"):
        text += f" of {layer.options.retransmissions}"
    return text


def told_of_leaving(layer: PointToPoint, datagram: Datagram) -> str:
    """A datagram that leaves, in words; repetitions are told by their notes."""
    if datagram.kind == ptp.ACK:
        return f"acknowledgement of {counted(layer, datagram.number, True)} sent{_queues(layer)}"
    if datagram.kind in (ptp.DATA, ptp.KEEP_ALIVE) and datagram.transmission == 1:
        number = counted(layer, datagram.number, False)
        what = "keep-alive" if datagram.kind == ptp.KEEP_ALIVE else "message"
        wait = layer.round_trip.first_timeout(len(datagram.body))
        end = give_up_after(wait, layer.options.retransmissions) / SECOND
        piggyback = ", with an acknowledgement" if datagram.answered_transmission else ""
        waits = f"waits {wait // MILLISECOND} ms, at most {end:.1f} s in all"
        return f"{what} {number} sent{piggyback}; {waits}{_queues(layer)}"
    return ""


def counted(layer: PointToPoint, number: int, theirs: bool) -> int:
    """A sequence number as it counts from 1 in this conversation."""
    conversation = layer.current
    if conversation is None:
        return number
    first = conversation.theirs if theirs else conversation.mine
    distance = (number - first) % ptp.NUMBERS
    return distance if distance < ptp.NUMBERS // 2 else distance - ptp.NUMBERS


def on_the_wire(layer: PointToPoint, number: int) -> int:
    """The sequence number that counts as `number` among the peer's."""
    conversation = layer.current
    first = 0 if conversation is None else conversation.theirs
    return (first + number) % ptp.NUMBERS


def _queues(layer: PointToPoint) -> str:
    acks = 0 if layer.current is None else len(layer.current.unconfirmed)
    return f" (queues: {layer.queued()} messages, {acks} acknowledgements)"
