"""In words, for people: what a message waits for, and what may be lost with a node."""

from causalcast.core.ids import NO_MESSAGE, MessageId, NodeId
from causalcast.core.message import Message
from causalcast.core.outbox import Outbox
from causalcast.parts.tree.neighbourhood import NOBODY, Pair
from causalcast.protocols.locamu.arrived_copy import Arrived
from causalcast.protocols.locamu.forwarding import Forwarding
from causalcast.protocols.locamu.message_log import Record
from causalcast.protocols.locamu.messages import Copy, is_copy_of
from causalcast.protocols.locamu.missing import Missing
from causalcast.protocols.locamu.node_state import NodeState


class Explanations:
    """Describes what is held and kept."""

    def __init__(self, state: NodeState, forwarding: Forwarding, missing: Missing) -> None:
        self._peers = state.peers
        self._paths = state.paths
        self._log = state.log
        self._holdback = state.holdback
        self._departures = state.departures
        self._forwarding = forwarding
        self._missing = missing

    def announce_held(self, copy: Arrived, out: Outbox) -> None:
        """Say once that a copy is held, and what it waits for."""
        if copy.announced or not isinstance(copy.message, Copy):
            return
        copy.announced = True
        first = self._missing.first_for(copy)
        cause = NO_MESSAGE if first is None else self._id_of(first)
        out.hold(copy.message.publication.id, cause, _words_for(copy, first))

    def causes_missing(self, message: MessageId) -> list[MessageId]:
        """The messages that copies of one wait for, as far as their ids are known."""
        firsts = [
            self._missing.first_for(copy)
            for copy in self._holdback.copies.values()
            if is_copy_of(copy.message, message)
        ]
        causes = [self._id_of(first) for first in firsts if first is not None]
        return [cause for cause in causes if cause != NO_MESSAGE]

    def reasons(self, message: MessageId) -> list[str]:
        """Why a message is held or kept here."""
        found = [
            f"a copy from node {copy.source} waits for {words}"
            for copy in self._holdback.copies.values()
            if is_copy_of(copy.message, message)
            for words in [_words_for(copy, self._missing.first_for(copy))]
        ]
        for record in self._log.records:
            if is_copy_of(record.message, message):
                open_ = [node for node in record.targets if node not in record.complete_at]
                found += [self._reason_not_done(record, node) for node in open_]
        expelled_by = self._departures.expelled_by
        if found and expelled_by != NOBODY:
            found.append(f"node {expelled_by} says that this node was declared gone for good")
        return found

    def _reason_not_done(self, record: Record, node: NodeId) -> str:
        before = self._forwarding.before(record, node)
        if node in self._peers.suspected:
            return f"node {node} is suspected; it gets the message when it is back"
        if node not in self._peers.active:
            return f"node {node} gets the message from somebody nearer, and has not confirmed"
        if not self._paths.is_enough(record, before, node):
            names = ", ".join(str(issuer) for issuer in before)
            return (
                f"node {node} needs the numbers of {self._paths.quorum} nodes on a safe path; "
                f"known are those of {names}"
            )
        return f"node {node} has not confirmed that it has the message and all its numbers"

    def losses(self, peer: NodeId) -> list[str]:
        """What may be lost if a node is declared gone, as far as this node can tell."""
        found = [
            f"node {peer} will not deliver {name_of(record.message)}, which is kept for it here"
            for record in self._log.records
            if peer in record.targets and peer not in record.complete_at
        ]
        for copy in self._holdback.copies.values():
            first = self._missing.first_for(copy)
            if first is not None and first[0] == peer:
                found.append(
                    f"{name_of(copy.message)} waits here for {_words_for(copy, first)}; "
                    "unless somebody hands that on, it is lost here"
                )
        found.append(f"what node {peer} published and nobody has received")
        return found

    def conditions(self) -> dict[str, int]:
        """What an operator watches."""
        peers, departures = self._peers, self._departures
        gone_and_suspected = sum(1 for peer in departures.gone if peer in peers.suspected)
        return {
            "within_fault_budget": int(peers.within_budget),
            "suspected": len(peers.suspected) - gone_and_suspected,
            "gone": len(departures.gone),
            "given_up": len(departures.given_up),
            "gone_refused": len(departures.refused),
            "held": len(self._holdback.copies),
            "kept": len(self._log.records),
            "declared_gone": int(departures.expelled_by != NOBODY),
        }

    def _id_of(self, missing: Pair) -> MessageId:
        """The id of the message with this number for this node, if a held copy shows it."""
        for key in self._holdback.carrying((missing[0], self._peers.me, missing[1])):
            held = self._holdback.copies[key].message
            if isinstance(held, Copy):
                return held.publication.id
        return NO_MESSAGE


def _words_for(copy: Arrived, first: Pair | None) -> str:
    if first is None:
        return f"answers from around the gap to node {copy.source}"
    issuer, number = first
    return f"the message that node {issuer} numbered {number} for this node"


def name_of(message: Message) -> str:
    """What people call a message."""
    if isinstance(message, Copy):
        return f"{message.publication.id >> 32}.{message.publication.id & 0xFFFFFFFF}"
    return "news of a new member"
