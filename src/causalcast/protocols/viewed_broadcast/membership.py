"""Who is a member: the views that are known, the one that is installed, and what was ordered.

View n+1 is decided by the members of view n. Its cut says which publications belong to view n or
an earlier one, so whoever delivered these may install it.
"""

from typing import final

from causalcast.core.ids import NodeId
from causalcast.core.message import Message
from causalcast.parts.vector_clock import VectorClock, merge
from causalcast.protocols.viewed_broadcast.messages import Installed, Promised, View, Voted


@final
class Membership:
    """Views and promises survive a crash, and orders too."""

    def __init__(self, me: NodeId, first: View | None) -> None:
        """`first` is the view of those who found the cluster; None at a newcomer."""
        self.me = me
        self.views: dict[int, View] = {} if first is None else {first.number: first}
        self.installed = 0 if first is None else first.number
        self.promised: dict[int, int] = {}  # view -> ballot
        self.voted: dict[int, Voted] = {}  # view -> what was accepted for it
        self.adds: dict[NodeId, None] = {}
        self.removes: dict[NodeId, None] = {}
        self.is_contradicted = False  # two views of one number were decided: that must never be

    def newest(self) -> View | None:
        """The newest view that is known here, with a gap below it or without."""
        return self.views[max(self.views)] if self.views else None

    def known(self) -> int:
        """The highest view without a gap below it, seen from the one that is installed; for who was
        removed the newest, since what lies between may be forgotten and matters no more."""
        if self.is_expelled():
            return max(self.views)
        number = self.installed
        while number + 1 in self.views:
            number += 1
        return number

    def cut(self) -> VectorClock:
        """What belongs to views before the one that is installed."""
        return self.views[self.installed].cut if self.installed else {}

    def is_expelled(self) -> bool:
        """Whether others agreed on a view without this node."""
        newest = self.newest()
        return newest is not None and self.me in newest.gone

    def is_member(self) -> bool:
        """Whether it is in the newest view that it knows, and has installed one."""
        newest = self.newest()
        return self.installed > 0 and newest is not None and self.me in newest.members

    def others(self) -> list[NodeId]:
        """The other members of the newest view."""
        newest = self.newest()
        return [] if newest is None else [node for node in newest.members if node != self.me]

    def is_frozen(self) -> bool:
        """Whether it takes part in an agreement on a view that it has not installed."""
        return any(number > self.installed for number in self.promised)

    def is_lost(self, origin: NodeId, number: int) -> bool:
        """Whether nothing will ever deliver this: its origin is closed, and no cut covers it."""
        newest = self.newest()
        return newest is not None and origin in newest.closed and number > newest.cut.get(origin, 0)

    def is_left_over(self, origin: NodeId, number: int) -> bool:
        """Whether its origin was removed and no cut covers it yet."""
        newest = self.newest()
        return newest is not None and origin in newest.gone and number > newest.cut.get(origin, 0)

    def shuts(self, origin: NodeId, number: int) -> bool:
        """Whether it must not be delivered now. What members say of those that are gone must not
        change between their promise and the view."""
        if self.is_lost(origin, number):
            return True
        return self.is_frozen() and self.is_left_over(origin, number)

    def learn(self, view: View) -> bool:
        """A view was decided; whether that is news."""
        known = self.views.get(view.number)
        if known is not None and not is_same(known, view):
            self.is_contradicted = True
        if known is not None or view.number <= self.installed:
            return False
        self.views[view.number] = view
        self.voted.pop(view.number, None)
        return True

    def next_view(self, done: VectorClock) -> View | None:
        """The view that may be installed now."""
        if self.installed == 0:
            mine = [n for n in sorted(self.views) if self.me in self.views[n].members]
            return self.views[mine[0]] if mine else None
        view = self.views.get(self.installed + 1)
        if view is None or self.me not in view.members:
            return None
        reached = all(done.get(origin, 0) >= count for origin, count in view.cut.items())
        return view if reached else None

    def install(self, number: int) -> None:
        self.installed = number
        self.promised = {n: b for n, b in self.promised.items() if n > number}

    def accepts_for(self, number: int) -> bool:
        """Whether this node is one of those who decide on view `number`."""
        before = self.views.get(number - 1)
        return before is not None and self.me in before.members and number not in self.views

    def wish(self) -> tuple[NodeId, bool] | None:
        """The one change that the newest view lacks of what was ordered: who, and whether to add
        it; None if there is none."""
        newest = self.newest()
        return None if newest is None else change_of(newest, self.adds, self.removes)

    def drop_orders(self) -> bool:
        """Forget orders that are carried out or cannot be any more; whether there were some."""
        newest = self.newest()
        if newest is None:
            return False
        before = len(self.adds) + len(self.removes)
        self.adds = {
            node: None
            for node in self.adds
            if node not in newest.members and node not in newest.gone and node not in self.removes
        }
        self.removes = {node: None for node in self.removes if node not in newest.gone}
        return len(self.adds) + len(self.removes) < before

    def drop_views(self, installed_by_all: int) -> None:
        """Views before one that all members of the newest have installed are of no use."""
        for number in [n for n in self.views if n < min(installed_by_all, self.installed)]:
            del self.views[number]

    def restore(self, record: Message) -> None:
        """Take in one record after a restart."""
        if isinstance(record, View):
            self.views[record.number] = record
            self.voted.pop(record.number, None)
        elif isinstance(record, Installed):
            self.install(record.number)
        elif isinstance(record, Promised):
            self.promised[record.number] = record.ballot
        elif isinstance(record, Voted):
            assert isinstance(record.view, View)
            self.promised[record.view.number] = record.ballot
            self.voted[record.view.number] = record

    def snapshot(self) -> list[Message]:
        """Records for a restart."""
        return [
            *self.views.values(),
            *(Promised(number, ballot) for number, ballot in self.promised.items()),
            *self.voted.values(),
        ]


def is_same(one: View, other: View) -> bool:
    """Whether two views of one number say the same."""
    return (
        one.members == other.members
        and one.cut == other.cut
        and one.gone == other.gone
        and one.closed == other.closed
    )


def change_of(
    view: View, adds: dict[NodeId, None], removes: dict[NodeId, None]
) -> tuple[NodeId, bool] | None:
    """What to change first. One member at a time: else majorities of neighbouring views need not
    have a member in common, and what a cut counts may be held by nobody that stays."""
    for node in sorted(adds):
        if node not in view.members and node not in view.gone and node not in removes:
            return node, True
    for node in sorted(removes):
        if node in view.members and len(view.members) > 1:
            return node, False
    return None


def following(
    view: View,
    counts: list[VectorClock],
    adds: dict[NodeId, None],
    removes: dict[NodeId, None],
    is_whole: bool,
) -> View:
    """The view after `view`, of what a majority of its members reported. `is_whole`: all of them
    did, and have installed it."""
    cut = dict(view.cut)
    for count in counts:
        merge(cut, count)
    members, gone = list(view.members), list(view.gone)
    change = change_of(view, adds, removes)
    if change is not None:
        node, is_added = change
        if is_added:
            members.append(node)
        else:
            members.remove(node)
            gone.append(node)
    closed = list(view.gone) if is_whole else list(view.closed)
    return View(view.number + 1, sorted(members), dict(sorted(cut.items())), gone, closed)
