"""Planted bugs of the point-to-point layer: each takes one mechanism away."""

from causalcast.datagrams import point_to_point as ptp
from causalcast.datagrams.point_to_point import (
    Conversation,
    Datagram,
    Deliver,
    Effects,
    Failed,
    Outgoing,
    PointToPoint,
)
from causalcast.datagrams.round_trip import RoundTrip
from causalcast.swarm.mutant import Mutant, Patch

_deliver_in_order = PointToPoint._deliver_in_order
_on_data = PointToPoint._on_data
_open = PointToPoint._open
_fail = PointToPoint._fail
_receive = PointToPoint.receive
_poll = PointToPoint.poll
_send = PointToPoint.send
_transmit = PointToPoint._transmit
_take_acks = PointToPoint._take_acks
_take_early_map = PointToPoint._take_early_map


def everything_is_new(self: PointToPoint, conversation: Conversation, number: int) -> bool:
    conversation.taken = min(conversation.taken, number - 1)
    return True


def early_ones_delivered(self: PointToPoint, conversation: Conversation, out: Effects) -> None:
    for number in sorted(conversation.early):
        datagram = conversation.early.pop(number)
        conversation.taken = max(conversation.taken, number)
        if datagram.kind == ptp.DATA:
            out.append(Deliver(datagram.body))


def acknowledged_before_it_is_delivered(
    self: PointToPoint, conversation: Conversation, datagram: Datagram, now: int, out: Effects
) -> None:
    """The acknowledgement leaves first; a crash in between loses the message."""
    deliveries: Effects = []
    _on_data(self, conversation, datagram, now, deliveries)
    if conversation.ack_due == ptp.NEVER and conversation.answered_transmission:
        self._send_ack(conversation, now, out)
    out.extend(deliveries)


def gap_acknowledged(self: PointToPoint, conversation: Conversation) -> None:
    """All up to the highest number that came count as taken."""
    conversation.ack_due = ptp.NEVER
    conversation.ack = max([conversation.taken, *conversation.early])
    conversation.early_map = 0


def numbers_do_not_wrap(low: int, expected: int) -> int:
    return low


def any_token_will_do(
    self: PointToPoint, datagram: Datagram, now: int, out: Effects
) -> Conversation | None:
    if self.current is None:
        self._open(datagram.target, datagram.source, now, out)
    return self.current


def a_hello_is_believed(self: PointToPoint, datagram: Datagram, now: int, out: Effects) -> None:
    """A greeting opens a conversation at once, without proof."""
    _receive(self, datagram, now, out)
    mine = self.candidates.get(datagram.source)
    if datagram.kind == ptp.HELLO and mine is not None:
        self._open(mine, datagram.source, now, out)


def candidates_are_kept(self: PointToPoint, proven: int) -> None:
    """Earlier greetings stay: their senders may still be heard."""


def failure_not_reported(self: PointToPoint, reason: str, out: Effects) -> None:
    _fail(self, reason, out)
    out[:] = [effect for effect in out if not isinstance(effect, Failed)]


def restart_not_reported(
    self: PointToPoint, mine: int, theirs: int, now: int, out: Effects
) -> None:
    _open(self, mine, theirs, now, out)
    out[:] = [effect for effect in out if not isinstance(effect, Failed)]


def keep_alive_delivered(self: PointToPoint, conversation: Conversation, out: Effects) -> None:
    kept = list(conversation.early.values())
    _deliver_in_order(self, conversation, out)
    out.extend(Deliver(b"") for datagram in kept if datagram.kind == ptp.KEEP_ALIVE)


def size_ignored(self: RoundTrip, size: int) -> int:
    return max(self.shortest_timeout, self.smoothed + 4 * self.variation)


def ack_of_ack_ignored(self: PointToPoint, conversation: Conversation, number: int) -> None:
    """Acknowledgements are repeated whatever the other end says."""


def never_gives_up(self: PointToPoint, now: int, out: Effects) -> None:
    conversation = self.current
    if conversation is not None:
        for message in conversation.under_way.values():
            if message.due <= now and message.waits >= self.options.retransmissions:
                message.waits -= 1
    _poll(self, now, out)


def gives_up_early(self: PointToPoint, now: int, out: Effects) -> None:
    conversation = self.current
    if conversation is not None:
        for message in conversation.under_way.values():
            if message.due <= now and message.waits == self.options.retransmissions - 1:
                message.waits += 1
    _poll(self, now, out)


def window_ignored(self: PointToPoint, conversation: Conversation) -> bool:
    return True


def queue_without_end(self: PointToPoint, body: bytes, now: int, out: Effects) -> bool:
    self.unsettled -= 1
    accepted = _send(self, body, now, out)
    self.unsettled += 1
    return accepted


def waiting_ones_forgotten(
    self: PointToPoint, mine: int, theirs: int, now: int, out: Effects
) -> None:
    """What was accepted before the peer answered is lost without a word."""
    self.waiting.clear()
    _open(self, mine, theirs, now, out)


def repeats_under_a_new_number(
    self: PointToPoint,
    conversation: Conversation,
    message: Outgoing,
    now: int,
    out: Effects,
    backs_off: bool = True,
) -> None:
    if message.transmissions:
        conversation.under_way.pop(message.number)
        conversation.last_number += 1
        message.number = conversation.last_number
        conversation.under_way[message.number] = message
    _transmit(self, conversation, message, now, out, backs_off)


def map_one_off(
    self: PointToPoint, conversation: Conversation, early: int, acknowledged: int
) -> None:
    """The first that is missing counts as come."""
    _take_early_map(self, conversation, early << 1 | 1, acknowledged - 1)


def known_early_not_moved(
    self: PointToPoint, conversation: Conversation, datagram: Datagram, now: int, out: Effects
) -> None:
    """The map of what came early stays where it was when older messages are settled."""
    before = conversation.known_early
    _take_acks(self, conversation, datagram, now, out)
    if conversation.known_early < before:
        for bit in range(before.bit_length()):
            if before >> bit & 1:
                conversation.flying.pop(conversation.settled + 1 + bit, None)


MUTANTS = [
    Mutant(
        "room_ignored",
        "nothing leaves that the other end has no room for",
        ["room"],
        [Patch(PointToPoint, "_reach", lambda self, acknowledged, room: ptp.NEVER)],
    ),
    Mutant(
        "map_one_off",
        "the map names what came, and nothing else",
        ["delivered or failed", "rest", "taken back"],
        [Patch(PointToPoint, "_take_early_map", map_one_off)],
    ),
    Mutant(
        "map_not_moved",
        "what came early is counted from what is settled",
        ["delivered or failed", "rest", "taken back"],
        [Patch(PointToPoint, "_take_acks", known_early_not_moved)],
    ),
    Mutant(
        "no_dedup",
        "a message is taken once",
        ["at most once", "order"],
        [Patch(PointToPoint, "_is_new", everything_is_new)],
    ),
    Mutant(
        "early_delivered",
        "messages are taken in order",
        ["order"],
        [Patch(PointToPoint, "_deliver_in_order", early_ones_delivered)],
    ),
    Mutant(
        "ack_before_delivery",
        "delivered first, acknowledged then",
        ["acknowledged means delivered"],
        [Patch(PointToPoint, "_on_data", acknowledged_before_it_is_delivered)],
    ),
    Mutant(
        "gap_acknowledged",
        "only what came without a gap is acknowledged",
        ["acknowledged means delivered", "delivered or failed"],
        [Patch(PointToPoint, "_release_ack", gap_acknowledged)],
    ),
    Mutant(
        "backoff_reset",
        "each wait is twice as long",
        ["backoff"],
        [Patch(ptp, "next_timeout", lambda timeout: timeout)],
    ),
    Mutant(
        "sample_from_retransmission",
        "only messages sent once give samples",
        ["round trip"],
        [Patch(PointToPoint, "_may_sample", lambda self, message, answer: True)],
    ),
    Mutant(
        "no_wrap_around",
        "numbers wrap around",
        ["no false failure", "taken back", "delivered or failed"],
        [Patch(ptp, "_near", numbers_do_not_wrap)],
    ),
    Mutant(
        "size_ignored",
        "the first timeout grows with the message",
        ["timeout by size"],
        [Patch(RoundTrip, "first_timeout", size_ignored)],
    ),
    Mutant(
        "any_token",
        "datagrams of other conversations are not heard",
        ["no creation", "acknowledged means delivered", "no old life"],
        [Patch(PointToPoint, "_find", any_token_will_do)],
    ),
    Mutant(
        "hello_believed",
        "a greeting needs proof",
        ["no false failure", "taken back", "delivered or failed"],
        [Patch(PointToPoint, "receive", a_hello_is_believed)],
    ),
    Mutant(
        "candidates_kept",
        "earlier greetings are forgotten",
        ["delivered or failed", "no old life", "no false failure"],
        [Patch(PointToPoint, "_forget_candidates", candidates_are_kept)],
    ),
    Mutant(
        "failure_not_reported",
        "a peer that does not answer is reported",
        ["order", "delivered or failed"],
        [Patch(PointToPoint, "_fail", failure_not_reported)],
    ),
    Mutant(
        "restart_not_reported",
        "a peer that has restarted is reported",
        ["one life", "delivered or failed", "order", "honest failure"],
        [Patch(PointToPoint, "_open", restart_not_reported)],
    ),
    Mutant(
        "waiting_forgotten",
        "what is accepted waits for the peer's answer",
        ["delivered or failed", "order"],
        [Patch(PointToPoint, "_open", waiting_ones_forgotten)],
    ),
    Mutant(
        "keep_alive_delivered",
        "keep-alives are not delivered",
        ["no creation"],
        [Patch(PointToPoint, "_deliver_in_order", keep_alive_delivered)],
    ),
    Mutant(
        "ack_of_ack_ignored",
        "an acknowledged acknowledgement is not repeated",
        ["ack of ack", "bounds"],
        [Patch(PointToPoint, "_confirmed", ack_of_ack_ignored)],
    ),
    Mutant(
        "never_gives_up",
        "there is a limit to repetitions",
        ["limit"],
        [Patch(PointToPoint, "poll", never_gives_up)],
    ),
    Mutant(
        "gives_up_early",
        "nobody is given up before the limit",
        ["no false failure"],
        [Patch(PointToPoint, "poll", gives_up_early)],
    ),
    Mutant(
        "window_ignored",
        "so many messages are under way and no more",
        ["bounds"],
        [Patch(PointToPoint, "_may_send", window_ignored)],
    ),
    Mutant(
        "queue_without_end",
        "a full queue refuses",
        ["bounds"],
        [Patch(PointToPoint, "send", queue_without_end)],
    ),
    Mutant(
        "new_number_for_a_copy",
        "a copy has the number of its message",
        ["no false failure", "at most once", "delivered or failed"],
        [Patch(PointToPoint, "_transmit", repeats_under_a_new_number)],
    ),
]
