"""What a dead origin can no longer bring, those who have it bring (sub-automaton).

Where copies go straight from their origin, it alone knows who lacks one. If it dies for good in the
middle of a multicast, some have the copy and some do not. So whoever takes a copy keeps it until it
is at all its destinations:

- While the origin is there, it tells: up to which number its copies of a group are everywhere. It
  tells after a pause, or when that is much. What it told is forgotten. Only if the oldest copy of a
  group stays for longer than that takes, its origin is asked, and less and less often: what it told
  may have been lost. If the copy is for somebody who stays away, the asking ends until a link comes
  or goes, or a new copy is kept.
- While it is away, or suspected, copies are offered to their other destinations. Those say what
  they have and what they lack; what they lack is handed over. What all have is forgotten.

Nothing is lost by a wrong suspicion: a copy that comes twice is recognised by its name, which is
its origin, a group (0 where groups do not matter) and a number. In a group the numbers of an origin
rise in the order it sends. Nor by an origin that returns: it goes on with what it has on disk, and
is asked again.

All messages here may be lost or repeated. The owner hands copies over, says what is lacking, and
makes what is kept durable.
"""

from collections.abc import Callable, Iterator
from typing import Final, final

from mypy_extensions import mypyc_attr

from causalcast.core.duration import SECOND
from causalcast.core.ids import GroupId, NodeId
from causalcast.core.message import Message, Wire
from causalcast.core.outbox import Outbox

TEND: Final = "safe_keeping.tend"
TELL: Final = "safe_keeping.tell"
# Times the first pause. If for so long all have answered that somebody is away, and that did not
# change, nothing is asked until it does.
MOST_PATIENCE: Final = 64
MOST_UNANSWERED: Final = 1 * SECOND
# Copies. A busy origin tells as often as it hears: others acknowledge some hundred at once, and
# copies that stay longer than that no longer fit into a cache.
TELL_AT_ONCE: Final = 128

Numbers = dict[GroupId, list[int]]
Counts = dict[GroupId, int]
Name = tuple[GroupId, int]


class Ask(Message):
    """Up to which number are your copies at all their destinations? Of each group, these are the
    oldest and the newest that are kept here."""

    wire = Wire("safe_keeping.ask", oldest=dict[GroupId, int], newest=dict[GroupId, int])

    def __init__(self, oldest: Counts, newest: Counts) -> None:
        self.oldest = oldest
        self.newest = newest


class Everywhere(Message):
    """All copies of mine up to these are: forget them. With `soon`, some of the others are on their
    way, so ask again; if not, they are for somebody who is away."""

    wire = Wire("safe_keeping.everywhere", counts=dict[GroupId, int], soon=bool)

    def __init__(self, counts: Counts, soon: bool) -> None:
        self.counts = counts
        self.soon = soon


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

    def __init__(self, message: Message, may_lack: list[NodeId]) -> None:
        self.message = message
        self.stays = False  # it was the oldest of its group when that was last looked at
        self._others = may_lack  # the same list for many
        self._may_lack: dict[NodeId, None] | None = None

    @property
    def may_lack(self) -> dict[NodeId, None]:
        """Those who did not say that they have it; made when it is first looked at."""
        if self._may_lack is None:
            self._may_lack = dict.fromkeys(self._others)
        return self._may_lack


Shelf = dict[GroupId, dict[int, Kept]]  # of one origin: per group, in the order they were kept


@final
class SafeKeeping:
    """Copies of others that may not be everywhere yet."""

    def __init__(
        self,
        first_pause: int,
        everywhere_up_to: Callable[[GroupId, int], int],
        is_on_its_way: Callable[[GroupId, int], bool],
        lacks: Callable[[NodeId, GroupId, int], bool],
        hand_over: Callable[[NodeId, NodeId, Message, Outbox], None],
        forgot: Callable[[NodeId, Name], None] | None = None,
        needs: Callable[[NodeId, Message], bool] | None = None,
    ) -> None:
        """`everywhere_up_to`: of own copies up to a number, the last one that is everywhere with
        all before it; `is_on_its_way`: of those that are not, whether somebody who is there lacks
        it; `lacks`: whether this node lacks one that is offered; `hand_over`: bring a copy of an
        origin to a peer; `forgot`: a copy is everywhere; `needs`: whether a node that a copy was
        for still needs it."""
        self._forgot = forgot
        self._needs = needs
        self._first_pause = first_pause
        self._pause = first_pause
        self._everywhere_up_to = everywhere_up_to
        self._is_on_its_way = is_on_its_way
        self._lacks = lacks
        self._hand_over = hand_over
        self._kept: dict[NodeId, Shelf] = {}
        self._up: dict[NodeId, None] = {}
        self._suspected: dict[NodeId, None] = {}
        self._tending = False
        self._unanswered: dict[NodeId, None] = {}  # they were asked or offered something
        self._told: Counts = {}  # up to where own copies are everywhere, as others were told
        self._to_tell: Counts = {}  # … and as they will be when the timer fires

    # What the owner calls

    def keep(self, origin: NodeId, name: Name, message: Message, others: list[NodeId]) -> None:
        """Keep a copy until the others that it is for have it; nothing if there are none."""
        if others:
            shelf = self._kept.get(origin)
            if shelf is None:
                shelf = self._kept[origin] = {}
            group = name[0]
            kept = shelf.get(group)
            if kept is None:
                kept = shelf[group] = {}
            kept[name[1]] = Kept(message, others)
            self._pause = self._first_pause

    def tend(self, out: Outbox) -> None:
        """Go on with what is kept, if there is anything and anybody to speak with."""
        if self._tending or not self._kept or not self._up:
            return
        if self._pause <= MOST_PATIENCE * self._first_pause:
            self._tending = True
            out.start_timer(TEND, self._pause)

    def got_everywhere(self, group: GroupId, number: int, out: Outbox) -> None:
        """Own copies up to this one are everywhere: whoever keeps them is told."""
        told = self._told.get(group, 0)
        if number > max(told, self._to_tell.get(group, 0)):
            if not self._to_tell:
                out.start_timer(TELL, self._first_pause)
            self._to_tell[group] = number
            if number - told >= TELL_AT_ONCE:
                out.cancel_timer(TELL)
                self.tell(out)

    def has(self, origin: NodeId, name: Name) -> bool:
        """Whether this copy is kept here."""
        return name[1] in self._kept.get(origin, {}).get(name[0], {})

    def copies(self) -> Iterator[tuple[NodeId, Name, Message]]:
        """All that is kept: its origin, its name, and the copy; of a group of an origin in order.

        What is kept may change meanwhile."""
        for origin, group, number, copy in self._all_copies():
            yield origin, (group, number), copy.message

    def is_away(self, node: NodeId) -> bool:
        """Whether a node is taken to be down."""
        return node not in self._up or node in self._suspected

    def present(self) -> list[NodeId]:
        """Those that can be spoken with."""
        return list(self._up)

    def size(self) -> int:
        """Copies kept."""
        return sum(len(kept) for shelf in self._kept.values() for kept in shelf.values())

    # What the node is told

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> bool:
        """Whether it was one of ours."""
        if isinstance(message, Everywhere):
            if not message.soon:
                self._unanswered.pop(sender, None)
            for group, count in message.counts.items():
                self._forget_up_to(sender, group, count)
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
        self._pause *= 2
        if any(peer in self._up for peer in self._unanswered):
            longest = min(MOST_UNANSWERED, MOST_PATIENCE * self._first_pause)
            self._pause = min(self._pause, longest)  # lost, or to be asked again
        self._unanswered = {}
        self._drop_what_nobody_needs()
        for origin, shelf in self._kept.items():
            if self.is_away(origin):
                self._offer(origin, shelf, out)
            else:
                self._ask(origin, shelf, out)
        self.tend(out)

    def tell(self, out: Outbox) -> None:
        """Say up to where own copies are everywhere."""
        news = self._to_tell
        self._to_tell = {}
        self._told.update(news)
        everywhere = Everywhere(news, True)
        for peer in self._up:
            out.send(peer, everywhere)

    def on_neighbour_up(self, peer: NodeId, out: Outbox) -> None:
        """Somebody may have come back that lacks something, or knows something."""
        self._up[peer] = None
        self._begin_again(out)

    def on_neighbour_down(self, peer: NodeId, out: Outbox) -> None:
        """What it published may be up to us now."""
        self._up.pop(peer, None)
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

    def _ask(self, origin: NodeId, shelf: Shelf, out: Outbox) -> None:
        """About the groups whose oldest copy stays; what comes and goes needs no question."""
        oldest: Counts = {}
        newest: Counts = {}
        for group, kept in shelf.items():
            first = next(iter(kept))
            if self._stays(origin, group):
                oldest[group] = first
                newest[group] = max(kept)
            else:
                kept[first].stays = True
                self._pause = 2 * self._first_pause  # longer than it takes to tell
        if oldest:
            out.send(origin, Ask(oldest, newest))
            self._unanswered[origin] = None

    def _on_ask(self, sender: NodeId, ask: Ask, out: Outbox) -> None:
        counts: Counts = {}
        soon = False
        for group, newest in ask.newest.items():
            counts[group] = count = self._everywhere_up_to(group, newest)
            oldest = ask.oldest.get(group, newest)
            soon = soon or (count < oldest and self._is_on_its_way(group, oldest))
        out.send(sender, Everywhere(counts, soon))

    def _offer(self, origin: NodeId, shelf: Shelf, out: Outbox) -> None:
        for peer in self._up:
            meant: Numbers = {}
            for group, kept in shelf.items():
                numbers = [number for number, copy in kept.items() if peer in copy.may_lack]
                if numbers:
                    meant[group] = numbers
            if meant:
                out.send(peer, Offer(origin, meant))
                self._unanswered[peer] = None

    def _on_offer(self, sender: NodeId, offer: Offer, out: Outbox) -> None:
        has: list[Name] = []
        lacks: list[Name] = []
        for name in _names(offer.numbers):
            is_lacking = self._lacks(offer.origin, name[0], name[1])
            (lacks if is_lacking else has).append(name)
        if has:
            out.note("safe_keeping.offered_in_vain", sender)
        out.send(sender, Answer(offer.origin, _numbers(has), _numbers(lacks)))

    def _on_answer(self, sender: NodeId, answer: Answer, out: Outbox) -> None:
        self._unanswered.pop(sender, None)
        origin = answer.origin
        for group, number in _names(answer.has):
            copy = self._kept.get(origin, {}).get(group, {}).get(number)
            if copy is not None:
                copy.may_lack.pop(sender, None)
                if not copy.may_lack:
                    self._forget(origin, (group, number))
        for group, numbers in answer.lacks.items():
            lacking = dict.fromkeys(numbers)
            kept = self._kept.get(origin, {}).get(group, {})
            for number, copy in list(kept.items()):  # as they were kept: causes come first
                if number in lacking:
                    out.note("safe_keeping.handed_over", sender)
                    self._hand_over(sender, origin, copy.message, out)

    def _drop_what_nobody_needs(self) -> None:
        if self._needs is None:
            return
        for origin, group, number, copy in self._all_copies():
            if not self.is_away(origin) and not self._stays(origin, group):
                continue
            for node in list(copy.may_lack):
                if not self._needs(node, copy.message):
                    del copy.may_lack[node]
            if not copy.may_lack:
                self._forget(origin, (group, number))

    def _stays(self, origin: NodeId, group: GroupId) -> bool:
        """Whether the oldest copy is the one it was when that was last looked at."""
        kept = self._kept[origin][group]
        return kept[next(iter(kept))].stays

    def _all_copies(self) -> list[tuple[NodeId, GroupId, int, Kept]]:
        return [
            (origin, group, number, copy)
            for origin, shelf in self._kept.items()
            for group, kept in shelf.items()
            for number, copy in kept.items()
        ]

    def _forget(self, origin: NodeId, name: Name) -> None:
        shelf = self._kept.get(origin, {})
        kept = shelf.get(name[0], {})
        if kept.pop(name[1], None) is not None and self._forgot is not None:
            self._forgot(origin, name)
        self._tidy(origin, name[0])

    def _forget_up_to(self, origin: NodeId, group: GroupId, count: int) -> None:
        """Copies come almost in the order of their numbers. One that came too early keeps those
        behind it until it goes itself."""
        kept = self._kept.get(origin, {}).get(group, {})
        gone: list[int] = []
        for number in kept:
            if number > count:
                break
            gone.append(number)
        for number in gone:
            del kept[number]
        if self._forgot is not None:
            for number in gone:
                self._forgot(origin, (group, number))
        self._tidy(origin, group)

    def _tidy(self, origin: NodeId, group: GroupId) -> None:
        """No empty shelves."""
        shelf = self._kept.get(origin, {})
        if group in shelf and not shelf[group]:
            del shelf[group]
            if not shelf:
                del self._kept[origin]


def _numbers(names: list[Name]) -> Numbers:
    numbers: Numbers = {}
    for group, number in names:
        numbers.setdefault(group, []).append(number)
    return numbers


def _names(numbers: Numbers) -> list[Name]:
    return [(group, number) for group, several in numbers.items() for number in several]
