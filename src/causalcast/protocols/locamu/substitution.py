"""Neighbours stand in for a node that fell, and for one that is gone for good.

A publication may have reached some neighbours of its publisher and not others when that falls. So
they keep it until the publisher says that it is finished: everybody has it. If an operator declares
the publisher gone, they number it for those on the other side and send it there, and with it all
that is still kept of what came by way of the one that is gone.
"""

from typing import Final

from causalcast.core.ids import NodeId
from causalcast.core.outbox import Outbox
from causalcast.limits import Limit
from causalcast.parts.tree.neighbourhood import NOBODY, Pair
from causalcast.protocols.locamu.acknowledgements import Acknowledgements
from causalcast.protocols.locamu.forwarding import Forwarding
from causalcast.protocols.locamu.message_log import Record
from causalcast.protocols.locamu.messages import AskFinished, Finished, Learned
from causalcast.protocols.locamu.names import KnownNames
from causalcast.protocols.locamu.node_state import NodeState

# Rounds of repetitions between questions that are seldom needed.
MOST_PATIENCE: Final = Limit(
    "protocols.locamu.substitution.most_patience",
    4,
    least=1,
    most=64,
    unit="rounds",
    about="rounds of repetitions between questions that are seldom needed",
)
# After so many questions without news somebody who is away keeps the other from finishing. Then
# only a word that was lost is asked for.
OFTEN_ASKED: Final = Limit(
    "protocols.locamu.substitution.often_asked",
    32,
    least=16,
    most=1 << 16,
    unit="questions",
    about="questions without news after which somebody away must keep the other from finishing",
)
LONG_PATIENCE: Final = Limit(
    "protocols.locamu.substitution.long_patience",
    64,
    least=1,
    most=1 << 16,
    unit="rounds",
    about="rounds between questions from then on",
)


class Substitution:
    """What is kept and done for neighbours that fall."""

    def __init__(
        self,
        state: NodeState,
        forwarding: Forwarding,
        acknowledgements: Acknowledgements,
        names: KnownNames,
    ) -> None:
        self._me = state.me
        self._peers = state.peers
        self._around = state.around
        self._past = state.past
        self._log = state.log
        self._departures = state.departures
        self._forwarding = forwarding
        self._acknowledgements = acknowledgements
        self._names = names
        self._finished_to: dict[NodeId, int] = {}  # up to which of its numbers a node has finished
        self._questions: dict[NodeId, Pair] = {}  # rounds until asked, how often it was
        self._unfinished: dict[Record, None] = {}  # kept only until somebody else has finished
        self._to_tell: dict[NodeId, None] = {}  # whom to tell what is finished here

    # Before one falls

    def may_stand_in(self, node: NodeId) -> bool:
        """Whether a node is so near that this one could reach nodes on its far side for it, or it
        for this one."""
        return self._around.distance(self._me, node) <= self._peers.f

    def is_needed(self, record: Record) -> bool:
        """Whether a message may have to be handed on, or be recognised when somebody else does."""
        return self._is_needed_for_publisher(record) or any(
            self._around.hop(self._me, peer) == record.back
            for peer in self._departures.gone
            if peer not in self._departures.given_up
        )

    def _is_needed_for_publisher(self, record: Record) -> bool:
        """Whether its publisher may fall, and has not said yet that everybody has it."""
        publisher = record.origin
        return (
            self._stands_in_for_publisher(record)
            and publisher not in self._departures.gone
            and record.numbers[publisher][self._me] > self._finished_to.get(publisher, 0)
        )

    def _stands_in_for_publisher(self, record: Record) -> bool:
        publisher = record.origin
        if self._peers.goes_on:
            return record.standby is not None
        near = publisher not in (NOBODY, self._me) and self.may_stand_in(publisher)
        return near and record.is_numbered(publisher, self._me)

    def keep_for_publisher(self, record: Record) -> None:
        """A message was passed on; remember it if only its publisher is waited for."""
        if self._stands_in_for_publisher(record):
            self._unfinished[record] = None

    def forget(self, record: Record) -> None:
        """A message is kept no longer."""
        self._unfinished.pop(record, None)

    # What is finished

    def finish(self, record: Record, out: Outbox) -> None:
        """Those who would stand in for this node need not keep its message any longer."""
        if record.is_finished or record.origin != self._me:
            return
        record.is_finished = True
        for node in record.targets:
            if self.may_stand_in(node) or (self._peers.goes_on and node in record.given):
                self._to_tell[node] = None
                self._acknowledgements.schedule(node, out)

    def finish_again(self, peer: NodeId, out: Outbox) -> None:
        """A new link to a node: it may not have heard what is finished here, nor answered."""
        self._questions.pop(peer, None)
        is_near = self.may_stand_in(peer) or self._peers.goes_on
        if is_near and (self._me, peer) in self._past.numbers:
            self._to_tell[peer] = None
            self._acknowledgements.schedule(peer, out)

    def flush(self, node: NodeId, out: Outbox) -> None:
        """Tell a node what was collected for it."""
        if node in self._to_tell:
            del self._to_tell[node]
            self.tell_finished(node, out)

    def tell_finished(self, node: NodeId, out: Outbox) -> None:
        """Tell a node up to which number everybody has what was published here."""
        to = self._past.numbers.get((self._me, node), 0)
        for record in self._log.own:
            if node in record.targets and not self._forwarding.is_passed_on(record):
                to = record.targets[node] - 1
                break
        self._peers.tell(node, Finished(to), out)

    def take_finished(self, publisher: NodeId, to: int) -> list[Record]:
        """A publisher has finished; those of its messages come back that were kept for it."""
        before = self._finished_to.get(publisher, 0)
        if to <= before:
            return []
        self._finished_to[publisher] = to
        self._questions.pop(publisher, None)
        return [
            record
            for record in self._unfinished
            if record.origin == publisher and before < record.numbers[publisher][self._me] <= to
        ]

    def ask_what_is_finished(self, out: Outbox) -> None:
        """Seldom, and less and less: who has finished says so by itself, unless that was lost."""
        unfinished = {
            record.origin: None
            for record in self._unfinished
            if self._is_needed_for_publisher(record)
        }
        unfinished.update(self._names.issuers())
        for issuer in unfinished:
            rounds, asked = self._questions.get(issuer, (1, 0))
            if rounds == 0:
                self._peers.tell(issuer, AskFinished(), out)
                asked += 1
                rounds = (
                    LONG_PATIENCE.value
                    if asked >= OFTEN_ASKED.value
                    else min(2**asked, MOST_PATIENCE.value)
                )
            self._questions[issuer] = (NodeId(rounds - 1), NodeId(asked))
        for issuer in list(self._questions):
            if issuer not in unfinished:
                del self._questions[issuer]

    # When one is gone

    def hand_on(self, peer: NodeId, out: Outbox) -> None:
        """What a node that is gone numbered for others across it is numbered and sent by me."""
        if not self.may_stand_in(peer):
            return
        for record in self._log.records:
            added = self._hand_on_one(record, peer) if self._is_from(record, peer) else {}
            if added:
                stamp = record.given_by_others(self._me)
                out.persist(Learned(*stamp, record.origin, {self._me: added}))
                self._forwarding.forward(record, out)

    def hand_on_new(self, record: Record) -> None:
        """The same for a message that is kept from now on."""
        for peer in self._departures.gone:
            if self._is_from(record, peer) and self.may_stand_in(peer):
                self._hand_on_one(record, peer)

    def _is_from(self, record: Record, peer: NodeId) -> bool:
        """Whether a message came by way of a node, which numbered it for others too."""
        return peer in record.numbers and self._around.hop(self._me, peer) == record.back

    def _hand_on_one(self, record: Record, peer: NodeId) -> dict[NodeId, int]:
        """Number a message for those whom a node that is gone may not have reached."""
        added: dict[NodeId, int] = {}
        for node in record.numbers[peer]:
            if self._lies_across(peer, node) and node not in record.targets:
                added[node] = self._past.count_for(node)
        self._log.learn(record, record.origin, {self._me: added})
        self._log.open_for(record, added)
        record.handed_on.update(dict.fromkeys(added))
        return added

    def _lies_across(self, peer: NodeId, node: NodeId) -> bool:
        """Whether a node is to be reached over the one that is gone."""
        if node not in self._peers.reachable or node in self._departures.gone:
            return False
        return peer in self._around.between(self._me, node)
