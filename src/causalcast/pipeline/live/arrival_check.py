"""Judges the events of another system while they come in: finds causes that arrive after effects.

Of a system that is still running, or whose log is partial, nothing can be said about what is
missing. So there is one question: does a message come here that precedes one which came before?
Each node keeps, per origin, which of its messages first had so many of that origin's messages in
its past; whoever comes later and is among them came too late. Of messages that were published at
one instant none precedes the others, so what counts is a *chain*: the nth ones of all instants of
an origin. For reply order each node keeps what the answers that came to it follow and it lacks.

A delivery waits until its publication is read, and the later rows of its node with it; after a
while, or too many rows, it is given up. State is bounded: the oldest publications are forgotten,
and what is delivered of them later counts as unchecked.
"""

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

MOST_PUBLICATIONS = 200_000
MOST_WAITING = 20_000  # rows of one node that wait for a publication
MOST_STEPS = 10_000  # of a node's past, per chain and key
MOST_CHAINS = 16  # of an origin; of more that are published at once the last ones are not followed
MOST_QUESTIONS = 20_000  # that a node lacks and has answers to

Chain = tuple[Hashable, int]
Past = dict[Chain, int]
ALL = ("all keys",)


@dataclass(slots=True)
class ArrivalRow:
    """One row of a node."""

    kind: str
    message: Hashable = None
    group: Hashable = None
    key: str | None = None
    causes: tuple[Hashable, ...] = ()
    attempt: int | None = None
    shared: bool = False
    instant: Hashable = None
    """Rows of a node that follow each other and have the same are not ordered."""
    place: object = None
    """What people call the row."""
    name: Hashable = None
    """What others that declare to follow the message call it; none: as it is."""


@dataclass(frozen=True)
class LateArrival:
    """`cause` came to `node` after `effect`, which it precedes."""

    guarantee: str
    node: Hashable
    effect: Hashable
    effect_place: object
    cause: Hashable
    place: object


@dataclass(slots=True)
class _Publication:
    id: Hashable
    origin: Hashable
    number: int
    before: int
    """The number of the first publication of the same instant."""
    group: Hashable
    key: str | None
    past: Past
    name: Hashable
    answers: list[Hashable]
    """What it declares to follow."""
    open_causes: list[Hashable]
    """Names of what it declares to follow and that was not known when it was published."""

    @property
    def chain(self) -> Chain:
        """Its chain among those of its origin."""
        return self.origin, min(self.number - self.before, MOST_CHAINS - 1)

    @property
    def certain(self) -> int:
        """The last number of its chain that whoever has it surely has in its past."""
        is_followed = self.number - self.before < MOST_CHAINS
        return self.number if is_followed else self.before + MOST_CHAINS - 2


@dataclass(slots=True)
class _Step:
    """From `effect` on, so many messages of a chain precede what came to a node."""

    up_to: int
    effect: Hashable
    place: object
    turn: int


@dataclass
class _Node:
    waiting: deque[ArrivalRow] = field(default_factory=deque)
    seen: Past = field(default_factory=dict)
    delivered: set[Hashable] = field(default_factory=set)
    published: int = 0
    before: int = 1
    crowded: bool = False
    """Whether it published more at one instant than there are chains."""
    instant: Hashable = None
    turn: int = 0
    """Counts instants."""
    fresh: list[tuple[_Publication, ArrivalRow]] = field(default_factory=list)
    """What came in the current instant, and precedes nothing in it."""
    steps: dict[Hashable, dict[Hashable, list[_Step]]] = field(default_factory=dict)
    """By key and chain: pasts of what was delivered."""
    fifo: dict[Hashable, dict[Hashable, list[_Step]]] = field(default_factory=dict)
    """By key and origin: deliveries of that origin."""
    questions: dict[Hashable, _Step] = field(default_factory=dict)
    """What it lacks and has an answer to, with the first such answer."""
    joined: dict[Hashable, int] = field(default_factory=dict)
    """Groups joined during the run, and when."""
    stuck_at: ArrivalRow | None = None
    stuck: int = 0


class ArrivalCheck:
    """What is known of all nodes so far."""

    def __init__(
        self, redelivery: str = "none", whole: bool = False, patience: int | None = None
    ) -> None:
        self.may_repeat = redelivery != "none" and not whole
        self.patience = patience
        """How often rows may be judged in vain until a delivery is given up; none: for ever."""
        self.rows = 0
        self.deliveries = 0
        self.violations = 0
        self.unchecked = 0
        """Deliveries whose publication was not read in time."""
        self._nodes: dict[Hashable, _Node] = {}
        self._publications: OrderedDict[Hashable, _Publication] = OrderedDict()
        self._to_come: set[Hashable] = set()
        """Publications that wait behind another row of their node."""
        self._ids: dict[Hashable, list[Hashable]] = {}
        """Publications by what others call them."""
        self._found: list[LateArrival] = []

    def feed(self, node: Hashable, rows: Iterable[ArrivalRow]) -> None:
        """Rows of one node, in the order of its log."""
        state = self._nodes.setdefault(node, _Node())
        for row in rows:
            state.waiting.append(row)
            if row.kind == "publish":
                self._to_come.add(row.message)

    def settle(self) -> list[LateArrival]:
        """Go on with all nodes as far as they can; what was found."""
        self._go_on()
        while self._lose_patience():
            self._go_on()
        while any(len(node.waiting) > MOST_WAITING for node in self._nodes.values()):
            self._give_up()
            self._go_on()
        while len(self._publications) > MOST_PUBLICATIONS:
            forgotten, publication = self._publications.popitem(last=False)
            self._ids[publication.name].remove(forgotten)
            if not self._ids[publication.name]:
                del self._ids[publication.name]
            for node in self._nodes.values():
                node.delivered.discard(forgotten)
        found, self._found = self._found, []
        self.violations += len(found)
        return found

    def finish(self) -> list[LateArrival]:
        """No more rows will come: judge what still waits for a publication that nobody logged."""
        found = self.settle()
        while self.rows_waiting():
            self._give_up()
            found += self.settle()
        return found

    def rows_waiting(self) -> int:
        """Rows that cannot be judged yet."""
        return sum(len(node.waiting) for node in self._nodes.values())

    def _go_on(self) -> None:
        moved = True
        while moved:
            moved = False
            for name, node in self._nodes.items():
                while node.waiting and self._step(name, node, node.waiting[0]):
                    node.waiting.popleft()
                    self.rows += 1
                    moved = True

    def _lose_patience(self) -> bool:
        """Skip deliveries that waited too long for their publication. True if there were any."""
        if self.patience is None:
            return False
        lost = False
        for node in self._nodes.values():
            head = node.waiting[0] if node.waiting else None
            if head is None or head is not node.stuck_at:
                node.stuck_at, node.stuck = head, 0
                continue
            node.stuck += 1
            if node.stuck >= self.patience and head.message not in self._to_come:
                self._pass_over(node)
                lost = True
        return lost

    def _pass_over(self, node: _Node) -> None:
        node.waiting.popleft()
        self.rows += 1
        self.unchecked += 1

    def _give_up(self) -> None:
        """Pass over deliveries of what nobody has published so far, nor is about to; if everybody
        waits for another one (a log that cannot be true), over one of them."""
        stuck = [node for node in self._nodes.values() if node.waiting]
        ghosts = [node for node in stuck if node.waiting[0].message not in self._to_come]
        for node in ghosts or stuck[:1]:
            self._pass_over(node)

    def _step(self, name: Hashable, node: _Node, row: ArrivalRow) -> bool:
        if row.kind == "deliver" and row.message not in self._publications:
            return False
        if row.instant is None or row.instant != node.instant:
            self._end_instant(node)
            node.instant = row.instant
            node.turn += 1
            node.before = node.published + 1
        if row.kind == "publish":
            self._publish(name, node, row)
        elif row.kind == "deliver":
            self._deliver(name, node, row)
        elif row.kind == "join":
            node.joined[row.group] = node.turn
        return True

    def _publish(self, name: Hashable, node: _Node, row: ArrivalRow) -> None:
        self._to_come.discard(row.message)
        if row.message in self._publications:  # a retry: deliveries may repeat
            self.may_repeat = True
            return
        node.published += 1
        past = dict(node.seen)
        node.crowded = node.crowded or node.published - node.before >= MOST_CHAINS
        if node.crowded:
            past[name, MOST_CHAINS - 1] = node.before - 1
        called = row.message if row.name is None else row.name
        # The same name in another group, handed on by who got it: a dead letter.
        answers = [one for one in self._ids.get(called, ()) if one in node.delivered]
        open_causes: list[Hashable] = []
        for cause in row.causes:
            known = self._cause(cause, node, row.message)
            if known is None:
                open_causes.append(cause)
            else:
                answers.append(known)
        for known in answers:
            _raise_to(past, self._publications[known])
        new = _Publication(
            row.message, name, node.published, node.before, row.group, row.key, past, called,
            answers, open_causes,
        )  # fmt: skip
        self._publications[row.message] = new
        self._ids.setdefault(called, []).append(row.message)
        node.fresh.append((new, row))

    def _cause(self, cause: Hashable, node: _Node, effect: Hashable) -> Hashable | None:
        """The publication that a declared cause names; none if it is not known, or which of several
        is not."""
        known = [one for one in self._ids.get(cause, ()) if one != effect]
        if len(known) > 1:
            known = [one for one in known if one in node.delivered]
        return known[0] if len(known) == 1 else None

    def _deliver(self, name: Hashable, node: _Node, row: ArrivalRow) -> None:
        self.deliveries += 1
        publication = self._publications[row.message]
        if row.message in node.delivered:
            self.may_repeat = self.may_repeat or row.attempt is None
            return
        node.delivered.add(row.message)
        first = row.attempt == 1 or (row.attempt is None and not self.may_repeat)
        if first and publication.origin != name:  # its own it has had since it published it
            self._check(name, node, publication, row)
        node.fresh.append((publication, row))

    def _check(self, name: Hashable, node: _Node, late: _Publication, row: ArrivalRow) -> None:
        since = node.joined.get(late.group, 0)
        for guarantee, steps in (("fifo_order", node.fifo), ("causal_order", node.steps)):
            keys = (ALL,) if late.key is None else (late.key, None)
            for key in keys:
                whose = late.origin if guarantee == "fifo_order" else late.chain
                step = _first(steps.get(key, {}).get(whose, []), late, guarantee, since)
                if step is not None:
                    self._found.append(
                        LateArrival(guarantee, name, step.effect, step.place, late.id, row.place)
                    )
                    break
        answer = node.questions.pop(late.id, None)
        if answer is not None and answer.turn >= since:
            self._found.append(
                LateArrival("reply_order", name, answer.effect, answer.place, late.id, row.place)
            )

    def _ask(self, node: _Node, answer: _Publication, row: ArrivalRow) -> None:
        """Remember what an answer follows and the node lacks. What is there has been asked for what
        it follows itself, and so has what is lacking already."""
        to_ask, asked = [answer], {answer.id}
        while to_ask:
            one = to_ask.pop()
            found = (self._cause(cause, node, one.id) for cause in one.open_causes)
            for cause in (*one.answers, *found):
                known = self._publications.get(cause)
                if known is None or cause in asked or cause in node.delivered:
                    continue
                asked.add(cause)
                if cause not in node.questions:
                    to_ask.append(known)
                    node.questions[cause] = _Step(0, answer.id, row.place, node.turn)
        while len(node.questions) > MOST_QUESTIONS:
            del node.questions[next(iter(node.questions))]

    def _end_instant(self, node: _Node) -> None:
        """What came in this instant precedes what comes from now on."""
        for publication, row in node.fresh:
            _raise_to(node.seen, publication)
            if row.kind == "publish" or (row.shared and (row.attempt or 1) > 1):
                continue
            self._ask(node, publication, row)
            for key in (publication.key, ALL):
                past = node.steps.setdefault(key, {})
                for chain, number in publication.past.items():
                    _add_step(past.setdefault(chain, []), number, publication.id, row, node.turn)
                fifo = node.fifo.setdefault(key, {}).setdefault(publication.origin, [])
                _add_step(fifo, publication.before, publication.id, row, node.turn)
        node.fresh.clear()


def _raise_to(past: Past, publication: _Publication) -> None:
    for chain, number in publication.past.items():
        past[chain] = max(number, past.get(chain, 0))
    past[publication.chain] = max(publication.certain, past.get(publication.chain, 0))


def _add_step(steps: list[_Step], up_to: int, effect: Hashable, row: ArrivalRow, turn: int) -> None:
    if not steps or steps[-1].up_to < up_to:
        steps.append(_Step(up_to, effect, row.place, turn))
        if len(steps) > MOST_STEPS:
            del steps[: MOST_STEPS // 2]


def _first(steps: list[_Step], late: _Publication, guarantee: str, since: int) -> _Step | None:
    """The first step that has `late` in its past; of one origin, that was published after it."""
    least = late.number + (guarantee == "fifo_order")
    return next((step for step in steps if step.up_to >= least and step.turn >= since), None)
