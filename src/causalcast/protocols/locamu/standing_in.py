"""Neighbours stand in for a node that fell, and for one that is gone for good.

A publication may have reached some neighbours of its publisher and not others when that falls. So
they keep it until the publisher says that it is finished: everybody has it. If an operator declares
the publisher gone, they number it for those on the other side and send it there, and with it all
that is still kept of what came by way of the one that is gone. Then everybody
near tells everybody what it still has on its way to them. When all of that is here, what is missing
is with nobody: it is given up, and nothing waits for it any more.
"""

from typing import Final

from mypy_extensions import mypyc_attr

from causalcast.core import NodeId, Outbox, Setup
from causalcast.parts.tree.neighbourhood import Neighbourhood, Pair
from causalcast.parts.tree.safe_path import NOBODY, Numbers, SafePath
from causalcast.protocols.locamu.fault_budget import is_within_budget
from causalcast.protocols.locamu.holdback import Holdback
from causalcast.protocols.locamu.message_log import Record
from causalcast.protocols.locamu.messages import AskFinished, Departed, GivenUp, Gone, Learned
from causalcast.protocols.locamu.passing_on import PassingOn

# Rounds of repetitions between questions that are seldom needed.
MOST_PATIENCE: Final = 4
# After so many questions without news somebody who is away keeps the other from finishing. Then
# only a word that was lost is asked for.
OFTEN_ASKED: Final = 32
LONG_PATIENCE: Final = 64


@mypyc_attr(allow_interpreted_subclasses=True)
class StandingIn(PassingOn):
    """What is kept and done for neighbours that fall."""

    def __init__(self, setup: Setup, around: Neighbourhood, paths: SafePath) -> None:
        super().__init__(setup, around, paths)
        self.repeat_after = setup.number("repeat_after")
        self.holdback = Holdback()
        self.expelled_by = NOBODY  # who told this node that it was declared gone
        self._finished_to: dict[NodeId, int] = {}  # up to which of its numbers a node has finished
        self._ask_finished: dict[NodeId, Pair] = {}  # rounds until asked, how often it was
        self._unfinished: dict[Record, None] = {}  # kept only until somebody else has finished

    # What the protocol does

    def _collect(self, record: Record, out: Outbox) -> None:
        """Forget a record if it is done."""
        raise AssertionError("left to the protocol")

    def _learn(self, record: Record, origin: NodeId, numbers: Numbers, out: Outbox) -> bool:
        """Take over numbers of a message; False if nothing of it is new."""
        raise AssertionError("left to the protocol")

    def _look_again(self, keys: list[Pair], out: Outbox) -> None:
        """Take from the held copies those that wait no longer."""
        raise AssertionError("left to the protocol")

    def _change_active(self, out: Outbox) -> None:
        """Others are the first live node on their way now."""
        raise AssertionError("left to the protocol")

    # Before one falls

    def _may_stand_in(self, node: NodeId) -> bool:
        """Whether one of us can reach others across the other."""
        return self.around.distance(self.me, node) <= self.f

    def _stands_in_for_publisher(self, record: Record) -> bool:
        """Whether this message may have to be handed on, should its publisher fall."""
        publisher = record.origin
        near = publisher not in (NOBODY, self.me) and self._may_stand_in(publisher)
        return near and self._numbered(record, publisher, self.me)

    def _is_needed_for_publisher(self, record: Record) -> bool:
        """… and its publisher has not said yet that everybody has it."""
        publisher = record.origin
        return (
            self._stands_in_for_publisher(record)
            and publisher not in self.departures.gone
            and record.numbers[publisher][self.me] > self._finished_to.get(publisher, 0)
        )

    def _is_done(self, record: Record) -> bool:
        """It is not needed any more, either to pass it on or to stand in for who sent it."""
        # While somebody may still hand it on, it must be recognised by any number.
        return (
            self._is_passed_on(record)
            and not self._is_needed_for_publisher(record)
            and not any(
                self.around.hop(self.me, peer) == record.back
                for peer in self.departures.gone
                if peer not in self.departures.given_up
            )
        )

    def _finish_towards(self, record: Record, out: Outbox) -> None:
        """Those who would stand in for me need not keep it any longer."""
        if record.is_finished or record.origin != self.me:
            return
        record.is_finished = True
        for node in record.targets:
            if self._may_stand_in(node):
                self._to_finish[node] = None
                self._plan_word(node, out)

    def _on_finished(self, sender: NodeId, to: int, out: Outbox) -> None:
        # Not in the paper: nobody stands in for a publisher there.
        before = self._finished_to.get(sender, 0)
        if to > before:
            self._finished_to[sender] = to
            self._ask_finished.pop(sender, None)
            for record in list(self._unfinished):
                if record.origin == sender and before < record.numbers[sender][self.me] <= to:
                    self._collect(record, out)

    def _ask_what_is_finished(self, out: Outbox) -> None:
        """Seldom, and less and less: who has finished says so by itself, unless that was lost."""
        unfinished = {
            record.origin: None
            for record in self._unfinished
            if self._is_needed_for_publisher(record)
        }
        for issuer in unfinished:
            rounds, asked = self._ask_finished.get(issuer, (1, 0))
            if rounds == 0:
                self._tell(issuer, AskFinished(), out)
                asked += 1
                rounds = LONG_PATIENCE if asked >= OFTEN_ASKED else min(2**asked, MOST_PATIENCE)
            self._ask_finished[issuer] = (NodeId(rounds - 1), NodeId(asked))
        for issuer in list(self._ask_finished):
            if issuer not in unfinished:
                del self._ask_finished[issuer]

    # When one has fallen

    def _hand_on(self, peer: NodeId, out: Outbox) -> None:
        """What a node that fell numbered for others across it is numbered and sent by me."""
        if not self._may_stand_in(peer):
            return
        for record in self.log.records:
            added = self._hand_on_one(record, peer) if self._is_from(record, peer) else {}
            if added:
                stamp = next(stamp for stamp in record.stamps() if stamp[0] != self.me)
                out.persist(Learned(*stamp, record.origin, {self.me: added}))
                self._forward(record, out)

    def _is_from(self, record: Record, peer: NodeId) -> bool:
        """Whether a message came by way of a node, which numbered it for others too."""
        return peer in record.numbers and self.around.hop(self.me, peer) == record.back

    def _hand_on_one(self, record: Record, peer: NodeId) -> dict[NodeId, int]:
        """Number a message for those whom a node that fell may not have reached."""
        added: dict[NodeId, int] = {}
        for node in record.numbers[peer]:
            if self._lies_across(peer, node) and node not in record.targets:
                added[node] = self.past.count_for(node)
        self.log.learn(record, record.origin, {self.me: added})
        self.log.open_for(record, added)
        record.handed_on.update(dict.fromkeys(added))
        return added

    def _lies_across(self, peer: NodeId, node: NodeId) -> bool:
        """Whether a node is to be reached over the one that fell."""
        if node not in self.extended or node in self.departures.gone:
            return False
        return peer in self.around.between(self.me, node)

    # When one is gone for good

    def objection_to_losing(self, peer: NodeId) -> str:
        """Why `peer` must not be declared gone; empty if nothing speaks against it."""
        if peer == self.me:
            return "a node cannot declare itself gone"
        if not self.around.knows(peer):
            return f"node {peer} is too far away; ask a node within {self.horizon} hops of it"
        if peer in self.links:
            return f"node {peer} is linked to this node now; stop it first"
        if not self._fits_budget(peer, self.departures.gone):
            return (
                f"with node {peer} more than {self.f} of {self.horizon} nodes in a row would be "
                "gone, and nothing could pass them"
            )
        # Somebody beyond those that are away, who cannot be asked, may be told that another of them
        # is gone.
        away = {n: None for n in self.suspected if n != peer and n not in self.links}
        if not self._fits_budget(peer, away):
            return (
                f"more than {self.f} of {self.horizon} nodes in a row seem to be down, node {peer} "
                f"and {', '.join(map(str, away))}; bring others of them back first"
            )
        return ""

    def _fits_budget(self, peer: NodeId, others: dict[NodeId, None]) -> bool:
        return is_within_budget({**others, peer: None}, self.around.tree, self.f)

    def declare_gone(self, peer: NodeId, out: Outbox) -> None:
        """`peer` never comes back: what it published is handed on, and not waited for."""
        if peer == self.me or peer in self.departures.gone or not self.around.knows(peer):
            return
        out.note("locamu.gone", peer)
        out.persist(Departed(peer))
        self._depart(peer)
        self.links.pop(peer, None)
        self._hand_on(peer, out)
        for record in list(self.log.records):
            if peer in record.targets:
                self.log.close_for(record, peer)
            if self._watch_complete(record):
                self._acknowledge(record, out)
            self._collect(record, out)
        for node in self.departures.to_tell(peer):
            self._tell_gone(peer, node, out)
        for other in list(self.departures.gone):  # those that waited for its word
            self._give_up(other, out)
        self._change_active(out)

    def _depart(self, peer: NodeId) -> None:
        self.departures.declare(peer)
        self.paths.gone[peer] = None
        self._under_way.pop(peer, None)
        if peer in self.extended:
            self.suspected[peer] = None

    def _on_gone_told(self, sender: NodeId, told: Gone, out: Outbox) -> None:
        # Not in the paper: there every node that failed comes back.
        peer = told.peer
        if peer == self.me:
            self.expelled_by = sender
            out.note("locamu.expelled", sender)
            return
        if not self.around.knows(peer):
            out.note("locamu.nonsense", sender)
            return
        if peer not in self.departures.gone and not self._fits_budget(peer, self.departures.gone):
            # It was told to somebody that did not know of the others. Nothing is given up then.
            if peer not in self.departures.refused:
                self.departures.refused[peer] = None
                out.note("locamu.gone_refused", peer)
            return
        self.declare_gone(peer, out)
        if told.ready and all(self._is_here(sender, number) for number in told.pending):
            self.departures.heard[peer][sender] = None
            self._give_up(peer, out)
        if told.asks:
            self._tell_gone(peer, sender, out, answers=True)

    def _is_here(self, issuer: NodeId, number: int) -> bool:
        held = (issuer, NodeId(number)) in self.holdback.copies
        return held or self.past.has_arrived(issuer, number)

    def _tell_gone(self, peer: NodeId, node: NodeId, out: Outbox, answers: bool = False) -> None:
        """Name what is still on its way to a node of what one that is gone published."""
        # Who stands between may still get something, and pass it on.
        between = self.me in self.around.between(peer, node)
        ready = not between or (
            peer in self.departures.given_up
            and all(copy.origin != peer for copy in self.holdback.copies.values())
            and all(self.past.has_arrived(*key) for key in self.departures.held)
        )
        pending = [
            record.targets[node]
            for record in self.log.records
            if node in record.targets
            and node not in record.complete_at
            and node not in record.known_at
        ]
        asks = not answers and node not in self.departures.heard[peer]
        self._tell(node, Gone(peer, ready, pending, asks), out)

    def _give_up(self, peer: NodeId, out: Outbox) -> None:
        """Nobody can bring anything any more: what is missing is lost, and not waited for."""
        if peer in self.departures.given_up or self.departures.awaited(peer):
            return
        held = self._held_of_gone()
        self.departures.give_up(peer, held)
        out.persist(GivenUp(peer, held))
        out.note("locamu.given_up", peer)
        for record in list(self.log.records):
            if record.origin == peer:
                self._fill_skipped(record, out)
        for record in list(self.log.records):
            self._collect(record, out)
        self._look_again(list(self.holdback.copies), out)
        for node in self.departures.to_tell(peer):
            if self.me in self.around.between(peer, node):
                self._tell_gone(peer, node, out)

    def _held_of_gone(self) -> list[list[int]]:
        """The copies that are held here: they do not come too late, even after a crash."""
        found: list[list[int]] = []
        for copy in self.holdback.copies.values():
            flat = [copy.source, copy.number]
            for issuer, row in copy.numbers.items():
                if self.me in row:
                    flat += [issuer, row[self.me]]
            found.append([int(number) for number in flat])
        return found

    def _fill_skipped(self, record: Record, out: Outbox) -> None:
        """Who was jumped over and never got it gave it no numbers; all after it must know that."""
        way = self.around.between(record.origin, self.me)
        skipped: Numbers = {node: {} for node in way if node not in record.numbers}
        if skipped:
            self._learn(record, record.origin, skipped, out)
            self._collect(record, out)
