"""Members of a view agree on the next one: consensus by a majority, under any leader.

One decision per number, by ballots (Lamport, "The part-time parliament", 1998). Who promises also
reports what it has delivered; the highest counts are the cut. A view is accepted only by who holds
every copy that its cut counts and that the leader could get hold of, so a majority has them on disk
before it is decided. Nothing that grows with the state travels in these messages: copies are
fetched before.
"""

from typing import Final, final

from causalcast.core.ids import NodeId
from causalcast.core.outbox import Outbox
from causalcast.core.spec import Setup
from causalcast.protocols.viewed_broadcast.copies import Copies, Runs, Wanted, triples
from causalcast.protocols.viewed_broadcast.exchange import TO_ACCEPT, TO_PROPOSE, Exchange
from causalcast.protocols.viewed_broadcast.membership import Membership, following
from causalcast.protocols.viewed_broadcast.messages import (
    Accept,
    Accepted,
    Copy,
    Prepare,
    Promise,
    Promised,
    Refused,
    View,
    Voted,
)
from causalcast.protocols.viewed_broadcast.peers import Peers

CHANGE: Final = "change"
ROUND_SHIFT: Final = 32  # of a ballot: the round above, who leads it below
BALLOTS: Final = 1 << 62  # no honest leader comes so far
OTHERS_WAIT: Final = 4  # times as long as the first in line, and so much for each before them
MOST_TRIES: Final = 10  # to get answers, before another ballot is begun
# Times as long after many attempts that came to nothing: 64 s for both rounds, by default.
MOST_PATIENCE: Final = 64

NO_VIEW: Final = View(0, [], {}, [], [])

# Why a view is agreed on.
ORDERED: Final = "ordered"
UNFINISHED: Final = "unfinished"
LEFT_OVER: Final = "left over"


@final
class Attempt:
    """What a leader knows of its ballot."""

    def __init__(self, number: int, ballot: int, reason: str) -> None:
        self.number = number
        self.ballot = ballot
        self.reason = reason  # why there should be such a view
        self.promises: dict[NodeId, Promise] = {}
        self.view: View | None = None  # what is proposed
        self.wanted: dict[NodeId, Wanted] = {}  # copies that it counts: from whom they can come
        self.is_proposed = False
        self.accepted: dict[NodeId, None] = {}
        self.tries = 0


@final
class Acceptance:
    """A view that is accepted as soon as its copies are here."""

    def __init__(self, leader: NodeId, ballot: int, view: View, wanted: Wanted) -> None:
        self.leader = leader
        self.ballot = ballot
        self.view = view
        self.wanted = wanted


@final
class Agreement:
    """Leads attempts, and answers those of others.

    Large because one agreement is one story: when it begins, promises, the value, votes, and the
    copies they wait for share what is known of the attempt under way.
    """

    def __init__(
        self,
        setup: Setup,
        membership: Membership,
        copies: Copies,
        peers: Peers,
        exchange: Exchange,
    ) -> None:
        self._me = setup.me
        self._membership = membership
        self._copies = copies
        self._peers = peers
        self._exchange = exchange
        self._change_after = setup.number("change_after")
        self._attempt: Attempt | None = None
        self._acceptance: Acceptance | None = None
        self._waits = False  # the timer runs
        self._failed = 0  # attempts in a row
        self._newest = 0  # the newest view that was heard of here
        self._refused_by = 0  # the highest ballot that somebody follows instead

    # When, and who begins

    def reason(self) -> str:
        """Why there should be another view; empty if there is no reason."""
        membership, peers = self._membership, self._peers
        newest = membership.newest()
        if newest is None or not membership.is_member():
            return ""
        if membership.wish() is not None:
            return ORDERED
        promised = [peers.promised.get(peer, 0) for peer in newest.members if peer != self._me]
        if max([*promised, *membership.promised], default=0) > newest.number:
            return UNFINISHED
        if (
            membership.installed == newest.number
            and self._has_leftovers(newest)
            and peers.have_all_installed(membership)
            and len(peers.linked(newest.members)) == len(newest.members) - 1
        ):
            return LEFT_OVER
        return ""

    def _has_leftovers(self, newest: View) -> bool:
        return any(
            max(copies) > newest.cut.get(origin, 0)
            for origin, copies in self._copies.log.items()
            if origin in newest.gone
        )

    def consider(self, out: Outbox) -> None:
        """Begin soon if there is a reason, and this node is first in line; later if it is not."""
        if self._waits or not self._reaches_majority():
            return
        if self._attempt is None and not self.reason():
            return
        self._waits = True
        out.start_timer(CHANGE, self._pause())

    def _pause(self) -> int:
        """Soon for the first in line, later for each one after it: so they do not meet for ever."""
        after = self._patient()
        place = self._place_in_line()
        if self._attempt is not None or (self._failed == 0 and place == 0):
            return after
        return OTHERS_WAIT * after * (1 + place)

    def _patient(self) -> int:
        """How long answers may take: longer after each attempt that came to nothing, for they may
        have been under way. So links slower than any pause come to their turn."""
        return self._change_after * min(1 << self._failed, MOST_PATIENCE)

    def _give_way(self, out: Outbox) -> None:
        """Somebody else leads: what this node would try comes later, if it is needed at all."""
        self._attempt = None
        self._waits = True
        out.start_timer(CHANGE, MOST_TRIES * self._patient() + self._pause())

    def _place_in_line(self) -> int:
        newest = self._membership.newest()
        assert newest is not None
        peers = self._peers
        there = [n for n in newest.members if n in peers.links and n not in peers.suspected]
        return sum(1 for node in there if node < self._me)

    def _reaches_majority(self) -> bool:
        newest = self._membership.newest()
        if newest is None or self._me not in newest.members:
            return False
        return len(self._peers.linked(newest.members)) + 1 >= newest.majority()

    def go_on(self, out: Outbox) -> None:
        """The pause is over: propose with the majority that answered, ask again those that did
        not, or begin anew."""
        self._waits = False
        attempt = self._attempt
        newest = self._membership.newest()
        if attempt is not None and newest is not None:
            # Only the word of all closes who is gone: without it there would be view after view.
            waits_for_all = attempt.reason == LEFT_OVER and attempt.tries < MOST_TRIES - 1
            has_enough = len(attempt.promises) >= newest.majority() and not waits_for_all
            if attempt.view is None and has_enough:
                self._choose_value(attempt, newest, out)
                return
            attempt.tries += 1
            if attempt.tries < MOST_TRIES:
                self._ask_again(attempt, newest, out)
                return
            self._failed += 1
            self._attempt = None
        if self.reason() and self._reaches_majority():
            self._begin(out)

    def _ask_again(self, attempt: Attempt, newest: View, out: Outbox) -> None:
        for peer in newest.members:
            if peer == self._me or peer in attempt.accepted:
                continue
            if attempt.view is None:
                if peer not in attempt.promises:
                    self._exchange.send(peer, Prepare(attempt.number, attempt.ballot), out)
            elif attempt.wanted:
                if peer in attempt.wanted:
                    self._exchange.fetch(peer, attempt.wanted[peer].runs(), TO_PROPOSE, out)
            else:
                held = self._held_within(attempt.view)
                self._exchange.send(peer, Accept(attempt.ballot, attempt.view, held), out)

    def _begin(self, out: Outbox) -> None:
        newest = self._membership.newest()
        assert newest is not None
        number = newest.number + 1
        highest = max(self._membership.promised.get(number, 0), self._refused_by)
        ballot = ((highest >> ROUND_SHIFT) + 1) << ROUND_SHIFT | self._me
        attempt = self._attempt = Attempt(number, ballot, self.reason())
        for peer in newest.members:
            if peer != self._me:
                self._exchange.send(peer, Prepare(number, ballot), out)
        attempt.promises[self._me] = self._promise(number, ballot, out)
        self._choose_if_whole(attempt, newest, out)

    # Promises

    def on_prepare(self, sender: NodeId, prepare: Prepare, out: Outbox) -> None:
        # Not in the paper, which says "NextBallot": a promise that also reports.
        if self._may_answer(sender, prepare.number, prepare.ballot, out):
            self._give_way(out)
            promise = self._promise(prepare.number, prepare.ballot, out)
            self._exchange.send(sender, promise, out)

    def _may_answer(self, sender: NodeId, number: int, ballot: int, out: Outbox) -> bool:
        membership = self._membership
        if not 0 < ballot < BALLOTS:
            out.note("viewed_broadcast.nonsense", sender)
            return False
        if number in membership.views or number <= membership.installed:
            self._exchange.tell_views(sender, number - 1, out)
            return False
        if not membership.accepts_for(number):
            self._exchange.tell(sender, False, out)  # it may know views that are unknown here
            return False
        if sender not in membership.views[number - 1].members:
            out.note("viewed_broadcast.nonsense", sender)
            return False
        promised = membership.promised.get(number, 0)
        if promised > ballot:
            self._exchange.send(sender, Refused(number, promised), out)
            return False
        return True

    def _promise(self, number: int, ballot: int, out: Outbox) -> Promise:
        membership, copies = self._membership, self._copies
        self._follow(number, ballot, out)
        voted = membership.voted.get(number)
        cut = {}
        if voted is not None:
            assert isinstance(voted.view, View)
            cut = voted.view.cut
        return Promise(
            number,
            ballot,
            0 if voted is None else voted.ballot,
            NO_VIEW if voted is None else voted.view,
            membership.installed,
            dict(copies.done),
            copies.runs(cut),
            list(membership.adds),
            list(membership.removes),
        )

    def _follow(self, number: int, ballot: int, out: Outbox) -> None:
        if self._membership.promised.get(number, 0) < ballot:
            self._membership.promised[number] = ballot
            out.persist(Promised(number, ballot))
            if self._acceptance is not None and self._acceptance.ballot < ballot:
                self._acceptance = None

    def on_promise(self, sender: NodeId, promise: Promise, out: Outbox) -> None:
        # Not in the paper, which says "LastVote": what was accepted, and what was reported.
        attempt, newest = self._attempt, self._membership.newest()
        if (
            attempt is None
            or newest is None
            or attempt.number != newest.number + 1
            or promise.number != attempt.number
            or promise.ballot != attempt.ballot
            or attempt.view is not None
            or sender not in newest.members
            or not isinstance(promise.accepted, View)
        ):
            return
        attempt.promises[sender] = promise
        self._choose_if_whole(attempt, newest, out)

    def on_refused(self, sender: NodeId, refused: Refused, out: Outbox) -> None:
        # Not in the paper: a leader that is refused gives way for a while.
        if refused.ballot >= BALLOTS:
            out.note("viewed_broadcast.nonsense", sender)
            return
        self._refused_by = max(self._refused_by, refused.ballot)
        attempt = self._attempt
        if (
            attempt is not None
            and attempt.number == refused.number
            and refused.ballot > attempt.ballot
        ):
            self._failed += 1
            self._give_way(out)

    # The value

    def _choose_if_whole(self, attempt: Attempt, newest: View, out: Outbox) -> None:
        """With all that are there, if they are a majority; without one that is only after a
        pause."""
        there = [self._me, *self._peers.linked(newest.members)]
        enough = len(attempt.promises) >= newest.majority()
        if enough and all(node in attempt.promises for node in there):
            self._choose_value(attempt, newest, out)

    def _choose_value(self, attempt: Attempt, newest: View, out: Outbox) -> None:
        promises = attempt.promises
        attempt.view = self._value(attempt, newest)
        for peer, promise in promises.items():
            if peer != self._me:
                wanted = self._copies.missing(promise.held, attempt.view.cut)
                if not wanted.is_empty():
                    attempt.wanted[peer] = wanted
                    self._exchange.fetch(peer, wanted.runs(), TO_PROPOSE, out)
        if not attempt.wanted:
            self._propose(attempt, out)

    def _value(self, attempt: Attempt, newest: View) -> View:
        promises = list(attempt.promises.values())
        best = max(promises, key=lambda promise: promise.accepted_ballot)
        if best.accepted_ballot:
            view = best.accepted
            assert isinstance(view, View)
            return view
        adds: dict[NodeId, None] = {}
        removes: dict[NodeId, None] = {}
        for promise in promises:
            adds.update(dict.fromkeys(promise.adds))
            removes.update(dict.fromkeys(promise.removes))
        is_whole = len(promises) == len(newest.members) and all(
            promise.installed == newest.number for promise in promises
        )
        return following(newest, [p.counts for p in promises], adds, removes, is_whole)

    def _propose(self, attempt: Attempt, out: Outbox) -> None:
        assert attempt.view is not None
        attempt.is_proposed = True
        before = self._membership.views[attempt.number - 1]
        held = self._held_within(attempt.view)
        for peer in before.members:
            if peer != self._me:
                self._exchange.send(peer, Accept(attempt.ballot, attempt.view, held), out)
        self._vote(attempt.view, attempt.ballot, out)
        self._count_vote(attempt, self._me, out)

    def _held_within(self, view: View) -> Runs:
        found: Runs = []
        for origin, first, last in triples(self._copies.runs(view.cut)):
            most = min(last, view.cut.get(origin, 0))
            if first <= most:
                found += [origin, first, most]
        return found

    # Votes

    def on_accept(self, sender: NodeId, accept: Accept, out: Outbox) -> None:
        # Not in the paper, which says "BeginBallot": the copies have to be here first.
        view = accept.view
        if not isinstance(view, View):
            out.note("viewed_broadcast.nonsense", sender)
            return
        if self._may_answer(sender, view.number, accept.ballot, out):
            self._give_way(out)
            self._follow(view.number, accept.ballot, out)
            wanted = self._copies.missing(accept.held, view.cut)
            self._acceptance = Acceptance(sender, accept.ballot, view, wanted)
            if wanted.is_empty():
                self._accept(self._acceptance, out)
            else:
                self._exchange.fetch(sender, wanted.runs(), TO_ACCEPT, out)

    def _accept(self, acceptance: Acceptance, out: Outbox) -> None:
        self._acceptance = None
        view = acceptance.view
        self._vote(view, acceptance.ballot, out)
        self._exchange.send(acceptance.leader, Accepted(view.number, acceptance.ballot), out)

    def _vote(self, view: View, ballot: int, out: Outbox) -> None:
        voted = self._membership.voted.get(view.number)
        if voted is not None and voted.ballot == ballot:
            return
        vote = Voted(ballot, view)
        self._membership.promised[view.number] = ballot
        self._membership.voted[view.number] = vote
        out.persist(vote)

    def on_accepted(self, sender: NodeId, accepted: Accepted, out: Outbox) -> None:
        # Not in the paper, which says "Voted".
        attempt = self._attempt
        if (
            attempt is not None
            and attempt.is_proposed
            and attempt.number == accepted.number
            and attempt.ballot == accepted.ballot
        ):
            self._count_vote(attempt, sender, out)

    def _count_vote(self, attempt: Attempt, voter: NodeId, out: Outbox) -> None:
        before = self._membership.views.get(attempt.number - 1)
        view = attempt.view
        if before is None or view is None or voter not in before.members:
            return
        attempt.accepted[voter] = None
        if len(attempt.accepted) < before.majority() or not self._membership.learn(view):
            return
        self._attempt = None
        out.persist(view)
        out.note("viewed_broadcast.decided", view.number)
        for peer in dict.fromkeys([*before.members, *view.members]):
            if peer != self._me:
                self._exchange.send(peer, view, out)

    # Copies that an agreement needs

    def needs(self, copy: Copy) -> bool:
        """Whether a copy that was delivered here, or is not for this node, is needed all the same:
        a majority has to hold it."""
        attempt, acceptance = self._attempt, self._acceptance
        if attempt is not None and any(wanted.has(copy) for wanted in attempt.wanted.values()):
            return True
        return acceptance is not None and acceptance.wanted.has(copy)

    def copy_came(self, copy: Copy, out: Outbox) -> None:
        """A copy is here, on disk with this step: perhaps the last one that was wanted."""
        attempt, acceptance = self._attempt, self._acceptance
        if attempt is not None and attempt.wanted:
            for peer in list(attempt.wanted):
                attempt.wanted[peer].remove(copy)
                if attempt.wanted[peer].is_empty():
                    del attempt.wanted[peer]
            if not attempt.wanted:
                self._propose(attempt, out)
        if acceptance is not None and acceptance.wanted.has(copy):
            acceptance.wanted.remove(copy)
            if acceptance.wanted.is_empty():
                self._accept(acceptance, out)

    def fetch_more(self, sender: NodeId, out: Outbox) -> None:
        """It sent as much as it sends at once, and may have more of what is wanted."""
        attempt, acceptance = self._attempt, self._acceptance
        if attempt is not None and sender in attempt.wanted:
            self._exchange.fetch(sender, attempt.wanted[sender].runs(), TO_PROPOSE, out)
        if acceptance is not None and acceptance.leader == sender:
            self._exchange.fetch(sender, acceptance.wanted.runs(), TO_ACCEPT, out)

    def view_came(self) -> None:
        """A view was learnt: what was tried for it is over."""
        newest = self._membership.newest()
        number = 0 if newest is None else newest.number
        if self._attempt is not None and self._attempt.number <= number:
            self._attempt = None
        if self._acceptance is not None and self._acceptance.view.number <= number:
            self._acceptance = None
        if number > self._newest:
            self._newest = number
            self._failed = 0
