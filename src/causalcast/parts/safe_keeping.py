"""What a dead origin can no longer bring, those who have it bring (sub-automaton).

Where copies go straight from their origin, it alone knows who lacks one. If it dies for good in the
middle of a multicast, some have the copy and some do not. So whoever takes a copy keeps it until it
is at all its destinations:

- While the origin is there, it tells: up to which number its copies of a group are everywhere. It
  tells that at once, but after a pause if it has just told something and there is not much to tell.
  What it told is forgotten. Only if the oldest copy of a group stays for longer than that takes,
  its origin is asked, and less and less often: what it told may have been lost. If the copy is for
  somebody who stays away, it is offered to all that can be reached from here, and when these have
  answered, the asking ends. From then on the origin is in debt: when its copies get everywhere, it
  tells so until it is asked again.
- While it is away, or suspected, copies are offered to their other destinations. Those say what
  they have and what they lack; what they lack is handed over. What all have is forgotten.

Nothing is lost by a wrong suspicion: a copy that comes twice is recognised by its name, which is
its origin, a group (0 where groups do not matter) and a number. In a group the numbers of an origin
rise in the order it sends. Nor by an origin that returns: it goes on with what it has on disk, and
is asked again.

All messages here may be lost or repeated. The owner hands copies over, says what is lacking, and
makes what is kept durable.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Final, final

from mypy_extensions import mypyc_attr

from causalcast.core.duration import MILLISECOND, SECOND
from causalcast.core.ids import GroupId, NodeId
from causalcast.core.message import Message, Wire
from causalcast.core.outbox import Outbox
from causalcast.limits import Limit
from causalcast.parts.kept_weight import KEPT_OVERHEAD

TEND: Final = "safe_keeping.tend"
TELL: Final = "safe_keeping.tell"
# Times the first pause. If for so long all have answered that somebody is away, nothing is asked
# until a link comes or goes, a new copy is kept, or an origin tells.
MOST_PATIENCE: Final = Limit(
    "parts.safe_keeping.most_patience",
    64,
    least=1,
    most=1 << 16,
    unit="times",
    about="the first pause, until nothing more is asked before something changes",
)
MOST_UNANSWERED: Final = Limit(
    "parts.safe_keeping.most_unanswered",
    1 * SECOND,
    least=50 * MILLISECOND,
    most=60 * SECOND,
    unit="us",
    about="how long an answer is waited for before the next question",
)
# Copies. A busy origin tells as often as it hears: others acknowledge some hundred at once, and
# copies that stay longer than that no longer fit into a cache.
TELL_AT_ONCE: Final = Limit(
    "parts.safe_keeping.tell_at_once",
    128,
    least=1,
    most=1 << 16,
    unit="copies",
    about="copies that are everywhere, before keepers are told at once",
)

Numbers = dict[GroupId, list[int]]
Counts = dict[GroupId, int]
Name = tuple[GroupId, int]


class Ask(Message):
    """Up to which number are your copies at all their destinations? Of each group, these are the
    oldest and the newest that are kept here."""

    wire = Wire("safe_keeping.ask_up_to", oldest=dict[GroupId, int], newest=dict[GroupId, int])

    def __init__(self, oldest: Counts, newest: Counts) -> None:
        self.oldest = oldest
        self.newest = newest


class Everywhere(Message):
    """All copies of mine up to these are: forget them. With `soon`, some of the others are on their
    way, so ask again; if not, they are for somebody who is away, and I will tell. With `ask`, that
    is what I do now: ask about what you still keep, even if it is nothing."""

    wire = Wire("safe_keeping.everywhere_up_to", counts=dict[GroupId, int], soon=bool, ask=bool)

    def __init__(self, counts: Counts, soon: bool, ask: bool) -> None:
        self.counts = counts
        self.soon = soon
        self.ask = ask


class Offer(Message):
    """The origin seems to be away, and these were meant for you too: say what you have."""

    wire = Wire("safe_keeping.offer", origin=NodeId, numbers=dict[GroupId, list[int]])

    def __init__(self, origin: NodeId, numbers: Numbers) -> None:
        self.origin = origin
        self.numbers = numbers


class Answer(Message):
    """Of what you offered I have these, and lack those."""

    wire = Wire(
        "safe_keeping.answer",
        origin=NodeId,
        has=dict[GroupId, list[int]],
        lacks=dict[GroupId, list[int]],
    )

    def __init__(self, origin: NodeId, has: Numbers, lacks: Numbers) -> None:
        self.origin = origin
        self.has = has
        self.lacks = lacks


MESSAGES: Final = [Ask, Everywhere, Offer, Answer]
RARE: Final = ["safe_keeping.handed_over", "safe_keeping.offered_in_vain"]


@final
@mypyc_attr(acyclic=True)  # many are made: the garbage collector need not look at them
class Kept:
    """A copy, and who of its destinations may lack it."""

    def __init__(self, message: Message, may_lack: list[NodeId], weight: int) -> None:
        self.message = message
        self.weight = weight  # bytes, roughly
        self.stays = False  # it was the oldest of its group when that was last looked at
        self._others = may_lack  # the same list for many
        self._may_lack: dict[NodeId, None] | None = None

    @property
    def may_lack(self) -> dict[NodeId, None]:
        """Those who did not say that they have it; made when it is first looked at."""
        if self._may_lack is None:
            self._may_lack = dict.fromkeys(self._others)
        return self._may_lack


@final
class Shelf:
    """What is known of the copies of one origin for one group."""

    def __init__(self) -> None:
        self.everywhere = 0  # the origin told so of all up to this one
        self.copies: dict[int, Kept] = {}  # by number, in the order they were kept

    def oldest(self) -> int:
        """The number of the copy that was kept first."""
        return next(iter(self.copies))

    def stays(self) -> bool:
        """Whether the oldest copy was so when it was last looked at."""
        return self.copies[self.oldest()].stays


@mypyc_attr(allow_interpreted_subclasses=True)
class CopyOwner(ABC):
    """Whoever has a `SafeKeeping`: it sends own copies, and brings those of others."""

    @abstractmethod
    def everywhere_up_to(self, group: GroupId, number: int) -> int:
        """Of own copies up to `number`, the last one that is everywhere with all before it."""

    @abstractmethod
    def is_on_its_way(self, group: GroupId, number: int) -> bool:
        """Whether somebody who is there does not have this own copy yet."""

    @abstractmethod
    def is_missing(self, origin: NodeId, name: Name) -> bool:
        """Whether a copy that is offered is not here, and has to be."""

    @abstractmethod
    def hand_over(self, peer: NodeId, origin: NodeId, message: Message, out: Outbox) -> None:
        """Bring a copy of `origin` to a peer."""

    @abstractmethod
    def body_bytes(self, message: Message) -> int:
        """How large the bodies in a copy are."""

    @abstractmethod
    def is_needed(self, node: NodeId, message: Message) -> bool:
        """Whether a node that a copy was for still needs it."""

    @abstractmethod
    def forgot(self, origin: NodeId, name: Name) -> None:
        """A copy is everywhere, and no longer kept."""


@final
class SafeKeeping:
    """Copies of others that may not be everywhere yet.

    Large because asking, telling, offering and answering share one pause and one idea of who is
    away. Agreed views would replace most of it.
    """

    def __init__(self, owner: CopyOwner, first_pause: int, needs_end: bool) -> None:
        """`needs_end`: a destination may cease to need a copy, and the owner is asked about it."""
        self._owner = owner
        self._needs_end = needs_end
        self._first_pause = first_pause
        self._pause = first_pause
        self._shelves: dict[NodeId, dict[GroupId, Shelf]] = {}
        self._kept = 0  # copies on all of them
        self.kept_bytes = 0  # that these take, roughly
        self._up: dict[NodeId, None] = {}
        self._suspected: dict[NodeId, None] = {}
        self._tending = False
        self._unanswered: dict[NodeId, None] = {}  # they were asked or offered something
        self._told: Counts = {}  # up to where own copies are everywhere, as others were told
        self._to_tell: Counts = {}  # … and as they will be when the timer fires
        self._told_at = -first_pause
        self._in_debt_to: dict[NodeId, None] = {}  # they no longer ask: somebody was away
        self._due: dict[NodeId, None] = {}  # they are told until they ask

    # What the owner calls

    def keep(self, origin: NodeId, name: Name, message: Message, others: list[NodeId]) -> bool:
        """Keep a copy until the others that it is for have it; False if they have, or if it is
        kept already."""
        if not others:
            return False
        shelves = self._shelves.get(origin)
        if shelves is None:
            shelves = self._shelves[origin] = {}
        group = name[0]
        number = name[1]
        shelf = shelves.get(group)
        if shelf is None:
            shelf = shelves[group] = Shelf()
        if number <= shelf.everywhere or number in shelf.copies:
            return False
        weight = KEPT_OVERHEAD + self._owner.body_bytes(message)
        shelf.copies[number] = Kept(message, others, weight)
        self._kept += 1
        self.kept_bytes += weight
        self._pause = self._first_pause
        return True

    def tend(self, out: Outbox) -> None:
        """Go on with what is kept, if there is anything and anybody to speak with."""
        if self._tending or self._kept == 0 or not self._up:
            return
        if not self._is_last_round() or self._unanswered:
            self._tending = True
            pause = self._longest_unanswered() if self._is_last_round() else self._pause
            out.start_timer(TEND, pause)

    def got_everywhere(self, group: GroupId, number: int, out: Outbox) -> None:
        """Own copies up to this one are everywhere: whoever keeps them is told, soon."""
        told = self._told.get(group, 0)
        if number <= max(told, self._to_tell.get(group, 0)):
            return
        waits = bool(self._to_tell)
        self._to_tell[group] = number
        pause_ends = self._told_at + self._first_pause
        if out.now >= pause_ends or number - told >= TELL_AT_ONCE.value:
            if waits:
                out.cancel_timer(TELL)
            self.tell(out)
        elif not waits:
            out.start_timer(TELL, pause_ends - out.now)

    def has(self, origin: NodeId, name: Name) -> bool:
        """Whether this copy is kept here."""
        return self._copy(origin, name) is not None

    def copies(self) -> Iterator[tuple[NodeId, Name, Message]]:
        """All that is kept: its origin, its name, and the copy; of a group of an origin in order.

        What is kept may change meanwhile."""
        for origin, group, shelf in self._filled():
            for number, copy in list(shelf.copies.items()):
                yield origin, (group, number), copy.message

    def is_away(self, node: NodeId) -> bool:
        """Whether a node is taken to be down."""
        return node not in self._up or node in self._suspected

    def present(self) -> list[NodeId]:
        """Those that can be spoken with."""
        return list(self._up)

    def size(self) -> int:
        """Copies kept."""
        return self._kept

    # What the node is told

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> bool:
        """Whether it was one of ours."""
        if isinstance(message, Everywhere):
            if not message.soon:
                self._unanswered.pop(sender, None)
            for group, count in message.counts.items():
                self._forget_up_to(sender, group, count)
            if message.ask:
                self._ask_about_all(sender, out)
        elif isinstance(message, Ask):
            self._on_ask(sender, message, out)
        elif isinstance(message, Offer):
            self._on_offer(sender, message, out)
        elif isinstance(message, Answer):
            self._on_answer(sender, message, out)
        else:
            return False
        return True

    def on_timer(self, out: Outbox) -> None:
        """Ask origins that are there about what stays, and offer what those that are away cannot
        bring."""
        self._tending = False
        if any(not self.is_away(peer) for peer in self._unanswered):
            # Lost, or to be asked again.
            self._pause = min(2 * self._pause, self._longest_unanswered())
        elif self._is_last_round():
            return  # and all have answered
        else:
            self._pause *= 2
        self._unanswered = {}
        self._drop_what_nobody_needs()
        for origin in self._shelves:
            if not self.is_away(origin):
                self._ask(origin, out)
                if not self._is_last_round():
                    continue
                # Who is away for the origin may be here, and may get it when nobody asks any more.
            self._offer(origin, out)
        self.tend(out)

    def tell(self, out: Outbox) -> None:
        """Say up to where own copies are everywhere."""
        news = self._to_tell
        self._to_tell = {}
        self._told.update(news)
        self._told_at = out.now
        if news:
            self._due.update(self._in_debt_to)
            self._in_debt_to = {}
            everywhere = Everywhere(news, True, False)
            for peer in self._up:
                if peer not in self._due:
                    out.send(peer, everywhere)
        for peer in self._due:
            out.send(peer, Everywhere(dict(self._told), True, True))
        if self._due:
            out.start_timer(TELL, self._longest_unanswered())  # who hangs is not pestered

    def on_neighbour_up(self, peer: NodeId, out: Outbox) -> None:
        """Somebody may have come back that lacks something, or knows something."""
        self._up[peer] = None
        self._begin_again(out)

    def on_neighbour_down(self, peer: NodeId, out: Outbox) -> None:
        """What it published may be up to us now."""
        self._up.pop(peer, None)
        self._in_debt_to.pop(peer, None)  # it asks when it is back
        self._due.pop(peer, None)
        if not self._up:
            self._tending = False
            out.cancel_timer(TEND)
        else:
            self._begin_again(out)

    def on_suspect(self, peer: NodeId, out: Outbox) -> None:
        """The same, as far as the detector knows."""
        self._suspected[peer] = None
        self._begin_again(out)

    def on_trust(self, peer: NodeId, out: Outbox) -> None:
        """It can be asked again."""
        self._suspected.pop(peer, None)
        self._begin_again(out)

    # Small things

    def _begin_again(self, out: Outbox) -> None:
        """Something changed: ask and offer soon."""
        self._pause = self._first_pause
        self._tending = False
        self.tend(out)

    def _is_last_round(self) -> bool:
        return self._pause > MOST_PATIENCE.value * self._first_pause

    def _longest_unanswered(self) -> int:
        return min(MOST_UNANSWERED.value, MOST_PATIENCE.value * self._first_pause)

    def _ask(self, origin: NodeId, out: Outbox) -> None:
        """About the groups whose oldest copy stays; what comes and goes needs no question."""
        oldest: Counts = {}
        newest: Counts = {}
        for group, shelf in self._shelves[origin].items():
            if not shelf.copies:
                continue
            first = shelf.oldest()
            if shelf.stays():
                oldest[group] = first
                newest[group] = max(shelf.copies)
            else:
                shelf.copies[first].stays = True
                self._pause = 2 * self._first_pause  # longer than it takes to tell
        if oldest:
            out.send(origin, Ask(oldest, newest))
            self._unanswered[origin] = None

    def _ask_about_all(self, origin: NodeId, out: Outbox) -> None:
        shelves = self._shelves.get(origin, {})
        filled = {group: shelf for group, shelf in shelves.items() if shelf.copies}
        oldest = {group: shelf.oldest() for group, shelf in filled.items()}
        newest = {group: max(shelf.copies) for group, shelf in filled.items()}
        out.send(origin, Ask(oldest, newest))
        if filled:
            self._begin_again(out)

    def _on_ask(self, sender: NodeId, ask: Ask, out: Outbox) -> None:
        self._in_debt_to.pop(sender, None)
        self._due.pop(sender, None)
        if not ask.newest:
            return  # nothing is kept any more
        counts: Counts = {}
        soon = False
        for group, newest in ask.newest.items():
            counts[group] = count = self._owner.everywhere_up_to(group, newest)
            oldest = ask.oldest.get(group, newest)
            soon = soon or (count < oldest and self._owner.is_on_its_way(group, oldest))
        if not soon and counts != ask.newest:
            self._in_debt_to[sender] = None
        out.send(sender, Everywhere(counts, soon, False))

    def _offer(self, origin: NodeId, out: Outbox) -> None:
        for peer in self._up:
            meant: Numbers = {}
            for group, shelf in self._shelves[origin].items():
                numbers = [n for n, copy in shelf.copies.items() if peer in copy.may_lack]
                if numbers:
                    meant[group] = numbers
            if meant:
                out.send(peer, Offer(origin, meant))
                self._unanswered[peer] = None

    def _on_offer(self, sender: NodeId, offer: Offer, out: Outbox) -> None:
        has: list[Name] = []
        lacks: list[Name] = []
        for name in _names(offer.numbers):
            is_missing = self._owner.is_missing(offer.origin, name)
            (lacks if is_missing else has).append(name)
        if has:
            out.note("safe_keeping.offered_in_vain", sender)
        out.send(sender, Answer(offer.origin, _numbers(has), _numbers(lacks)))

    def _on_answer(self, sender: NodeId, answer: Answer, out: Outbox) -> None:
        self._unanswered.pop(sender, None)
        origin = answer.origin
        for name in _names(answer.has):
            copy = self._copy(origin, name)
            if copy is not None:
                copy.may_lack.pop(sender, None)
                if not copy.may_lack:
                    self._forget(origin, name)
        lacking = dict.fromkeys(_names(answer.lacks))
        for of, name, message in self.copies():  # of a group as they were kept: causes come first
            if of == origin and name in lacking:
                out.note("safe_keeping.handed_over", sender)
                self._owner.hand_over(sender, origin, message, out)
        if lacking and not self.is_away(origin):
            # That was the last round, and whether it arrives is to be heard, too.
            self._pause = min(self._pause, MOST_PATIENCE.value * self._first_pause)
            self.tend(out)

    def _drop_what_nobody_needs(self) -> None:
        if not self._needs_end:
            return
        for origin, group, shelf in self._filled():
            if not self.is_away(origin) and not shelf.stays():
                continue
            for number, copy in list(shelf.copies.items()):
                for node in list(copy.may_lack):
                    if not self._owner.is_needed(node, copy.message):
                        del copy.may_lack[node]
                if not copy.may_lack:
                    self._forget(origin, (group, number))

    def _filled(self) -> list[tuple[NodeId, GroupId, Shelf]]:
        """Shelves with something on them."""
        return [
            (origin, group, shelf)
            for origin, shelves in self._shelves.items()
            for group, shelf in shelves.items()
            if shelf.copies
        ]

    def _copy(self, origin: NodeId, name: Name) -> Kept | None:
        shelf = self._shelves.get(origin, {}).get(name[0])
        return None if shelf is None else shelf.copies.get(name[1])

    def _forget(self, origin: NodeId, name: Name) -> None:
        copy = self._shelves[origin][name[0]].copies.pop(name[1], None)
        if copy is not None:
            self._kept -= 1
            self.kept_bytes -= copy.weight
            self._owner.forgot(origin, name)

    def _forget_up_to(self, origin: NodeId, group: GroupId, count: int) -> None:
        """Copies come almost in the order of their numbers. One that came too early keeps those
        behind it until it goes itself."""
        shelf = self._shelves.get(origin, {}).get(group)
        if shelf is None:
            return
        shelf.everywhere = max(shelf.everywhere, count)  # others may still entrust us with it
        gone: list[int] = []
        for number in shelf.copies:
            if number > count:
                break
            gone.append(number)
        for number in gone:
            self.kept_bytes -= shelf.copies.pop(number).weight
        self._kept -= len(gone)
        for number in gone:
            self._owner.forgot(origin, (group, number))


def _numbers(names: list[Name]) -> Numbers:
    numbers: Numbers = {}
    for group, number in names:
        numbers.setdefault(group, []).append(number)
    return numbers


def _names(numbers: Numbers) -> list[Name]:
    return [(group, number) for group, several in numbers.items() for number in several]
