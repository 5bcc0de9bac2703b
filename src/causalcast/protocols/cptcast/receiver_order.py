"""CPTCast whose receivers keep the order: tokens are never kept back (not in the thesis).

In the thesis one announcement at a time holds up everything behind it on its link. Here what came
before something it must follow stalls at the receiver, and a message may be delivered as soon as it
heads the stream of some link, wherever its payload came from.
"""

from typing import final

from causalcast.core import Message, MessageId, Outbox, Publication, Setup
from causalcast.parts.push_modes import ROOT
from causalcast.parts.safe_links.links import Delivery, Link, send_in_order
from causalcast.parts.safe_links.safe_path_setup import Control
from causalcast.protocols.cptcast.announcements import (
    Order,
    Settings,
    Stalled,
    TreeLink,
    prune,
    say_that_it_is_here,
)
from causalcast.protocols.cptcast.messages import (
    Gossip,
    Graft,
    Grafted,
    Have,
    IHave,
    Prune,
    Skip,
)
from causalcast.protocols.cptcast.root_tree import Beacon, RootTree


@final
class ReceiverOrder(Order):
    """Tokens are never kept back; what comes before something it must follow stalls here."""

    def __init__(self, setup: Setup, settings: Settings) -> None:
        super().__init__(setup, settings)
        self._to_visit: list[TreeLink] = []
        self._visiting = False
        self.tree = RootTree(setup.me, settings.beacon_every) if settings.tree == ROOT else None

    # Sending

    def spread(self, publication: Publication, hops: int, source: Link | None, out: Outbox) -> None:
        message = publication.id
        if self.tree is not None:
            self.tree.on_delivery(out)
        self.announcements.forget(message, out)
        asked = self.announcements.grafted.pop(message, {})
        for link in self.safe.links.values():
            assert isinstance(link, TreeLink)
            peer_has = link is source
            if link.safe_in:
                stalled = link.lacking.pop(message, None)
                if stalled is not None:
                    peer_has = True
                    self._settle_stalled(link, stalled, link is source, link.name in asked, out)
                elif link is not source:
                    link.owed[message] = self.safe.delivered
            if not link.safe_out:
                continue
            if peer_has:
                send_in_order(link, Skip(message), out)
            elif link.modes.is_eager(message):
                send_in_order(link, Gossip(publication, hops + 1), out)
            else:
                link.kept[message] = Delivery(publication, hops + 1)
                send_in_order(link, IHave(message, hops + 1), out)

    def _settle_stalled(
        self, link: TreeLink, stalled: Stalled, is_source: bool, asked: bool, out: Outbox
    ) -> None:
        """A message that stalled on this link is being delivered."""
        if stalled.delivery is not None:
            if not is_source:
                prune(link, stalled.message, self.settings, out)
        else:
            if not link.safe_out:
                out.note("cptcast.have_one_way", stalled.message)
                out.send(link.peer, Have(stalled.message), link.name)
            if asked:
                link.late[stalled.message] = None
        stalled.done = True
        self._to_visit.append(link)

    def peer_has(self, link: Link, message: MessageId, out: Outbox) -> None:
        assert isinstance(link, TreeLink)
        link.kept.pop(message, None)

    # Receiving

    def on_token(self, link: TreeLink, message: Message, out: Outbox) -> None:
        # Not in the paper, whose senders keep the order: see the top of this file.
        self._take_token(link, message, out)
        self._visit_all(out)

    def _take_token(self, link: TreeLink, message: Message, out: Outbox) -> None:
        if isinstance(message, Gossip):
            if link.safe_in:
                self._on_gossip(link, message, out)
        elif isinstance(message, IHave):
            if link.safe_in:
                self._on_i_have(link, message, out)
        elif isinstance(message, Skip):
            if link.safe_in:
                self._on_skip(link, message.message, out)
        elif isinstance(message, Have):
            self.peer_has(link, message.message, out)
        elif isinstance(message, Prune):
            if link.safe_out:
                link.modes.make_lazy(message.message)
        elif isinstance(message, Graft):
            if link.safe_out:
                self._on_graft(link, message.message, out)
        elif isinstance(message, Grafted):
            self._on_grafted(link, message, out)
        elif isinstance(message, Beacon):
            self._on_beacon(link, message, out)
        elif isinstance(message, Control) and link.stalled:
            out.note("cptcast.control_waits", link.peer)
            link.stalled.append(Stalled(MessageId(-1), None, message))
        else:
            self.safe.setup.on_message(link, message, out)

    def _on_gossip(self, link: TreeLink, gossip: Gossip, out: Outbox) -> None:
        # Alg. 11, l. 5-8; that it may stall here is not in the paper.
        message = gossip.publication.id
        if link.owed.pop(message, -1) >= 0:
            prune(link, message, self.settings, out)
            self.peer_has(link, message, out)
        elif link.stalled:
            out.note("cptcast.stalled", message)
            self._stall(link, message, Delivery(gossip.publication, gossip.hops))
            self._visit_who_lacks(message)
        else:
            self._make_eager(link, message)
            self.safe.accept(gossip.publication, gossip.hops, link, out)

    def _stall(self, link: TreeLink, message: MessageId, delivery: Delivery | None) -> None:
        stalled = Stalled(message, delivery, None)
        link.stalled.append(stalled)
        link.lacking[message] = stalled

    def _make_eager(self, link: TreeLink, message: MessageId) -> None:
        if link.safe_out:
            link.modes.make_eager(message)

    def _on_i_have(self, link: TreeLink, i_have: IHave, out: Outbox) -> None:
        # Alg. 12, l. 6-11; that it may stall here is not in the paper.
        message = i_have.message
        count = link.owed.pop(message, -1)
        if count >= 0:
            self._on_announced_known(link, message, count, out)
            return
        self._stall(link, message, None)
        self.announcements.note(link, message, i_have.hops, out)
        self._to_visit.append(link)  # the payload may be here already, on another link

    def _on_announced_known(
        self, link: TreeLink, message: MessageId, count: int, out: Outbox
    ) -> None:
        # Alg. 12, l. 9-11, and Alg. 14, l. 11; `Have` is not in the paper (E8, E15).
        if link.safe_out:
            self.peer_has(link, message, out)
        say_that_it_is_here(link, message, count, out)

    def _on_skip(self, link: TreeLink, message: MessageId, out: Outbox) -> None:
        # Alg. 13, l. 22-25: evidence, which the thesis sends as an announcement.
        link.owed.pop(message, None)
        if link.safe_out:
            self.peer_has(link, message, out)

    def ask_next(self, message: MessageId, out: Outbox) -> None:
        """It did not come: ask an announcer, unless the payload only waits for its turn (Alg. 12,
        l. 12-17)."""
        self.announcements.timed.pop(message, None)
        if self._has_payload(message):
            self.announcements.wait_again(message, out)
            return
        link = self.announcements.ran_out(message)
        if link is not None:
            self._graft(link, message, out)
            self.announcements.wait_again(message, out)

    def _graft(self, link: TreeLink, message: MessageId, out: Outbox) -> None:
        self.announcements.mark_grafted(link, message)
        self._make_eager(link, message)
        out.note("cptcast.grafted", message)
        out.send(link.peer, Graft(message), link.name)

    def _on_graft(self, link: TreeLink, message: MessageId, out: Outbox) -> None:
        # Alg. 13; the payload travels out of the stream, which is not in the paper.
        link.modes.make_eager(message)
        kept = link.kept.pop(message, None)
        if kept is not None:
            out.send(link.peer, Grafted(kept.publication, kept.hops), link.name)

    def _on_grafted(self, link: TreeLink, grafted: Grafted, out: Outbox) -> None:
        # Not in the paper, where payloads come in the stream.
        message = grafted.publication.id
        stalled = link.lacking.get(message)
        if message in link.late:
            del link.late[message]
            prune(link, message, self.settings, out)
        elif stalled is None or stalled.delivery is not None:
            out.note("cptcast.grafted_unasked", link.peer)
        else:
            stalled.delivery = Delivery(grafted.publication, grafted.hops)
            self.announcements.unmark_grafted(link, message)
            self._to_visit.append(link)
            self._visit_who_lacks(message)

    # The tree of a root

    def send_beacon(self, out: Outbox) -> None:
        """It is time for a beacon of this node, if it is the root."""
        if self.tree is not None and self.tree.is_due(out):
            self._pass_beacon_on(self.tree, None, out)

    def _on_beacon(self, link: TreeLink, beacon: Beacon, out: Outbox) -> None:
        # Not in the paper: its tree is shaped by messages.
        tree = self.tree
        if tree is None or not link.safe_in:
            return
        if tree.is_new(beacon):
            link.modes.give(True)
            self._pass_beacon_on(tree, link, out)
        elif tree.is_current(beacon):
            link.modes.give(beacon.parent)

    def _pass_beacon_on(self, tree: RootTree, source: TreeLink | None, out: Outbox) -> None:
        for link in self.safe.links.values():
            if link.safe_out:
                out.send(link.peer, Beacon(tree.root, tree.number, link is source), link.name)

    # Streams that may go on

    def _visit_who_lacks(self, message: MessageId) -> None:
        for link in self.safe.links.values():
            assert isinstance(link, TreeLink)
            if link.stalled and link.stalled[0].message == message:
                self._to_visit.append(link)

    def _visit_all(self, out: Outbox) -> None:
        if self._visiting:
            return
        self._visiting = True
        while self._to_visit:
            link = self._to_visit.pop(0)
            if self.safe.named.get(link.name) is link:
                self._visit(link, out)
        self._visiting = False

    def _visit(self, link: TreeLink, out: Outbox) -> None:
        """Take what heads the stream, as long as it can be taken."""
        while link.stalled:
            head = link.stalled[0]
            if head.control is not None:
                del link.stalled[0]
                self.safe.setup.on_message(link, head.control, out)
            elif head.done:
                del link.stalled[0]
            else:
                holder = self._holder(link, head.message)
                if holder is None:
                    return
                delivery = holder.lacking[head.message].delivery
                assert delivery is not None
                self._make_eager(holder, head.message)
                if not self.safe.accept(delivery.publication, delivery.hops, holder, out):
                    self._drop_lie(link, head.message)

    def _drop_lie(self, link: TreeLink, message: MessageId) -> None:
        """What can never be taken stalls nobody, and is not asked for."""
        del link.stalled[0]
        link.lacking.pop(message, None)
        if message in link.announced:
            self.announcements.mark_grafted(link, message)
        self.announcements.unmark_grafted(link, message)

    def _holder(self, first: TreeLink, message: MessageId) -> TreeLink | None:
        """A link on which the payload of a stalled message is here."""
        for link in [first, *self.safe.links.values()]:
            assert isinstance(link, TreeLink)
            stalled = link.lacking.get(message)
            if stalled is not None and stalled.delivery is not None:
                return link
        return None

    def _has_payload(self, message: MessageId) -> bool:
        for link in self.safe.links.values():
            assert isinstance(link, TreeLink)
            stalled = link.lacking.get(message)
            if stalled is not None and stalled.delivery is not None:
                return True
        return False

    def link_gone(self, link: Link, out: Outbox) -> None:
        assert isinstance(link, TreeLink)
        self.announcements.link_gone(link)
        for message in self.announcements.missing:
            if message not in self.announcements.timed:
                self.announcements.wait_again(message, out)
