"""Reliable messages to one peer over datagrams that may be lost, doubled, late, old or forged.

The point-to-point layer of Bosneag, Raicu, Ford and Zhang, *Causal Multicast over a Reliable
Point-to-Point Protocol*: each message has a sequence number and is repeated, each time after twice
as long a wait, until it is acknowledged; after so many repetitions the peer is reported failed. An
acknowledgement is repeated in the same way until it is acknowledged itself (or newer data shows
that it came). Messages are taken once and in order. A keep-alive is a message that is never
delivered.

Time, randomness and datagrams come from outside: `send`, `receive` and `poll` are told the time and
write what is to happen, in order, into a list of effects; `deadline` says when to call `poll` next.

Where we differ from the report, and why
----------------------------------------

- A *conversation* is opened by a greeting that the other end echoes, and every datagram carries the
  random tokens of both ends. The report has no notion of a peer that restarts: there a datagram of
  an earlier life would be taken for a new message. Here no datagram of an earlier life, no replay
  and no guess is heard; a peer that restarts is reported failed and can be spoken to again.
- Numbers have 32 bits and wrap around; the first one is drawn.
- At most `window` messages are under way, and no more than the other end has room for. What does
  not fit in the queue is refused, not dropped.
- A cumulative acknowledgement and a map of what came early travel on every datagram.
- Losses need not wait for a timeout (`fast_repeat`): what left well before a copy that was answered
  is lost (Cheng and others, RFC 8985, "RACK"), so is a first copy that three later ones overtook;
  and when nothing is answered for two round trips, one copy is sent to find out what is missing.
"""

import collections
import heapq
import random
from typing import Final, final

from mypy_extensions import mypyc_attr

from causalcast.core.duration import MILLISECOND, SECOND
from causalcast.datagrams.round_trip import RoundTrip, next_timeout
from causalcast.datagrams.send_window import NO_MOMENT, SendWindow
from causalcast.limits import Limit

# Kinds of datagrams. The report has the first three.
DATA: Final = 0
ACK: Final = 1
KEEP_ALIVE: Final = 2
ACK_OF_ACK: Final = 3
HELLO: Final = 4
WELCOME: Final = 5
LAST_KIND: Final = WELCOME

NUMBERS: Final = 1 << 32  # sequence numbers wrap around here
TOKENS: Final = 64  # bits of a token; 0 is none
WIDEST: Final = 1024  # messages under way: an acknowledgement names every gap among so many
EARLY_BITS: Final = 64  # how many early messages a datagram with a message can name
MOST_EARLY_BYTES: Final = Limit(
    "datagrams.point_to_point.most_early_bytes",
    4 << 20,
    least=1,
    most=64 << 20,
    unit="bytes",
    about="messages that came before their turn; more are not kept, they come again",
)
MOST_CANDIDATES: Final = Limit(
    "datagrams.point_to_point.most_candidates",
    4,
    least=1,
    most=64,
    unit="greetings",
    about="greetings of the peer that wait for proof",
)
NEVER: Final = 1 << 62  # a deadline that does not come
FAST_REPEAT_AFTER: Final = Limit(
    "datagrams.point_to_point.fast_repeat_after",
    3,
    least=1,
    most=64,
    unit="messages",
    about="later messages that came before one is repeated, as TCP has it",
)
MOST_COPIES: Final = Limit(
    "datagrams.point_to_point.most_copies",
    200,
    least=1,
    most=255,
    unit="copies",
    about="copies of a message without a wait",
)
JITTER: Final = 16  # a wait is drawn out by up to a 16th, so that peers do not beat in time


@final
class Datagram:
    """What is sent in one piece. Numbers are the low 32 bits of those that are counted."""

    __slots__ = (
        "ack",
        "answered_transmission",
        "answers",
        "body",
        "early",
        "kind",
        "number",
        "room",
        "settled",
        "source",
        "target",
        "transmission",
    )

    def __init__(
        self,
        kind: int,
        source: int,
        target: int,
        number: int = 0,
        transmission: int = 0,
        answers: int = 0,
        answered_transmission: int = 0,
        ack: int = 0,
        early: int = 0,
        settled: int = 0,
        room: int = 0,
        body: bytes = b"",
    ) -> None:
        self.kind = kind
        self.source = source  # the sender's token
        self.target = target  # the receiver's
        self.number = number  # of the message; of an acknowledgement: the message it is for
        self.transmission = transmission  # which copy this is, from 1
        self.answers = answers  # the message that has just come from the other end ...
        self.answered_transmission = answered_transmission  # ... and which copy; 0 for none
        self.ack = ack  # all up to here came
        self.early = early  # bit i: the message ack + 2 + i came too
        self.settled = settled  # all up to here I know to have come
        self.room = room  # so many messages behind `ack` would be taken
        self.body = body


# Effects, in the order in which they are to happen.


@mypyc_attr(allow_interpreted_subclasses=True)
class Effect:
    """Something the owner has to do or to hear of."""

    __slots__ = ()


@final
class Transmit(Effect):
    """Let this datagram leave."""

    __slots__ = ("datagram",)

    def __init__(self, datagram: Datagram) -> None:
        self.datagram = datagram


@final
class Deliver(Effect):
    """The next message of the peer."""

    __slots__ = ("body",)

    def __init__(self, body: bytes) -> None:
        self.body = body


@final
class Arrived(Effect):
    """So many further messages of ours, the oldest ones, came to the peer."""

    __slots__ = ("count",)

    def __init__(self, count: int) -> None:
        self.count = count


@final
class Opened(Effect):
    """The peer answers: a conversation begins."""

    __slots__ = ()


@final
class Failed(Effect):
    """The peer does not answer, or has restarted. Of `lost` messages we do not know whether they
    came; nothing that was accepted before is sent any more."""

    __slots__ = ("lost", "reason")

    def __init__(self, reason: str, lost: int) -> None:
        self.reason = reason
        self.lost = lost


@final
class Note(Effect):
    """For people who watch."""

    __slots__ = ("number", "transmission", "what")

    def __init__(self, what: str, number: int = 0, transmission: int = 0) -> None:
        self.what = what
        self.number = number
        self.transmission = transmission


Effects = list[Effect]


@final
class PointToPointOptions:
    """Numbers of the layer; the defaults are the report's where it names one."""

    def __init__(
        self,
        retransmissions: int = 5,
        ack_delay: int = 0,
        keep_alive_every: int = 10 * SECOND,
        shortest_timeout: int = 100 * MILLISECOND,
        per_byte: int = 8,
        window: int = 32,
        queue: int = 1024,
        ack_queue: int = 64,
        fast_repeat: bool = False,
        confirm_acks: bool = True,
        adapts: bool = False,
        ack_every: int = 0,
        notes_all: bool = True,
        first_room: int = 0,
    ) -> None:
        assert 0 < window <= WIDEST
        self.retransmissions = retransmissions
        self.ack_delay = ack_delay
        self.keep_alive_every = keep_alive_every  # 0: never
        self.shortest_timeout = shortest_timeout
        self.per_byte = per_byte
        self.window = window  # messages under way
        self.queue = queue  # messages accepted and not acknowledged
        self.ack_queue = ack_queue  # acknowledgements that were not acknowledged
        self.fast_repeat = fast_repeat  # repeat at once what later messages overtook
        self.confirm_acks = confirm_acks  # acknowledge acknowledgements
        self.adapts = adapts  # as many under way as the way carries, see `send_window`
        # Not 0: delayed acknowledgements only wait for company. They leave at once with a message,
        # when so many messages came, and when one is missing or came again.
        self.ack_every = ack_every
        self.first_room = first_room or window  # what an end has that said nothing yet
        self.notes_all = notes_all  # tell also what is in order, datagram by datagram


class Outgoing:
    """A message under way."""

    __slots__ = (
        "body",
        "due",
        "kind",
        "moment",
        "number",
        "sent_at",
        "timeout",
        "transmissions",
        "waits",
    )

    def __init__(self, kind: int, number: int, body: bytes) -> None:
        self.kind = kind
        self.number = number
        self.body = body
        self.transmissions = 0
        self.waits = 0  # that were in vain; each ended with a further copy
        self.sent_at = 0
        self.timeout = 0
        self.due = 0
        self.moment = NO_MOMENT


class Unconfirmed:
    """An acknowledgement that was sent and not acknowledged itself."""

    __slots__ = ("due", "number", "timeout", "transmissions")

    def __init__(self, number: int, timeout: int, due: int) -> None:
        self.number = number
        self.timeout = timeout
        self.due = due
        self.transmissions = 1


class Conversation:
    """What two lives of the two ends say to each other. Numbers here do not wrap around.

    Large because it is a record: all that one end keeps count of.
    """

    def __init__(self, mine: int, theirs: int, first_room: int) -> None:
        self.mine = mine  # my token
        self.theirs = theirs
        self.last_number = mine % NUMBERS  # of mine, the last that was given
        self.settled = self.last_number  # of mine, all up to here came
        self.may_reach = self.last_number + first_room  # of mine, there is room for all up to here
        self.under_way: dict[int, Outgoing] = {}
        self.flying: dict[int, Outgoing] = {}  # those not known to have come; the last sent last
        self.known_early = 0  # of mine, bit i: settled + 1 + i is known to have come
        self.timers: list[tuple[int, int]] = []  # a heap: when each copy is due again; some void
        self.progress_at = 0  # when one of mine was last known to have come
        self.probe_due = NEVER  # when silence is to be broken
        self.taken = theirs % NUMBERS  # of theirs, all up to here were taken
        self.early: dict[int, Datagram] = {}  # of theirs, came before an earlier one
        self.early_bytes = 0
        self.early_bits = 0  # the same as bits: bit i for taken + 1 + i
        self.ack = self.taken  # what datagrams say of `taken`: lags behind while acks are delayed
        self.early_map = 0  # what they say of `early`
        self.ack_due = NEVER
        self.unanswered = 0  # messages that came since the last acknowledgement
        self.answers = 0  # the message that came last, and which copy of it
        self.answered_transmission = 0
        self.unconfirmed: collections.deque[Unconfirmed] = collections.deque()


@mypyc_attr(allow_interpreted_subclasses=True)
class PointToPoint:
    """One end of the way between two processes: its queues, its conversation, its estimates.

    Large because it is one state machine: every datagram that comes can change what is sent,
    acknowledged and given up, and the order of these matters.
    """

    def __init__(self, options: PointToPointOptions, source: random.Random) -> None:
        self.options = options
        self.random = source
        self.round_trip = RoundTrip(options.shortest_timeout, options.per_byte)
        self.send_window = SendWindow(options.window, options.adapts)
        self.current: Conversation | None = None
        self.waiting: collections.deque[bytes] = collections.deque()  # accepted, not sent yet
        self.unsettled = 0  # accepted, not acknowledged
        self.room = options.first_room  # what the owner would take, behind what was taken
        self.spoke_at = 0  # when a message left last
        self.calls_at = NEVER  # when a peer that was never spoken to is to be called
        # A greeting of ours that waits for its answer: its token, or 0.
        self.calling = 0
        self.call = Unconfirmed(0, 0, NEVER)
        # The peer's greetings that wait for proof: its token, and the one we offered. Later ones
        # come later.
        self.candidates: dict[int, int] = {}

    # What the owner calls

    def send(self, body: bytes, now: int, out: Effects) -> bool:
        """Accept a message for the peer, and let it leave if it can; False if the queue is full."""
        if self.unsettled >= self.options.queue:
            out.append(Note("queue full"))
            return False
        self.unsettled += 1
        self.waiting.append(body)
        if self.current is None and self.calling == 0:
            self._start_call(now, out)
        self._send_waiting(now, out)
        return True

    def watch(self, now: int) -> None:
        """Keep-alives begin now, though nobody has said anything yet."""
        if self.options.keep_alive_every:
            self.calls_at = now + self.options.keep_alive_every

    def receive(self, datagram: Datagram, now: int, out: Effects) -> None:
        """Take in a datagram; acknowledgements of what came leave with the next `poll`."""
        if datagram.kind == HELLO:
            self._on_hello(datagram, out)
            return
        if datagram.kind == WELCOME:
            if self.calling != 0 and datagram.target == self.calling:
                self._open(self.calling, datagram.source, now, out)
            return
        conversation = self._find(datagram, now, out)
        if conversation is None:
            return
        self._take_acks(conversation, datagram, now, out)
        if datagram.kind == ACK_OF_ACK:
            out.append(Note("ack of ack came", datagram.number))
            self._confirmed(conversation, _near(datagram.number, conversation.taken))
        elif datagram.kind == ACK:
            self._on_ack(conversation, datagram, out)
        else:
            self._on_data(conversation, datagram, now, out)
        self._send_waiting(now, out)

    def poll(self, now: int, out: Effects) -> None:
        """Do what is due: acknowledge, repeat, keep alive, give up."""
        if self.calling != 0 and self.call.due <= now:
            self._repeat_call(now, out)
        conversation = self.current
        if conversation is None:
            if self.calling == 0 and self.calls_at <= now:
                self.calls_at = NEVER
                self._start_call(now, out)
            return
        if conversation.ack_due <= now:
            self._release_ack(conversation)
        while self._first_due(conversation) <= now:
            message = conversation.flying[conversation.timers[0][1]]
            if self._is_heard_of(conversation, message):
                continue
            if message.waits >= self.options.retransmissions:
                out.append(Note("gave up", message.number % NUMBERS, message.transmissions))
                self._fail("no acknowledgement came", out)
                return
            message.waits += 1
            out.append(Note("retransmit", message.number % NUMBERS, message.transmissions))
            self.send_window.timed_out(message.moment)
            self._transmit(conversation, message, now, out)
        if conversation.probe_due <= now:
            self._probe(conversation, now, out)
        every = self.options.keep_alive_every
        if every and now - self.spoke_at >= every and not conversation.under_way:
            self._number(conversation, KEEP_ALIVE, b"", now, out)
        if conversation.answered_transmission != 0 and conversation.ack_due == NEVER:
            self._send_ack(conversation, now, out)
        self._repeat_acks(conversation, now, out)

    def deadline(self) -> int:
        """When `poll` has something to do; NEVER if only after something else happened."""
        due = self.call.due if self.calling != 0 else NEVER
        conversation = self.current
        if conversation is None:
            return due if self.calling != 0 else self.calls_at
        if conversation.answered_transmission != 0:
            due = min(due, conversation.ack_due if conversation.ack_due != NEVER else 0)
        due = min(due, self._first_due(conversation), conversation.probe_due)
        for ack in conversation.unconfirmed:
            due = min(due, ack.due)
        if self.options.keep_alive_every and not conversation.under_way:
            due = min(due, self.spoke_at + self.options.keep_alive_every)
        return due

    def queued(self) -> int:
        """Messages that were accepted and not acknowledged."""
        return self.unsettled

    def begin(self, mine: int, theirs: int, now: int) -> None:
        """Speak in a conversation that both ends agreed on elsewhere, with tokens never used."""
        assert self.current is None
        self.current = Conversation(mine, theirs, self.options.first_room)
        self.spoke_at = now

    def may_send(self) -> bool:
        """Whether a message that is sent now leaves now."""
        return self.current is not None and not self.waiting and self._may_send(self.current)

    def tell_room(self, now: int, out: Effects) -> None:
        """There is room again: the other end may be waiting to hear that."""
        conversation = self.current
        if conversation is not None:
            self._release_ack(conversation)
            self._send_ack(conversation, now, out)

    def take_back_ack(self, acknowledgement: Datagram) -> None:
        """This acknowledgement did not leave, or not like this: say nothing of its message until
        another copy comes. For those who want to see what the layer does then."""
        conversation = self.current
        if conversation is not None and acknowledgement.source == conversation.mine:
            number = _near(acknowledgement.number, conversation.taken)
            conversation.ack = min(conversation.ack, number - 1)
            conversation.early_map = 0
            for ack in list(conversation.unconfirmed):
                if ack.number >= number:
                    conversation.unconfirmed.remove(ack)

    # Opening a conversation

    def _start_call(self, now: int, out: Effects) -> None:
        # Where the peer's greeting waits for proof, its answer to ours must lead to the same pair
        # of tokens; otherwise two ends that call each other would never agree.
        offered = list(self.candidates.values())
        self.calling = offered[-1] if offered else self._draw_token()
        timeout = self.round_trip.first_timeout(0)
        self.call = Unconfirmed(0, timeout, now + self._drawn_out(timeout))
        out.append(Transmit(Datagram(HELLO, self.calling, 0, transmission=1)))

    def _repeat_call(self, now: int, out: Effects) -> None:
        call = self.call
        if call.transmissions > self.options.retransmissions:
            out.append(Note("gave up", 0, call.transmissions))
            self._fail("no answer came", out)
            return
        out.append(Note("hello again", 0, call.transmissions))
        call.transmissions += 1
        call.timeout = next_timeout(call.timeout)
        call.due = now + self._drawn_out(call.timeout)
        out.append(Transmit(Datagram(HELLO, self.calling, 0, transmission=call.transmissions)))

    def _on_hello(self, datagram: Datagram, out: Effects) -> None:
        """Offer a token. Only who really is there can speak with it."""
        theirs = datagram.source
        if self.current is not None and theirs == self.current.theirs:
            mine = self.current.mine
        elif theirs in self.candidates:
            mine = self.candidates[theirs]
        else:
            mine = self.calling if self.calling != 0 else self._draw_token()
            self.candidates[theirs] = mine
            if len(self.candidates) > MOST_CANDIDATES.value:
                del self.candidates[next(iter(self.candidates))]
        out.append(Transmit(Datagram(WELCOME, mine, theirs, transmission=datagram.transmission)))

    def _find(self, datagram: Datagram, now: int, out: Effects) -> Conversation | None:
        """The conversation that a datagram belongs to, opened by it where it is the proof."""
        current = self.current
        if (
            current is not None
            and datagram.target == current.mine
            and datagram.source == current.theirs
        ):
            return current
        offered = self.candidates.get(datagram.source, 0)
        if offered != 0 and datagram.target == offered:
            self._open(offered, datagram.source, now, out)
            return self.current
        out.append(Note("stray", datagram.number))
        if current is None and self.calling == 0:
            self._start_call(now, out)  # it speaks with an earlier life of ours: let it know
        return None

    def _open(self, mine: int, theirs: int, now: int, out: Effects) -> None:
        if self.current is not None:
            self._lose_all("it has restarted", out)
        self._forget_candidates(theirs)
        self.calling = 0
        self.current = Conversation(mine, theirs, self.options.first_room)
        out.append(Opened())
        self.spoke_at = now
        self._send_waiting(now, out)
        if not self.current.under_way:  # let the other end have its proof
            self._transmit_plain(self.current, ACK_OF_ACK, self.current.settled, out)

    def _forget_candidates(self, proven: int) -> None:
        """Greetings that came before the one that proved itself are of earlier lives."""
        if proven not in self.candidates:
            self.candidates.clear()
        while proven in self.candidates:
            del self.candidates[next(iter(self.candidates))]

    def _fail(self, reason: str, out: Effects) -> None:
        self.calling = 0
        self.candidates.clear()
        self._lose_all(reason, out)

    def _lose_all(self, reason: str, out: Effects) -> None:
        lost, self.unsettled = self.unsettled, 0
        self.waiting.clear()
        self.current = None
        out.append(Failed(reason, lost))

    # Sending

    def _send_waiting(self, now: int, out: Effects) -> None:
        conversation = self.current
        if conversation is None:
            return
        while self.waiting and self._may_send(conversation):
            self._number(conversation, DATA, self.waiting.popleft(), now, out)

    def _may_send(self, conversation: Conversation) -> bool:
        """Whether the window has room: also for the first one that is missing there."""
        if conversation.last_number - conversation.settled >= self.send_window.widest:
            self.send_window.note_full()
            return False
        if conversation.last_number >= conversation.may_reach:
            return False
        return self.send_window.has_room(len(conversation.flying))

    def _number(
        self, conversation: Conversation, kind: int, body: bytes, now: int, out: Effects
    ) -> None:
        conversation.last_number += 1
        message = Outgoing(kind, conversation.last_number, body)
        conversation.under_way[message.number] = message
        self.spoke_at = now
        self._transmit(conversation, message, now, out)

    def _transmit(
        self,
        conversation: Conversation,
        message: Outgoing,
        now: int,
        out: Effects,
        backs_off: bool = True,
    ) -> None:
        message.transmissions += 1
        if message.transmissions == 1:
            message.timeout = self.round_trip.first_timeout(len(message.body))
        elif backs_off:
            message.timeout = next_timeout(message.timeout)
        message.moment = self.send_window.sent(len(conversation.flying), now)
        message.sent_at = now
        message.due = now + self._drawn_out(message.timeout)
        conversation.flying.pop(message.number, None)
        conversation.flying[message.number] = message
        heapq.heappush(conversation.timers, (message.due, message.number))
        if len(conversation.timers) > 4 * WIDEST:  # most of them void
            flying = conversation.flying.values()
            conversation.timers = sorted([(one.due, one.number) for one in flying])
        if self.options.fast_repeat and message.transmissions == 1:
            conversation.probe_due = now + self._probe_timeout()
        datagram = self._stamped(conversation, message.kind)
        datagram.number = message.number % NUMBERS
        datagram.transmission = message.transmissions
        datagram.body = message.body
        out.append(Transmit(datagram))

    def _stamped(self, conversation: Conversation, kind: int) -> Datagram:
        """A datagram that says what came so far, and answers the last message if it can."""
        datagram = Datagram(kind, conversation.mine, conversation.theirs)
        datagram.settled = conversation.settled % NUMBERS
        datagram.room = self.room
        is_due = conversation.ack_due == NEVER or self.options.ack_every != 0
        if kind != ACK and conversation.early_bits >> EARLY_BITS:
            is_due = False  # the map is too long for it: an acknowledgement will say all
        if is_due and conversation.answered_transmission != 0:
            self._release_ack(conversation)
            datagram.answers = conversation.answers % NUMBERS
            datagram.answered_transmission = conversation.answered_transmission
            conversation.answered_transmission = 0
        datagram.ack = conversation.ack % NUMBERS
        datagram.early = conversation.early_map
        if kind != ACK:
            datagram.early &= (1 << EARLY_BITS) - 1
        return datagram

    # Repeating in time

    def _first_due(self, conversation: Conversation) -> int:
        """When the first copy is due again; NEVER if all came."""
        timers, flying = conversation.timers, conversation.flying
        if not flying:
            timers.clear()
            return NEVER
        while timers:
            message = flying.get(timers[0][1])
            if message is not None and message.due == timers[0][0]:
                return message.due
            heapq.heappop(timers)
        return NEVER

    def _is_heard_of(self, conversation: Conversation, message: Outgoing) -> bool:
        """Whether others arrived in the meantime: then their answers show what is lost, and a
        timeout is for silence. Its wait begins anew."""
        if not self.options.fast_repeat or conversation.progress_at <= message.sent_at:
            return False
        due = conversation.progress_at + message.timeout
        if due <= message.due:
            return False
        message.due = due
        heapq.heappush(conversation.timers, (due, message.number))
        return True

    def _probe_timeout(self) -> int:
        trip = self.round_trip
        if trip.smoothed == 0:
            return NEVER
        return 2 * (trip.smoothed + trip.variation) + self.options.ack_delay

    def _probe(self, conversation: Conversation, now: int, out: Effects) -> None:
        """Nothing was answered for a while: a copy of what has waited longest finds out why. Its
        answer shows what else is missing."""
        conversation.probe_due = NEVER
        for message in conversation.flying.values():
            if message.transmissions < MOST_COPIES.value:
                out.append(Note("probe", message.number % NUMBERS, message.transmissions))
                self._transmit(conversation, message, now, out, backs_off=False)
                return

    # Being acknowledged

    def _take_acks(
        self, conversation: Conversation, datagram: Datagram, now: int, out: Effects
    ) -> None:
        answered_at = -1  # when the copy left that was answered
        newest: Outgoing | None = None
        if datagram.answered_transmission != 0:
            answered = _near(datagram.answers, conversation.settled)
            message = conversation.under_way.get(answered)
            if message is not None:
                if message.transmissions == datagram.answered_transmission:
                    answered_at = message.sent_at
                    newest = message
                if self._may_sample(message, datagram):
                    self.round_trip.sample(now - message.sent_at)
                    self.send_window.took(now - message.sent_at, now)
        before = len(conversation.flying)
        acknowledged = _near(datagram.ack, conversation.settled)
        if conversation.settled < acknowledged <= conversation.last_number:
            arrived = 0
            for number in range(conversation.settled + 1, acknowledged + 1):
                message = conversation.under_way.pop(number, None)
                if message is not None:
                    conversation.flying.pop(number, None)
                    arrived += message.kind == DATA
            conversation.known_early >>= acknowledged - conversation.settled
            conversation.settled = acknowledged
            if arrived:
                self.unsettled -= arrived
                out.append(Arrived(arrived))
        if conversation.settled - WIDEST <= acknowledged <= conversation.last_number:
            if datagram.early:
                self._take_early_map(conversation, datagram.early, acknowledged)
            reach = self._reach(acknowledged, datagram.room)
            conversation.may_reach = max(conversation.may_reach, reach)
        fresh = before - len(conversation.flying)
        if fresh:
            self.send_window.arrived(fresh, newest.moment if newest else NO_MOMENT, now)
            conversation.progress_at = now
            conversation.probe_due = NEVER
            if self.options.fast_repeat and conversation.flying:
                conversation.probe_due = now + self._probe_timeout()
        if self.options.fast_repeat and conversation.flying:
            self._repeat_overtaken(conversation, answered_at, now, out)
        self._confirmed(conversation, _near(datagram.settled, conversation.taken))

    def _reach(self, acknowledged: int, room: int) -> int:
        """Up to which number the other end has room."""
        return acknowledged + room

    def _may_sample(self, message: Outgoing, answer: Datagram) -> bool:
        """Whether this answer says how long the way is: it must be for the copy that left last."""
        return message.transmissions == answer.answered_transmission

    def _take_early_map(self, conversation: Conversation, early: int, acknowledged: int) -> None:
        """What came early needs no repetition. Bit 0 is for the message `acknowledged` + 2."""
        first = conversation.settled + 1
        came = early << 1 >> (conversation.settled - acknowledged)
        came &= (1 << (conversation.last_number - conversation.settled)) - 1
        fresh = came & ~conversation.known_early
        conversation.known_early |= came
        while fresh:
            lowest = fresh & -fresh
            fresh ^= lowest
            conversation.flying.pop(first + lowest.bit_length() - 1, None)

    def _repeat_overtaken(
        self, conversation: Conversation, answered_at: int, now: int, out: Effects
    ) -> None:
        """Repeat at once what seems to be lost: a first copy that three later messages overtook,
        any that left well before one that was answered."""
        left_before = answered_at - self.round_trip.smoothed // 4
        rest = conversation.known_early
        for _ in range(FAST_REPEAT_AFTER.value - 1):
            rest ^= 1 << rest.bit_length() >> 1
        overtaken = conversation.settled + rest.bit_length()  # first copies before this one
        lost: list[Outgoing] = []
        for message in conversation.flying.values():
            is_first = message.transmissions == 1
            if message.sent_at < left_before or (is_first and message.number < overtaken):
                lost.append(message)
            elif is_first:
                break  # those behind it left later
        for message in lost:
            if message.transmissions < MOST_COPIES.value:
                out.append(Note("overtaken", message.number % NUMBERS, message.transmissions))
                self.send_window.lost()
                self._transmit(conversation, message, now, out, backs_off=False)

    def _on_ack(self, conversation: Conversation, datagram: Datagram, out: Effects) -> None:
        number = _near(datagram.number, conversation.settled)
        if number > conversation.last_number:
            out.append(Note("ack of nothing", datagram.number))
            return
        if self.options.notes_all:
            out.append(Note("ack came", datagram.number))
        if self.options.confirm_acks:
            self._transmit_plain(conversation, ACK_OF_ACK, number, out)

    # Receiving

    def _on_data(
        self, conversation: Conversation, datagram: Datagram, now: int, out: Effects
    ) -> None:
        number = _near(datagram.number, conversation.taken)
        if number > conversation.taken + self.options.window:
            out.append(Note("beyond the window", datagram.number))
            return  # no end that keeps to its window sends this
        size = len(datagram.body)
        if (
            number > conversation.taken + 1
            and conversation.early_bytes + size > MOST_EARLY_BYTES.value
        ):
            out.append(Note("too much came early", datagram.number))
            return
        if self.options.notes_all:
            out.append(Note("came", datagram.number, datagram.transmission))
        is_new = self._is_new(conversation, number)
        if is_new:
            conversation.early[number] = datagram
            conversation.early_bytes += size
            conversation.early_bits |= 1 << (number - conversation.taken - 1)
            self._deliver_in_order(conversation, out)
        else:
            out.append(Note("duplicate", datagram.number))
        conversation.answers = number
        conversation.answered_transmission = max(1, datagram.transmission)
        if self.options.ack_delay and conversation.ack_due == NEVER:
            conversation.ack_due = now + self.options.ack_delay
            if self.options.notes_all:
                out.append(Note("ack delayed", datagram.number))
        every = self.options.ack_every
        conversation.unanswered += 1
        if every and (conversation.unanswered >= every or conversation.early or not is_new):
            conversation.ack_due = NEVER

    def _is_new(self, conversation: Conversation, number: int) -> bool:
        return number > conversation.taken and number not in conversation.early

    def _deliver_in_order(self, conversation: Conversation, out: Effects) -> None:
        while conversation.taken + 1 in conversation.early:
            conversation.taken += 1
            conversation.early_bits >>= 1
            datagram = conversation.early.pop(conversation.taken)
            conversation.early_bytes -= len(datagram.body)
            if datagram.kind == DATA:
                out.append(Deliver(datagram.body))

    # Acknowledging

    def _release_ack(self, conversation: Conversation) -> None:
        """From now on datagrams say what came until now."""
        conversation.ack_due = NEVER
        conversation.unanswered = 0
        conversation.ack = conversation.taken
        conversation.early_map = conversation.early_bits >> 1

    def _send_ack(self, conversation: Conversation, now: int, out: Effects) -> None:
        number = conversation.answers
        datagram = self._stamped(conversation, ACK)
        datagram.number = number % NUMBERS
        datagram.transmission = 1
        out.append(Transmit(datagram))
        if self.options.confirm_acks:
            # A later acknowledgement says all that an earlier one said.
            self._confirmed(conversation, conversation.ack)
            timeout = self.round_trip.first_timeout(0)
            due = now + self._drawn_out(timeout)
            conversation.unconfirmed.append(Unconfirmed(number, timeout, due))
            if len(conversation.unconfirmed) > self.options.ack_queue:
                conversation.unconfirmed.popleft()

    def _repeat_acks(self, conversation: Conversation, now: int, out: Effects) -> None:
        for ack in list(conversation.unconfirmed):
            if ack.due > now:
                continue
            if ack.transmissions > self.options.retransmissions:
                conversation.unconfirmed.remove(ack)
                out.append(Note("ack given up", ack.number % NUMBERS, ack.transmissions))
                continue
            out.append(Note("ack again", ack.number % NUMBERS, ack.transmissions))
            ack.transmissions += 1
            ack.timeout = next_timeout(ack.timeout)
            ack.due = now + self._drawn_out(ack.timeout)
            datagram = self._stamped(conversation, ACK)
            datagram.number = ack.number % NUMBERS
            datagram.transmission = ack.transmissions
            out.append(Transmit(datagram))

    def _confirmed(self, conversation: Conversation, number: int) -> None:
        """The peer knows that all its messages up to `number` came."""
        for ack in list(conversation.unconfirmed):
            if ack.number <= number:
                conversation.unconfirmed.remove(ack)

    def _transmit_plain(
        self, conversation: Conversation, kind: int, number: int, out: Effects
    ) -> None:
        datagram = self._stamped(conversation, kind)
        datagram.number = number % NUMBERS
        out.append(Transmit(datagram))

    # Small things

    def _draw_token(self) -> int:
        return self.random.getrandbits(TOKENS) | 1 << (TOKENS - 1)

    def _drawn_out(self, timeout: int) -> int:
        return timeout + self.random.getrandbits(32) % (timeout // JITTER + 1)


def _near(low: int, expected: int) -> int:
    """The number whose low 32 bits are `low` and that is nearest to `expected`."""
    distance = (low - expected) % NUMBERS
    if distance >= NUMBERS // 2:
        distance -= NUMBERS
    return expected + distance
