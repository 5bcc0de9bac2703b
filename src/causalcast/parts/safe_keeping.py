"""What a dead origin can no longer bring, those who have it bring (sub-automaton).

Where copies go straight from their origin, it alone knows who lacks one. If it dies for good in the
middle of a multicast, some have the copy and some do not. So whoever takes a copy keeps it until it
is at all its destinations:

- While the origin is there, it is asked, for many copies at once, and less and less often while
  nothing new comes. It says which of them are everywhere; those are forgotten. If the rest is for
  somebody who stays away, it is offered to all that can be reached from here, and the asking ends
  until a link comes or goes, or a new copy is kept.
- While it is away, or suspected, copies are offered to their other destinations. Those say what
  they have and what they lack; what they lack is handed over. What all have is forgotten.

Nothing is lost by a wrong suspicion: a copy that comes twice is recognised by its name, which is
its origin, a group (0 where groups do not matter) and a number. Nor by an origin that returns: it
goes on with what it has on disk, and is asked again.

All messages here may be lost or repeated. The owner hands copies over, says what is lacking, and
makes what is kept durable.
"""

from collections.abc import Callable, Iterator
from typing import Final, final

from causalcast.core.duration import SECOND
from causalcast.core.ids import GroupId, NodeId
from causalcast.core.message import Message, Wire
from causalcast.core.outbox import Outbox

TEND: Final = "safe_keeping.tend"
# Times the first pause. If for so long all have answered that somebody is away, and that did not
# change, nothing is asked until it does.
MOST_PATIENCE: Final = 64
MOST_UNANSWERED: Final = 1 * SECOND

Numbers = dict[GroupId, list[int]]
Name = tuple[GroupId, int]


class Ask(Message):
    """Are these copies of yours at all their destinations?"""

    wire = Wire("safe_keeping.ask", numbers=dict[GroupId, list[int]])

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers


class Everywhere(Message):
    """These copies of mine are: forget them. With `soon`, some of the others are on their way, so
    ask again; if not, they are for somebody who is away."""

    wire = Wire("safe_keeping.everywhere", numbers=dict[GroupId, list[int]], soon=bool)

    def __init__(self, numbers: Numbers, soon: bool) -> None:
        self.numbers = numbers
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
class Kept:
    """A copy, and who of its destinations may lack it."""

    def __init__(self, message: Message, may_lack: list[NodeId]) -> None:
        self.message = message
        self._others = may_lack  # the same list for many
        self._may_lack: dict[NodeId, None] | None = None

    @property
    def may_lack(self) -> dict[NodeId, None]:
        """Those who did not say that they have it; made when it is first looked at."""
        if self._may_lack is None:
            self._may_lack = dict.fromkeys(self._others)
        return self._may_lack


@final
class SafeKeeping:
    """Copies of others that may not be everywhere yet."""

    def __init__(
        self,
        first_pause: int,
        is_everywhere: Callable[[GroupId, int], bool],
        is_on_its_way: Callable[[GroupId, int], bool],
        lacks: Callable[[NodeId, GroupId, int], bool],
        hand_over: Callable[[NodeId, NodeId, Message, Outbox], None],
        forgot: Callable[[NodeId, Name], None] | None = None,
        needs: Callable[[NodeId, Message], bool] | None = None,
    ) -> None:
        """`is_everywhere`: of own copies; `is_on_its_way`: of those that are not, whether somebody
        who is there lacks it; `lacks`: whether this node lacks one that is offered;
        `hand_over`: bring a copy of an origin to a peer; `forgot`: a copy is everywhere; `needs`:
        whether a node that a copy was for still needs it."""
        self._forgot = forgot
        self._needs = needs
        self._first_pause = first_pause
        self._pause = first_pause
        self._is_everywhere = is_everywhere
        self._is_on_its_way = is_on_its_way
        self._lacks = lacks
        self._hand_over = hand_over
        self._kept: dict[NodeId, dict[Name, Kept]] = {}  # by origin, in the order they were kept
        self._up: dict[NodeId, None] = {}
        self._suspected: dict[NodeId, None] = {}
        self._tending = False
        self._unanswered: dict[NodeId, None] = {}  # they were asked or offered something

    # What the owner calls

    def keep(self, origin: NodeId, name: Name, message: Message, others: list[NodeId]) -> None:
        """Keep a copy until the others that it is for have it; nothing if there are none."""
        if others:
            kept = self._kept.get(origin)
            if kept is None:
                kept = self._kept[origin] = {}
            kept[name] = Kept(message, others)
            self._pause = self._first_pause

    def tend(self, out: Outbox) -> None:
        """Go on with what is kept, if there is anything and anybody to speak with."""
        if self._tending or not self._kept or not self._up:
            return
        if self._pause <= MOST_PATIENCE * self._first_pause:
            self._tending = True
            out.start_timer(TEND, self._pause)

    def has(self, origin: NodeId, name: Name) -> bool:
        """Whether this copy is kept here."""
        return name in self._kept.get(origin, {})

    def copies(self) -> Iterator[tuple[NodeId, Name, Message]]:
        """All that is kept: its origin, its name, and the copy; of one origin in order."""
        for origin, kept in self._kept.items():
            for name, copy in kept.items():
                yield origin, name, copy.message

    def is_away(self, node: NodeId) -> bool:
        """Whether a node is taken to be down."""
        return node not in self._up or node in self._suspected

    def present(self) -> list[NodeId]:
        """Those that can be spoken with."""
        return list(self._up)

    def size(self) -> int:
        """Copies kept."""
        return sum(len(kept) for kept in self._kept.values())

    # What the node is told

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> bool:
        """Whether it was one of ours."""
        if isinstance(message, Ask):
            self._on_ask(sender, message, out)
        elif isinstance(message, Everywhere):
            if not message.soon:
                self._unanswered.pop(sender, None)
            for name in _names(message.numbers):
                self._forget(sender, name)
        elif isinstance(message, Offer):
            self._on_offer(sender, message, out)
        elif isinstance(message, Answer):
            self._on_answer(sender, message, out)
        else:
            return False
        return True

    def on_timer(self, out: Outbox) -> None:
        """Ask origins that are there, and offer what those that are away cannot bring."""
        self._tending = False
        self._pause *= 2
        if any(not self.is_away(peer) for peer in self._unanswered):
            longest = min(MOST_UNANSWERED, MOST_PATIENCE * self._first_pause)
            self._pause = min(self._pause, longest)  # lost, or to be asked again
        self._unanswered = {}
        self._drop_what_nobody_needs()
        is_last = self._pause > MOST_PATIENCE * self._first_pause
        for origin, kept in self._kept.items():
            if not self.is_away(origin):
                out.send(origin, Ask(_numbers(list(kept))))
                self._unanswered[origin] = None
                if not is_last:
                    continue
                # Who is away for the origin may be here, and may get it when nobody asks any more.
            for peer in self._up:
                meant = [name for name, copy in kept.items() if peer in copy.may_lack]
                if meant:
                    out.send(peer, Offer(origin, _numbers(meant)))
                    self._unanswered[peer] = None
        self.tend(out)

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

    def _on_ask(self, sender: NodeId, ask: Ask, out: Outbox) -> None:
        names = _names(ask.numbers)
        everywhere = [name for name in names if self._is_everywhere(name[0], name[1])]
        others = [name for name in names if name not in everywhere]
        soon = any(self._is_on_its_way(name[0], name[1]) for name in others)
        out.send(sender, Everywhere(_numbers(everywhere), soon))

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
        kept = self._kept.get(answer.origin, {})
        for name in _names(answer.has):
            if name in kept:
                kept[name].may_lack.pop(sender, None)
                if not kept[name].may_lack:
                    self._forget(answer.origin, name)
        lacking = dict.fromkeys(_names(answer.lacks))
        for name, copy in list(kept.items()):  # in the order they were kept: causes come first
            if name in lacking:
                out.note("safe_keeping.handed_over", sender)
                self._hand_over(sender, answer.origin, copy.message, out)
        if lacking and not self.is_away(answer.origin):
            # That was the last round, and whether it arrives is to be heard, too.
            self._pause = min(self._pause, MOST_PATIENCE * self._first_pause)
            self.tend(out)

    def _drop_what_nobody_needs(self) -> None:
        if self._needs is None:
            return
        for origin, name, message in list(self.copies()):
            may_lack = self._kept[origin][name].may_lack
            for node in list(may_lack):
                if not self._needs(node, message):
                    del may_lack[node]
            if not may_lack:
                self._forget(origin, name)

    def _forget(self, origin: NodeId, name: Name) -> None:
        kept = self._kept.get(origin, {})
        if kept.pop(name, None) is not None and self._forgot is not None:
            self._forgot(origin, name)
        if not kept:
            self._kept.pop(origin, None)


def _numbers(names: list[Name]) -> Numbers:
    numbers: Numbers = {}
    for group, number in names:
        numbers.setdefault(group, []).append(number)
    return numbers


def _names(numbers: Numbers) -> list[Name]:
    return [(group, number) for group, several in numbers.items() for number in several]
