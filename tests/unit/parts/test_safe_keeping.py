"""Copies are kept until they are everywhere, and brought where their origin cannot."""

from causalcast.core import NodeId, Outbox, Send
from causalcast.core.effects import CancelTimer, StartTimer
from causalcast.core.ids import GroupId
from causalcast.core.message import Message
from causalcast.parts.addressed.member_lists import Left
from causalcast.parts.safe_keeping import (
    MOST_PATIENCE,
    TELL,
    TELL_AT_ONCE,
    Answer,
    Ask,
    CopyOwner,
    Everywhere,
    Name,
    Offer,
    SafeKeeping,
)

ORIGIN, ONE, OTHER = NodeId(0), NodeId(1), NodeId(2)
GROUP = GroupId(7)
PAUSE = 100
COPY = Left(GROUP)  # any message will do


class Keeper(CopyOwner):
    """Keeps the first two copies of `ORIGIN`, which are for `ONE` and `OTHER` too."""

    def __init__(self) -> None:
        self.out = Outbox()
        self.handed: list[tuple[NodeId, NodeId, Message]] = []
        self.missing: list[int] = []
        self.mine: dict[int, bool] = {}  # own copies that are not everywhere: on their way?
        self.safe = SafeKeeping(self, PAUSE, needs_end=False)
        for peer in (ORIGIN, ONE, OTHER):
            self.safe.on_neighbour_up(peer, self.out)
        for number in (1, 2):
            self.safe.keep(ORIGIN, (GROUP, number), COPY, [ONE, OTHER])
        self.safe.tend(self.out)

    def everywhere_up_to(self, group: GroupId, number: int) -> int:
        return min([number, *(first - 1 for first in self.mine)])

    def is_on_its_way(self, group: GroupId, number: int) -> bool:
        return self.mine[number]

    def is_missing(self, origin: NodeId, name: Name) -> bool:
        return name[1] in self.missing

    def hand_over(self, peer: NodeId, origin: NodeId, message: Message, out: Outbox) -> None:
        self.handed.append((peer, origin, message))

    def is_needed(self, node: NodeId, message: Message) -> bool:
        return True

    def forgot(self, origin: NodeId, name: Name) -> None:
        pass

    def body_bytes(self, message: Message) -> int:
        return 0

    def said(self) -> list[tuple[NodeId, str]]:
        """What was sent since the last look."""
        sends = [(e.to, repr(e.message)) for e in self.out.effects if isinstance(e, Send)]
        self.out.effects.clear()
        return sends

    def hears(self, sender: NodeId, message: Message) -> list[tuple[NodeId, str]]:
        assert self.safe.on_message(sender, message, self.out)
        return self.said()

    def waits(self) -> list[tuple[NodeId, str]]:
        """Let the pause pass."""
        self.out.effects.clear()
        self.safe.on_timer(self.out)
        return self.said()


def test_an_origin_that_says_nothing_is_asked_and_believed() -> None:
    keeper = Keeper()
    assert keeper.waits() == []  # it will tell
    assert keeper.waits() == [(ORIGIN, repr(Ask({GROUP: 1}, {GROUP: 2})))]
    keeper.hears(ORIGIN, Everywhere({GROUP: 1}, False, False))
    assert keeper.waits() == []
    assert keeper.waits() == [(ORIGIN, repr(Ask({GROUP: 2}, {GROUP: 2})))]
    keeper.hears(ORIGIN, Everywhere({GROUP: 2}, False, False))
    assert keeper.safe.size() == 0 and keeper.waits() == []


def test_nobody_is_asked_about_what_comes_and_goes() -> None:
    keeper = Keeper()
    for number in range(3, 50):
        assert keeper.waits() == []
        keeper.hears(ORIGIN, Everywhere({GROUP: number - 2}, True, False))
        keeper.safe.keep(ORIGIN, (GROUP, number), COPY, [ONE, OTHER])
    assert keeper.safe.size() == 2


def test_a_copy_that_came_too_early_goes_in_the_end() -> None:
    keeper = Keeper()
    for number in (5, 4, 3):
        keeper.safe.keep(ORIGIN, (GROUP, number), COPY, [ONE, OTHER])
    keeper.hears(ORIGIN, Everywhere({GROUP: 4}, True, False))
    assert keeper.safe.has(ORIGIN, (GROUP, 5))
    assert not keeper.waits()
    assert keeper.waits() == [(ORIGIN, repr(Ask({GROUP: 5}, {GROUP: 5})))]
    keeper.hears(ORIGIN, Everywhere({GROUP: 5}, True, False))
    assert keeper.safe.size() == 0


def test_groups_are_forgotten_one_by_one() -> None:
    keeper = Keeper()
    other = GroupId(8)
    keeper.safe.keep(ORIGIN, (other, 1), COPY, [ONE])
    keeper.hears(ORIGIN, Everywhere({GROUP: 9}, True, False))
    assert [name for _, name, _ in keeper.safe.copies()] == [(other, 1)]


def test_it_tells_at_once_then_after_a_pause_or_when_it_is_much() -> None:
    keeper = Keeper()
    keeper.said()

    def arrives(number: int, at: int) -> list[tuple[NodeId, str]]:
        keeper.out.now = at
        keeper.safe.got_everywhere(GROUP, number, keeper.out)
        return keeper.said()

    def to_all(number: int) -> list[tuple[NodeId, str]]:
        told = repr(Everywhere({GROUP: number}, True, False))
        return [(peer, told) for peer in (ORIGIN, ONE, OTHER)]

    assert arrives(1, 500) == to_all(1)
    keeper.out.now = 510
    keeper.safe.got_everywhere(GROUP, 2, keeper.out)
    timers = [(e.name, e.after) for e in keeper.out.effects if isinstance(e, StartTimer)]
    assert timers == [(TELL, PAUSE - 10)] and keeper.said() == []
    for number in (3, TELL_AT_ONCE.value, TELL_AT_ONCE.value, 4):
        keeper.safe.got_everywhere(GROUP, number, keeper.out)
        assert not keeper.out.effects  # the timer runs
    keeper.out.now = 600
    keeper.safe.tell(keeper.out)
    assert keeper.said() == to_all(TELL_AT_ONCE.value)
    assert arrives(TELL_AT_ONCE.value, 900) == []  # nothing new
    assert arrives(TELL_AT_ONCE.value + 1, 900) == to_all(TELL_AT_ONCE.value + 1)
    assert arrives(2 * TELL_AT_ONCE.value, 901) == []
    keeper.safe.got_everywhere(GROUP, 2 * TELL_AT_ONCE.value + 1, keeper.out)
    assert any(isinstance(effect, CancelTimer) for effect in keeper.out.effects)
    assert keeper.said() == to_all(2 * TELL_AT_ONCE.value + 1)


def test_what_is_everywhere_is_not_kept_again() -> None:
    keeper = Keeper()
    keeper.hears(ORIGIN, Everywhere({GROUP: 2}, True, False))
    assert not keeper.safe.keep(ORIGIN, (GROUP, 2), COPY, [ONE])
    assert keeper.safe.keep(ORIGIN, (GROUP, 3), COPY, [ONE])
    assert not keeper.safe.keep(ORIGIN, (GROUP, 3), COPY, [ONE])  # it is kept already
    assert keeper.safe.size() == 1


def test_nobody_else_is_believed() -> None:
    keeper = Keeper()
    keeper.hears(ONE, Everywhere({GROUP: 2}, False, False))
    assert keeper.safe.size() == 2


def test_what_a_lost_origin_cannot_bring_is_offered_and_handed_over_in_order() -> None:
    keeper = Keeper()
    keeper.safe.on_neighbour_down(ORIGIN, keeper.out)
    offer = repr(Offer(ORIGIN, {GROUP: [1, 2]}))
    assert keeper.waits() == [(ONE, offer), (OTHER, offer)]
    keeper.hears(ONE, Answer(ORIGIN, {}, {GROUP: [2, 1]}))
    assert keeper.handed == [(ONE, ORIGIN, COPY), (ONE, ORIGIN, COPY)]
    keeper.hears(ONE, Answer(ORIGIN, {GROUP: [1, 2]}, {}))
    assert keeper.waits() == [(OTHER, offer)]
    keeper.hears(OTHER, Answer(ORIGIN, {GROUP: [1, 2]}, {}))
    assert keeper.safe.size() == 0


def test_a_suspicion_is_enough_and_ends() -> None:
    keeper = Keeper()
    keeper.safe.on_suspect(ORIGIN, keeper.out)
    assert [to for to, _ in keeper.waits()] == [ONE, OTHER]
    keeper.safe.on_trust(ORIGIN, keeper.out)
    assert keeper.waits() == []
    assert [to for to, _ in keeper.waits()] == [ORIGIN]


def test_it_answers_for_its_own_copies_and_says_what_it_lacks() -> None:
    keeper = Keeper()
    keeper.mine = {5: True, 6: False}
    answer = keeper.hears(ONE, Ask({GROUP: 4}, {GROUP: 6}))
    assert answer == [(ONE, repr(Everywhere({GROUP: 4}, False, False)))]
    answer = keeper.hears(ONE, Ask({GROUP: 5}, {GROUP: 6}))
    assert answer == [(ONE, repr(Everywhere({GROUP: 4}, True, False)))]
    keeper.mine = {6: False}
    answer = keeper.hears(ONE, Ask({GROUP: 6}, {GROUP: 6}))
    assert answer == [(ONE, repr(Everywhere({GROUP: 5}, False, False)))]
    keeper.missing = [9]
    answer = keeper.hears(ONE, Offer(OTHER, {GROUP: [8, 9]}))
    assert answer == [(ONE, repr(Answer(OTHER, {GROUP: [8]}, {GROUP: [9]})))]


def ask_until_it_is_offered(keeper: Keeper) -> None:
    """The origin says that somebody is away, and says so until the last round."""
    asked = 0
    while all(to == ORIGIN for to, _ in keeper.waits()):
        keeper.hears(ORIGIN, Everywhere({}, False, False))
        asked += 1
        assert asked <= MOST_PATIENCE.value
    keeper.hears(ORIGIN, Everywhere({}, False, False))


def test_asking_ends_while_somebody_is_away_and_begins_again() -> None:
    keeper = Keeper()
    keeper.safe.on_neighbour_down(OTHER, keeper.out)
    ask_until_it_is_offered(keeper)
    keeper.hears(ONE, Answer(ORIGIN, {GROUP: [1, 2]}, {}))
    assert keeper.waits() == [] and not keeper.safe._tending
    assert keeper.safe.size() == 2
    keeper.safe.on_neighbour_up(OTHER, keeper.out)
    assert [e.after for e in keeper.out.effects if isinstance(e, StartTimer)] == [PAUSE]


def test_asking_does_not_end_before_the_last_offer_is_answered() -> None:
    keeper = Keeper()
    keeper.safe.on_neighbour_down(OTHER, keeper.out)
    offer = (ONE, repr(Offer(ORIGIN, {GROUP: [1, 2]})))
    for _ in range(3):
        ask_until_it_is_offered(keeper)  # in vain: it got lost
        assert keeper.safe._tending
    while offer not in keeper.waits():
        keeper.hears(ORIGIN, Everywhere({}, False, False))
    keeper.hears(ORIGIN, Everywhere({}, False, False))
    keeper.hears(ONE, Answer(ORIGIN, {}, {GROUP: [1, 2]}))
    assert keeper.handed == [(ONE, ORIGIN, COPY)] * 2
    assert offer in keeper.waits()  # whether that arrived


def test_who_no_longer_asks_is_told_until_it_asks() -> None:
    keeper = Keeper()
    keeper.mine = {5: False}  # for somebody who is away
    keeper.said()
    keeper.hears(ONE, Ask({GROUP: 5}, {GROUP: 7}))
    keeper.mine = {6: False}
    keeper.out.now = 10 * PAUSE
    keeper.safe.got_everywhere(GROUP, 5, keeper.out)
    first = repr(Everywhere({GROUP: 5}, True, True))
    others = repr(Everywhere({GROUP: 5}, True, False))
    assert keeper.said() == [(ORIGIN, others), (OTHER, others), (ONE, first)]
    for _ in range(3):  # it got lost
        keeper.safe.tell(keeper.out)
        timers = [(e.name, e.after) for e in keeper.out.effects if isinstance(e, StartTimer)]
        assert timers == [(TELL, MOST_PATIENCE.value * PAUSE)]
        assert keeper.said() == [(ONE, first)]
    keeper.hears(ONE, Ask({GROUP: 6}, {GROUP: 7}))  # so we are in debt again
    keeper.safe.got_everywhere(GROUP, 7, keeper.out)
    keeper.safe.tell(keeper.out)
    assert (ONE, repr(Everywhere({GROUP: 7}, True, True))) in keeper.said()
    assert keeper.hears(ONE, Ask({}, {})) == []
    keeper.safe.tell(keeper.out)
    assert keeper.said() == []


def test_nobody_is_told_again_who_asks_or_has_all_or_went() -> None:
    for case in ("asks", "has all", "went before", "went after"):
        keeper = Keeper()
        keeper.mine = {} if case == "has all" else {5: case == "asks"}
        keeper.hears(ONE, Ask({GROUP: 5}, {GROUP: 5}))
        if case == "went before":
            keeper.safe.on_neighbour_down(ONE, keeper.out)
        keeper.safe.got_everywhere(GROUP, 6, keeper.out)
        keeper.said()
        if case == "went after":
            keeper.safe.on_neighbour_down(ONE, keeper.out)
        keeper.safe.tell(keeper.out)
        assert keeper.said() == []


def test_who_is_told_to_ask_says_what_it_still_keeps() -> None:
    keeper = Keeper()
    keeper.safe._tending = False  # it had ended
    answer = keeper.hears(ORIGIN, Everywhere({GROUP: 1}, True, True))
    assert answer == [(ORIGIN, repr(Ask({GROUP: 2}, {GROUP: 2})))]
    assert keeper.safe._tending
    answer = keeper.hears(ORIGIN, Everywhere({GROUP: 2}, True, True))
    assert answer == [(ORIGIN, repr(Ask({}, {})))]


def test_a_question_that_got_lost_is_asked_again_for_ever() -> None:
    keeper = Keeper()
    assert keeper.waits() == []
    for _ in range(3 * MOST_PATIENCE.value):
        assert keeper.waits() and keeper.safe._tending
