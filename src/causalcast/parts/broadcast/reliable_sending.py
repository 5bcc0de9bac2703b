"""Brings every message to every neighbour in spite of loss, cuts and crashes (sub-automaton).

The owner numbers messages per origin 1, 2, 3, …; so what a node has is one count per origin, plus
what lies beyond a gap. That count is the acknowledgement, the greeting on a new link, and what a
restarted node rebuilds from its records:

- A new message is persisted, kept, and sent to the neighbours that lack it.
- `Have` tells a neighbour the counts that changed; it stops repeating those.
- On a new link both ends tell all their counts, until each has heard the other, and then send what
  the other lacks. That is how a node that was away catches up.
- A message that every neighbour has is forgotten.

`spread` says how copies travel: `overlay` passes every message on along the overlay; `direct`
leaves it to the origin to reach everybody, who must be its neighbour. Then `safe_keeping` brings
what an origin that died can no longer bring.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, final

from causalcast.core.duration import MILLISECOND, SECOND
from causalcast.core.ids import (
    NUMBER_MASK,
    GroupId,
    LinkId,
    MessageId,
    NodeId,
    message_id,
    number_of,
    origin_of,
)
from causalcast.core.message import Message, Wire
from causalcast.core.outbox import Outbox
from causalcast.core.spec import Misfit, Option, Setup
from causalcast.limits import Limit
from causalcast.parts import safe_keeping
from causalcast.parts.duplicate_filter import DuplicateFilter
from causalcast.parts.kept_weight import KEPT_OVERHEAD
from causalcast.parts.safe_keeping import CopyOwner, Name, SafeKeeping

REPEAT: Final = "reliable_sending.repeat"
ACKNOWLEDGE: Final = "reliable_sending.acknowledge"
LATE: Final = Limit(
    "parts.broadcast.reliable_sending.late",
    4,
    least=2,
    most=64,
    unit="times",
    about="what acknowledgements took lately, before something is repeated on links that lose "
    "nothing",
)
MOST_PATIENCE: Final = Limit(
    "parts.broadcast.reliable_sending.most_patience",
    4 * SECOND,
    least=1 * MILLISECOND,
    most=60 * SECOND,
    unit="us",
    about="what acknowledgements are believed to take at most",
)
OVERHEAD: Final = 64  # bytes that a message takes beside what it carries, roughly
# How far an origin's numbers may run ahead of those that are here without a gap: on each link of a
# way at most a window is under way, and links are caught up on from the oldest on. But nobody uses
# up the numbers of an origin, or makes others keep places for millions that never come.
LEAST_AHEAD: Final = Limit(
    "parts.broadcast.reliable_sending.least_ahead",
    1 << 16,
    least=1,
    most=1 << 30,
    unit="messages",
    about="numbers of an origin beyond what came that are believed, at least",
)
WINDOWS_AHEAD: Final = Limit(
    "parts.broadcast.reliable_sending.windows_ahead",
    64,
    least=4,
    most=1 << 16,
    unit="windows",
    about="the same in windows: what came by other ways is ahead by several",
)
LEAST_EARLY: Final = Limit(
    "parts.broadcast.reliable_sending.least_early",
    128,
    least=1,
    most=1 << 16,
    unit="messages",
    about="messages that are acknowledged before the timer says so",
)


class Have(Message):
    """Tell a neighbour up to which number of each origin nothing is missing here, and what else
    is here beyond a gap.

    The receiver stops repeating those. With `all_of_it` these are all the counts there are, so the
    receiver sends whatever is beyond them; with `answer` it also tells its own.
    """

    wire = Wire(
        "reliable_sending.have",
        counts=dict[NodeId, int],
        beyond=list[MessageId],
        all_of_it=bool,
        answer=bool,
    )

    def __init__(
        self, counts: dict[NodeId, int], beyond: list[MessageId], all_of_it: bool, answer: bool
    ) -> None:
        self.counts = counts
        self.beyond = beyond
        self.all_of_it = all_of_it
        self.answer = answer


class Accepted(Message):
    """Record: this message is here and was passed to the protocol."""

    wire = Wire("reliable_sending.accepted", message=Message)

    def __init__(self, message: Message) -> None:
        self.message = message


class Forgotten(Message):
    """Record of a snapshot: everything up to these counts was here; some of it was forgotten."""

    wire = Wire("reliable_sending.forgotten", counts=dict[NodeId, int])

    def __init__(self, counts: dict[NodeId, int]) -> None:
        self.counts = counts


MESSAGES: Final = [Have, Accepted, Forgotten, *safe_keeping.MESSAGES]
ANY_GROUP: Final = GroupId(0)  # everybody gets everything: a number is name enough

# Branches that a campaign must have reached; what hostile peers alone can cause is not among them.
RARE: Final = [
    "reliable_sending.repeated",
    "reliable_sending.caught_up",
    "reliable_sending.beyond_a_gap",
]

# What people who run nodes want to hear of.
EVENTS: Final[dict[str, str]] = {
    "reliable_sending.cannot_bring": "a neighbour lacks messages that it had, or that were "
    "forgotten before it came: nobody can bring them, and it waits for them for ever",
}

OPTIONS: Final[list[Option]] = [
    Option(
        "spread",
        "overlay",
        "how copies travel: passed on along the overlay, or from the origin to each member",
        choices=["overlay", "direct"],
        change_if="all nodes are linked and few publish: fewer copies are sent",
    ),
    Option(
        "hand_over",
        True,
        "with spread = 'direct': keep copies until all have them, and bring them where their "
        "origin died",
        change_if="memory is short and an origin that dies for good may take messages with it",
    ),
    Option(
        "repeat_after",
        250 * MILLISECOND,
        # Well above a round trip across a continent, so that repetitions mean loss.
        "send a message again if its acknowledgement takes longer than this",
        unit="ms",
        change_if="a round trip takes longer than a quarter of a second, or loss must show sooner",
    ),
    Option(
        "acknowledge_after",
        10 * MILLISECOND,
        # Many messages share one acknowledgement, and it still comes long before a repetition.
        "collect acknowledgements for this long",
        unit="ms",
        change_if="a message must be known to be everywhere sooner, for more small packets",
    ),
    Option(
        "window",
        1000,
        # Bounds what is under way to a neighbour that is slow or catching up.
        "messages under way to one neighbour before further ones wait for acknowledgements",
        least=1,
        change_if="the way is long and fast, or a slow neighbour takes too much memory",
    ),
]


class Run(Message):
    """Messages that came as one and are kept as one, under the last one's number; never sent."""

    def __init__(self, messages: Callable[[], list[Message]], size: int) -> None:
        self.messages = messages
        self.size = size  # of all of them, as `size_of` would have it


@final
class Neighbour:
    """What we know of one neighbour."""

    def __init__(self) -> None:
        self.up = False
        self.heard = False  # since the link came up: did it tell what it has
        self.has = DuplicateFilter()  # it acknowledged or sent these
        self.under_way: dict[MessageId, int] = {}  # sent, not acknowledged; when
        self.queue: deque[MessageId] = deque()  # to be sent when the window allows
        self.queued_bytes = 0  # that these stand for
        self.backlog_bytes = 0  # of them when it came back; they hold nobody up
        self.answers_within = 0  # microseconds its acknowledgements took lately
        self.to_acknowledge: dict[MessageId, None] = {}  # it sent these since it was last told
        self.unacknowledged = 0  # how many they stand for


@final
class ReliableSending(CopyOwner):
    """Messages that some neighbour may still lack, and what each neighbour has.

    Large because sending, acknowledging, catching up and forgetting all look at the same two
    things, what is kept and what each neighbour has, and each is a few lines.
    """

    def __init__(
        self,
        setup: Setup,
        id_of: Callable[[Message], MessageId],
        for_link: Callable[[NodeId, Message], tuple[Message, LinkId]] | None = None,
        size_of: Callable[[Message], int] | None = None,
    ) -> None:
        """`for_link` puts a message into the form in which it leaves on the link to a peer, and
        names that link: on a later one it would be misunderstood. `size_of` says how much memory a
        message takes that waits for its window."""
        self.direct = setup.text("spread") == "direct"
        if self.direct and not setup.topology.is_complete():
            raise Misfit("spread = 'direct' needs everybody to be a neighbour (overlay full_mesh)")
        self._hands_over = self.direct and setup.flag("hand_over")
        self.me = setup.me
        self.repeat_after = setup.number("repeat_after")
        self.acknowledge_after = setup.number("acknowledge_after")
        self.window = setup.number("window")
        self.seen = DuplicateFilter()
        self.neighbours = {peer: Neighbour() for peer in setup.topology.neighbours()}
        self._founders = dict.fromkeys(self.neighbours)
        self._others: dict[NodeId, list[NodeId]] = {}  # per origin: who else is to have a message
        self._kept: dict[MessageId, Message] = {}  # in the order they were accepted
        self.kept_bytes = 0  # that these take, roughly
        self._forgotten: dict[NodeId, int] = {}  # per origin: every neighbour has 1..n
        self._id_of = id_of
        self._for_link = for_link
        self._size_of = size_of
        self.safe = SafeKeeping(self, self.repeat_after, needs_end=False)
        # A busy link is acknowledged before the window is full, however late the timer is.
        self._acknowledge_at = max(self.window // 4, LEAST_EARLY.value)

    # What the owner calls

    def accept(self, message: Message, sender: NodeId, out: Outbox) -> bool:
        """Take in a message; False if it was here already. Own messages have `sender` me."""
        identity = self._id_of(message)
        neighbour = self.neighbours.get(sender)
        if neighbour is not None:
            neighbour.has.add(identity)  # who sends it has it
            if neighbour.under_way:
                neighbour.under_way.pop(identity, None)
            if neighbour.queue:
                self._send_queued(sender, neighbour, out)
            to_acknowledge = neighbour.to_acknowledge
            if not to_acknowledge:
                out.start_timer(ACKNOWLEDGE, self.acknowledge_after, sender)
            to_acknowledge[identity] = None
            neighbour.unacknowledged += 1
        is_new = self.seen.add(identity)
        if not is_new:
            out.duplicate(identity)
            self._forget(origin_of(identity))
        else:
            if out.world.keeps_records:
                out.persist(Accepted(message))
            if not self.direct or sender == self.me:
                self._keep(identity, message)
                self._spread(identity, out)
                if neighbour is not None:  # nobody has what was made here just now
                    self._forget(origin_of(identity))
            elif self._hands_over:
                self._keep_safe(identity, message)
                self.safe.tend(out)
        if neighbour is not None and neighbour.unacknowledged >= self._acknowledge_at:
            out.cancel_timer(ACKNOWLEDGE, sender)
            self._acknowledge(sender, neighbour, out)
        return is_new

    def accepts_run(
        self,
        first: MessageId,
        last: MessageId,
        messages: Callable[[], list[Message]],
        size: int,
        sender: NodeId,
        out: Outbox,
    ) -> bool:
        """Take in all messages from `first` to `last` at once, if they are the next of another
        origin and need not be persisted or passed on here; else nothing happens, and False. `size`
        is that of all `messages`, which are made only if somebody needs them."""
        neighbour = self.neighbours.get(sender)
        origin = origin_of(first)
        if neighbour is None or not self.direct or out.world.keeps_records or origin == self.me:
            return False
        if not self.seen.is_next(first) or not neighbour.has.is_next(first):
            return False
        number = number_of(last)
        neighbour.has.counts[origin] = number
        self.seen.counts[origin] = number
        if neighbour.queue:
            self._send_queued(sender, neighbour, out)
        if not neighbour.to_acknowledge:
            out.start_timer(ACKNOWLEDGE, self.acknowledge_after, sender)
        neighbour.to_acknowledge[last] = None
        neighbour.unacknowledged += number - number_of(first) + 1
        if self._hands_over:
            self._keep_safe(last, Run(messages, size))
            self.safe.tend(out)
        if neighbour.unacknowledged >= self._acknowledge_at:
            out.cancel_timer(ACKNOWLEDGE, sender)
            self._acknowledge(sender, neighbour, out)
        return True

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        """A `Have` came, or something about what is kept for origins that are away."""
        neighbour = self.neighbours.get(sender)
        if self.direct and neighbour is not None and self.safe.on_message(sender, message, out):
            return
        if not isinstance(message, Have) or neighbour is None:
            out.note("reliable_sending.stray", sender)
            return
        if out.world.links_lose_nothing:
            self._learn_how_long(neighbour, message, out)
        else:
            self._learn(neighbour, message)
        if self._hands_over:
            self.safe.got_everywhere(ANY_GROUP, self._everywhere(), out)
        if message.all_of_it:
            # Where messages can overtake one another, counts may be old ones.
            if out.world.links_lose_nothing and not neighbour.heard and sender in self._founders:
                self._look_for_losses(sender, message, out)
            neighbour.heard = True
        if message.answer:
            self._tell_all(sender, neighbour, out)
        if message.all_of_it:
            # In the order they were accepted here, so that causes come before their effects.
            neighbour.queue = deque(
                identity for identity in self._kept if not neighbour.has.has(identity)
            )
            neighbour.queued_bytes = sum(self._size(identity) for identity in neighbour.queue)
            neighbour.backlog_bytes = neighbour.queued_bytes
            if neighbour.queue:
                out.note("reliable_sending.caught_up", sender)
        self._send_queued(sender, neighbour, out)

    def _look_for_losses(self, peer: NodeId, have: Have, out: Outbox) -> None:
        """Whoever lacks what was forgotten here had said that it has it, or was not there then."""
        for origin, count in self.seen.counts.items():
            if self.direct and origin != self.me:
                continue  # only the origin keeps them
            first = message_id(origin, have.counts.get(origin, 0) + 1)
            if number_of(first) <= count and first not in self._kept and first not in have.beyond:
                out.note("reliable_sending.cannot_bring", peer)
                return

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        """Repeat what was not acknowledged, or acknowledge what was collected."""
        if name == safe_keeping.TEND:
            self.safe.on_timer(out)
            return
        if name == safe_keeping.TELL:
            self.safe.tell(out)
            return
        peer = NodeId(subject)
        neighbour = self.neighbours[peer]
        if name == ACKNOWLEDGE:
            self._acknowledge(peer, neighbour, out)
        else:
            assert name == REPEAT
            self._repeat(peer, neighbour, out)

    def on_neighbour_up(self, peer: NodeId, out: Outbox) -> None:
        """Tell a new neighbour what is here, and expect the same of it."""
        neighbour = self.neighbours.setdefault(peer, Neighbour())
        neighbour.up = True
        neighbour.heard = False
        neighbour.under_way = {}
        neighbour.queue.clear()
        self._tell_all(peer, neighbour, out)
        out.start_timer(REPEAT, self.repeat_after, peer)
        if self._hands_over:
            self.safe.on_neighbour_up(peer, out)

    def on_neighbour_down(self, peer: NodeId, out: Outbox) -> None:
        """Send nothing more; what it lacks is kept for its return."""
        neighbour = self.neighbours[peer]
        neighbour.up = False
        neighbour.under_way = {}
        neighbour.queue.clear()
        neighbour.to_acknowledge = {}
        neighbour.unacknowledged = 0
        if peer not in self._founders:
            del self.neighbours[peer]  # a passing guest: nothing is kept for its return
        out.cancel_timer(REPEAT, peer)
        out.cancel_timer(ACKNOWLEDGE, peer)
        if self._hands_over:
            self.safe.on_neighbour_down(peer, out)

    def on_suspect(self, peer: NodeId, out: Outbox) -> None:
        """The detector believes `peer` to be down."""
        if self._hands_over:
            self.safe.on_suspect(peer, out)

    def on_trust(self, peer: NodeId, out: Outbox) -> None:
        """The detector believes so no longer."""
        if self._hands_over:
            self.safe.on_trust(peer, out)

    def restore(self, record: Message) -> Message | None:
        """Take in one record after a restart; the message that was accepted comes back."""
        if isinstance(record, Forgotten):
            for origin, count in record.counts.items():
                self.seen.skip_to(origin, count)
            return None
        if not isinstance(record, Accepted):
            return None
        identity = self._id_of(record.message)
        self.seen.add(identity)
        if not self.direct or origin_of(identity) == self.me:
            self._keep(identity, record.message)
        elif self._hands_over:
            self._keep_safe(identity, record.message)
        return record.message

    def snapshot(self, also: list[Message]) -> list[Message]:
        """Records for a restart: counts, what is kept, and what the owner still needs (`also`)."""
        records: list[Message] = [Forgotten(dict(self.seen.counts))]
        safe = [one for _, _, message in self.safe.copies() for one in _all_of(message)]
        kept = {**self._kept, **{self._id_of(message): message for message in [*also, *safe]}}
        records.extend(Accepted(message) for message in kept.values())
        return records

    def size(self) -> int:
        """Entries kept."""
        return self.seen.size() + self.kept()

    def waiting_bytes(self) -> int:
        """Bytes that wait for the window of the neighbour that is furthest behind, without what it
        missed while it was away."""
        most = 0
        for neighbour in self.neighbours.values():
            if neighbour.queue and neighbour.queued_bytes - neighbour.backlog_bytes > most:
                most = neighbour.queued_bytes - neighbour.backlog_bytes
        return most

    def furthest(self, origin: NodeId) -> int:
        """The greatest number of `origin` that may come now; -1 if that cannot be told."""
        if self.seen.counts.get(origin, 0) == 0:
            return -1  # who comes late to a system that changes begins anywhere
        return self._furthest_named(origin)

    def _furthest_named(self, origin: NodeId) -> int:
        """The greatest number of `origin` that a neighbour may have beyond a gap."""
        count = self.seen.counts.get(origin, 0)
        return count + max(LEAST_AHEAD.value, WINDOWS_AHEAD.value * self.window)

    def kept(self) -> int:
        """Messages that some neighbour may still lack."""
        return len(self._kept) + self.safe.size()

    def kept_for(self) -> dict[NodeId, int]:
        """How many of the messages that are to come from here each neighbour lacks."""
        counts = self.seen.counts
        if self.direct:
            counts = {self.me: counts.get(self.me, 0)}
        return {
            peer: sum(
                max(0, count - neighbour.has.counts.get(origin, 0))
                for origin, count in counts.items()
            )
            for peer, neighbour in self.neighbours.items()
        }

    # Sending

    def _spread(self, identity: MessageId, out: Outbox) -> None:
        message = self._kept.get(identity)
        if message is None:
            return  # every neighbour has it
        size = -1
        for peer, neighbour in self.neighbours.items():
            if not neighbour.up or neighbour.has.has(identity):
                continue
            if not neighbour.heard and self._is_far_ahead(identity, neighbour):
                continue  # when it has told what it has, it gets this behind all that it lacks
            if not neighbour.queue and len(neighbour.under_way) < self.window:
                self._send_first(peer, neighbour, identity, message, out)
            else:
                if size < 0:
                    size = self._size(identity)
                neighbour.queue.append(identity)
                neighbour.queued_bytes += size
                self._send_queued(peer, neighbour, out)

    def _is_far_ahead(self, identity: MessageId, neighbour: Neighbour) -> bool:
        """Whether somebody who was away may refuse a message as too far from all that it has."""
        return number_of(identity) > neighbour.has.counts.get(origin_of(identity), 0) + self.window

    def _send_queued(self, peer: NodeId, neighbour: Neighbour, out: Outbox) -> None:
        """Send what waits for this neighbour, as far as the window allows."""
        under_way = neighbour.under_way
        while neighbour.queue and len(under_way) < self.window:
            identity = neighbour.queue.popleft()
            neighbour.queued_bytes -= self._size(identity)
            message = self._kept.get(identity)
            if message is None or identity in under_way or neighbour.has.has(identity):
                continue
            self._send_first(peer, neighbour, identity, message, out)
        if not neighbour.queue:
            # What was forgotten while it waited has no size any more.
            neighbour.queued_bytes = neighbour.backlog_bytes = 0

    def _send_first(
        self,
        peer: NodeId,
        neighbour: Neighbour,
        identity: MessageId,
        message: Message,
        out: Outbox,
    ) -> None:
        if not neighbour.under_way and neighbour.heard:
            out.start_timer(REPEAT, self.repeat_after, peer)
        neighbour.under_way[identity] = out.now
        self._send(peer, message, out)

    def _size(self, identity: MessageId) -> int:
        message = self._kept.get(identity)
        return 0 if message is None or self._size_of is None else OVERHEAD + self._size_of(message)

    def _weight(self, message: Message) -> int:
        return KEPT_OVERHEAD + self.body_bytes(message)

    def _send(self, peer: NodeId, message: Message, out: Outbox) -> None:
        if self._for_link is None:
            out.send(peer, message)
            return
        # It leaves when the step is durable, and there may be another link by then.
        message, link = self._for_link(peer, message)
        out.send(peer, message, link)

    def _repeat(self, peer: NodeId, neighbour: Neighbour, out: Outbox) -> None:
        if not neighbour.heard:
            self._tell_all(peer, neighbour, out)
        # A link that takes nothing more has not lost what it was given.
        under_way = [] if peer in out.world.congested else list(neighbour.under_way.items())
        patience = self.repeat_after
        if out.world.links_lose_nothing:
            # Who answers late is busy, and repetitions would only make that worse.
            patience = LATE.value * max(patience, neighbour.answers_within)
            if under_way and under_way[0][1] + patience <= out.now:
                neighbour.answers_within = min(2 * patience // LATE.value, MOST_PATIENCE.value)
        for identity, sent_at in under_way:
            if sent_at + patience > out.now:
                continue
            neighbour.under_way[identity] = out.now
            out.note("reliable_sending.repeated", identity)
            self._send(peer, self._kept[identity], out)
        if neighbour.under_way or not neighbour.heard:
            out.start_timer(REPEAT, self.repeat_after, peer)

    # Acknowledging

    def _acknowledge(self, peer: NodeId, neighbour: Neighbour, out: Outbox) -> None:
        counts: dict[NodeId, int] = {}
        beyond: list[MessageId] = []
        for identity in neighbour.to_acknowledge:
            origin = origin_of(identity)
            count = self.seen.counts.get(origin, 0)
            if number_of(identity) <= count:
                counts[origin] = count
            else:
                beyond.append(identity)
        neighbour.to_acknowledge = {}
        neighbour.unacknowledged = 0
        if beyond:
            out.note("reliable_sending.beyond_a_gap", peer)
        out.send(peer, Have(counts, beyond, False, False))

    def _tell_all(self, peer: NodeId, neighbour: Neighbour, out: Outbox) -> None:
        beyond = self.seen.beyond()
        out.send(peer, Have(dict(self.seen.counts), beyond, True, not neighbour.heard))

    # For origins that are away

    def _keep_safe(self, identity: MessageId, message: Message) -> None:
        origin, name = origin_of(identity), (ANY_GROUP, number_of(identity))
        if origin not in self._others:
            self._others[origin] = [node for node in self._founders if node != origin]
        self.safe.keep(origin, name, message, self._others[origin])

    def _everywhere(self) -> int:
        """Own messages up to this one are."""
        # Where copies go straight, only own ones are kept here, in order.
        for first in self._kept:
            return number_of(first) - 1
        return self.seen.counts.get(self.me, 0)

    def everywhere_up_to(self, group: GroupId, number: int) -> int:
        return min(number, self._everywhere())

    def is_on_its_way(self, group: GroupId, number: int) -> bool:
        identity = message_id(self.me, number)
        neighbours = self.neighbours.values()
        return any(one.up and not one.has.has(identity) for one in neighbours)

    def is_missing(self, origin: NodeId, name: Name) -> bool:
        # Whether anything up to here is missing: what came as one is offered by its last number.
        return name[1] > self.seen.counts.get(origin, 0)

    def is_needed(self, node: NodeId, message: Message) -> bool:
        return True  # there are no groups here that one could leave

    def forgot(self, origin: NodeId, name: Name) -> None:
        pass  # nothing else is known of it

    def body_bytes(self, message: Message) -> int:
        if isinstance(message, Run):
            return message.size
        return 0 if self._size_of is None else self._size_of(message)

    def hand_over(self, peer: NodeId, origin: NodeId, message: Message, out: Outbox) -> None:
        for one in _all_of(message):
            self._send(peer, one, out)

    # Keeping and forgetting

    def _keep(self, identity: MessageId, message: Message) -> None:
        everywhere = self._forgotten.get(origin_of(identity), 0)
        if self.neighbours and number_of(identity) > everywhere:
            if identity not in self._kept:
                self.kept_bytes += self._weight(message)
            self._kept[identity] = message

    def _learn(self, neighbour: Neighbour, have: Have) -> None:
        """The neighbour has all this: stop repeating it, and forget what all have."""
        for identity in have.beyond:
            # What is named far ahead would be remembered for ever; passed over it costs a copy.
            if number_of(identity) <= self._furthest_named(origin_of(identity)):
                neighbour.has.add(identity)
            neighbour.under_way.pop(identity, None)
            self._forget(origin_of(identity))
        for origin, count in have.counts.items():
            known = neighbour.has.counts.get(origin, 0)
            if count > known:
                neighbour.has.skip_to(origin, count)
                for identity in _run_of(origin, known, count, neighbour.under_way):
                    neighbour.under_way.pop(identity, None)
                self._forget(origin)

    def _learn_how_long(self, neighbour: Neighbour, have: Have, out: Outbox) -> None:
        """The same, and how long the oldest had been under way."""
        before = len(neighbour.under_way)
        oldest = next(iter(neighbour.under_way.values())) if before else out.now
        self._learn(neighbour, have)
        if len(neighbour.under_way) < before:
            took = out.now - oldest
            neighbour.answers_within = max(took, (7 * neighbour.answers_within + took) // 8)

    def _forget(self, origin: NodeId) -> None:
        """Keep no longer what every neighbour has of `origin`."""
        if not self._kept or not self.neighbours:
            return
        forgotten = self._forgotten.get(origin, 0)
        everywhere = NUMBER_MASK
        for neighbour in self.neighbours.values():
            count = neighbour.has.counts.get(origin, 0)
            if count <= forgotten:  # as a rule: this is asked at every message
                return
            everywhere = min(everywhere, count)
        for identity in _run_of(origin, forgotten, everywhere, self._kept):
            forgotten_message = self._kept.pop(identity, None)
            if forgotten_message is not None:
                self.kept_bytes -= self._weight(forgotten_message)
        self._forgotten[origin] = everywhere


def _all_of(message: Message) -> list[Message]:
    return message.messages() if isinstance(message, Run) else [message]


def _run_of(
    origin: NodeId, after: int, to: int, among: Mapping[MessageId, object]
) -> list[MessageId]:
    """The ids of `origin` numbered from `after` + 1 to `to`, at least those that are `among`."""
    if to - after <= len(among):
        return [message_id(origin, number) for number in range(after + 1, to + 1)]
    return [
        identity
        for identity in among
        if origin_of(identity) == origin and after < number_of(identity) <= to
    ]
