"""Nodes that are declared gone for good: what they leave behind, and when that is given up.

Those who stand in for a node that is gone hand on what they have of it. Then everybody near tells
everybody what it still has on its way to them. When all of that is here, what is missing is with
nobody: it is given up, and nothing waits for it any more.
"""

from causalcast.core.ids import NodeId
from causalcast.core.outbox import Outbox
from causalcast.protocols.locamu.messages import Departed, GivenUp, Gone
from causalcast.protocols.locamu.node_state import NodeState
from causalcast.protocols.locamu.processing import Processing


class GivingUp:
    """What a node does when another is gone; what it remembers of that is in `departures`."""

    def __init__(self, state: NodeState, processing: Processing) -> None:
        self._me = state.me
        self._around = state.around
        self._peers = state.peers
        self._past = state.past
        self._log = state.log
        self._holdback = state.holdback
        self._departures = state.departures
        self._members = state.members
        self._processing = processing

    def objection(self, peer: NodeId) -> str:
        """Why a node must not be declared gone; empty if nothing speaks against it."""
        peers = self._peers
        if peer == self._me:
            return "a node cannot declare itself gone"
        if not self._around.knows(peer):
            return f"node {peer} is too far away; ask a node within {peers.horizon} hops of it"
        if peer in peers.links:
            return f"node {peer} is linked to this node now; stop it first"
        if not peers.fits_budget(peer, self._departures.gone):
            return (
                f"with node {peer} more than {peers.f} of {peers.horizon} nodes in a row would be "
                "gone, and nothing could pass them"
            )
        # Somebody beyond those that are away, who cannot be asked, may be told that another of them
        # is gone.
        away = {n: None for n in peers.suspected if n != peer and n not in peers.links}
        if not peers.fits_budget(peer, away):
            return (
                f"more than {peers.f} of {peers.horizon} nodes in a row seem to be down, node "
                f"{peer} and {', '.join(map(str, away))}; bring others of them back first"
            )
        return ""

    def declare_gone(self, peer: NodeId, out: Outbox) -> None:
        """A node never comes back: what it published is handed on, and not waited for."""
        if peer == self._me or peer in self._departures.gone or not self._around.knows(peer):
            return
        out.note("locamu.gone", peer)
        out.persist(Departed(peer))
        self._departures.declare(peer)
        self._processing.forwarding.forget_link(peer)
        if peer in self._peers.reachable:
            self._peers.suspected[peer] = None
        self._peers.links.pop(peer, None)
        self._processing.names.forget_gone(peer)
        self._processing.substitution.hand_on(peer, out)
        for record in list(self._log.records):
            if peer in record.targets:
                self._log.close_for(record, peer)
            if self._processing.acknowledgements.watch_complete(record):
                self._processing.acknowledgements.acknowledge(record, out)
            self._processing.collect(record, out)
        for node in self._departures.to_tell(peer):
            self.tell(peer, node, out)
        for other in list(self._departures.gone):  # those that waited for its word
            self._give_up(other, out)
        self._processing.change_active(out)
        for _ in self._members.waiting_for(peer):
            out.note("locamu.never_admitted", peer)

    def on_gone_told(self, sender: NodeId, told: Gone, out: Outbox) -> None:
        # Not in the paper: there every node that failed comes back.
        peer, departures = told.peer, self._departures
        if peer == self._me:
            departures.expelled_by = sender
            out.note("locamu.expelled", sender)
            return
        if not self._around.knows(peer):
            out.note("locamu.nonsense", sender)
            return
        is_linked = peer in self._peers.links
        fits = self._peers.fits_budget(peer, departures.gone)
        if peer not in departures.gone and (is_linked or not fits):
            # It was told to somebody that did not know of the others, or whoever says so is wrong
            # or lies. Nothing is given up then; if its link breaks, that is told again.
            if peer not in departures.refused:
                departures.refused[peer] = None
                out.note("locamu.gone_refused", peer)
            return
        departures.refused.pop(peer, None)
        self.declare_gone(peer, out)
        if told.ready and self._has_all(sender, told.pending):
            departures.heard[peer][sender] = None
            self._give_up(peer, out)
        if told.asks:
            self.tell(peer, sender, out, answers=True)

    def tell(self, peer: NodeId, node: NodeId, out: Outbox, answers: bool = False) -> None:
        self._peers.tell(node, self._news_for(node, peer, answers), out)

    def _give_up(self, peer: NodeId, out: Outbox) -> None:
        """Nobody can bring anything any more: what is missing is lost, and not waited for."""
        if peer in self._departures.given_up or self._departures.awaited(peer):
            return
        held = self._held_copies()
        self._departures.give_up(peer, held)
        out.persist(GivenUp(peer, held))
        out.note("locamu.given_up", peer)
        for record in list(self._log.records):
            skipped = self._departures.skipped_by(record) if record.origin == peer else {}
            if skipped:
                self._processing.learn(record, peer, skipped, out)
                self._processing.collect(record, out)
        for record in list(self._log.records):
            self._processing.collect(record, out)
        self._processing.look_again(list(self._holdback.copies), out)
        for node in self._departures.to_tell(peer):
            if self._me in self._around.between(peer, node):
                self.tell(peer, node, out)

    def _news_for(self, node: NodeId, peer: NodeId, answers: bool) -> Gone:
        """What to tell a node about one that is gone: which messages are still on their way to
        it."""
        # Who stands between may still get something, and pass it on.
        between = self._me in self._around.between(peer, node)
        ready = not between or (
            peer in self._departures.given_up
            and all(copy.origin != peer for copy in self._holdback.copies.values())
            and all(self._past.has_arrived(*key) for key in self._departures.held)
        )
        pending = [
            record.targets[node]
            for record in self._log.records
            if node in record.targets
            and node not in record.complete_at
            and node not in record.known_at
        ]
        asks = not answers and node not in self._departures.heard[peer]
        return Gone(peer, ready, pending, asks)

    def _has_all(self, sender: NodeId, pending: list[int]) -> bool:
        """Whether all that a node had on its way to this one is here, processed or held."""
        return all(
            self._holdback.has(sender, number) or self._past.has_arrived(sender, number)
            for number in pending
        )

    def _held_copies(self) -> list[list[int]]:
        """The copies that are held here: they do not come too late, even after a crash."""
        found: list[list[int]] = []
        for copy in self._holdback.copies.values():
            flat = [copy.source, copy.number]
            for issuer, row in copy.numbers.items():
                if self._me in row:
                    flat += [issuer, row[self._me]]
            found.append([int(number) for number in flat])
        return found
