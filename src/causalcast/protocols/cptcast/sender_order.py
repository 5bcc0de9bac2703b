"""CPTCast as the thesis has it: the sender keeps the order where a payload is held back.

Algorithms 11 to 15.
"""

from typing import final

from causalcast.core import Message, MessageId, Outbox, Publication
from causalcast.parts.safe_links.links import Delivery, Link, send_in_order
from causalcast.protocols.cptcast.announcements import (
    Order,
    TreeLink,
    Waiting,
    prune,
    say_that_it_is_here,
)
from causalcast.protocols.cptcast.messages import Gossip, Graft, Grafted, Have, IHave, Prune, Skip


@final
class SenderOrder(Order):
    """A payload that is kept back keeps back everything behind it on its link."""

    # Sending

    def spread(self, publication: Publication, hops: int, source: Link | None, out: Outbox) -> None:
        message = publication.id
        announcers = self.announcements.forget(message, out)
        asked = self.announcements.grafted.pop(message, {})
        delivery = Delivery(publication, hops + 1)
        for link in self.safe.links.values():
            assert isinstance(link, TreeLink)
            announced = link.name in announcers
            # An announcer has paid with its announcement; one that was asked still owes.
            if link.safe_in and link is not source and not announced:
                link.owed[message] = self.safe.delivered
            if link.safe_out:
                if link is source or announced or link.name in asked:
                    send_in_order(link, Skip(message), out)
                else:
                    self._push(link, delivery, out)
            elif announced:  # a one-way link: nothing else tells the peer not to keep it
                out.note("cptcast.have_one_way", message)
                out.send(link.peer, Have(message), link.name)

    def _push(self, link: TreeLink, delivery: Delivery, out: Outbox) -> None:
        message = delivery.publication.id
        if not link.queue and link.modes.is_eager(message):
            send_in_order(link, Gossip(delivery.publication, delivery.hops), out)
            return
        told = not link.queue
        link.queue.append(Waiting(delivery, None, told))
        if told:
            send_in_order(link, IHave(message, delivery.hops), out)

    def send_in_stream(self, link: Link, message: Message, out: Outbox) -> None:
        assert isinstance(link, TreeLink)
        if link.queue:
            out.note("cptcast.control_waits", link.peer)
            link.queue.append(Waiting(None, message, True))
        else:
            send_in_order(link, message, out)

    def _pump(self, link: TreeLink, out: Outbox) -> None:
        """Let go what heads the queue, up to the first that waits for a graft or evidence."""
        while link.queue:
            head = link.queue[0]
            if head.delivery is None:
                self._send_waiting(link, head, out)
            elif head.told:
                return  # even if the link has become eager: its one token was sent
            elif link.modes.is_eager(head.delivery.publication.id):
                self._send_waiting(link, head, out)
            else:
                head.told = True
                message = head.delivery.publication.id
                send_in_order(link, IHave(message, head.delivery.hops), out)
                return
            del link.queue[0]

    def _send_waiting(self, link: TreeLink, waiting: Waiting, out: Outbox) -> None:
        if waiting.delivery is None:
            assert waiting.control is not None
            send_in_order(link, waiting.control, out)
        else:
            delivery = waiting.delivery
            send_in_order(link, Gossip(delivery.publication, delivery.hops), out)

    def peer_has(self, link: Link, message: MessageId, out: Outbox) -> None:
        assert isinstance(link, TreeLink)
        place = self._place(link, message)
        if place < 0:
            return
        waiting = link.queue.pop(place)
        if not waiting.told:
            send_in_order(link, Skip(message), out)
        if place == 0:
            self._pump(link, out)

    def _place(self, link: TreeLink, message: MessageId) -> int:
        for place, waiting in enumerate(link.queue):
            if waiting.delivery is not None and waiting.delivery.publication.id == message:
                return place
        return -1

    # Receiving

    def link_gone(self, link: Link, out: Outbox) -> None:
        assert isinstance(link, TreeLink)
        self.announcements.link_gone(link)

    def on_token(self, link: TreeLink, message: Message, out: Outbox) -> None:
        # Alg. 11 to 13, by kind of token; nothing counts on an unsafe direction (E4).
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
            if link.safe_out:
                self.peer_has(link, message.message, out)
        elif isinstance(message, Prune):
            if link.safe_out:
                link.modes.make_lazy(message.message)
        elif isinstance(message, Graft):
            if link.safe_out:
                self._on_graft(link, message.message, out)
        elif isinstance(message, Grafted):
            out.note("cptcast.grafted_unasked", link.peer)
        else:
            self.safe.setup.on_message(link, message, out)

    def _on_gossip(self, link: TreeLink, gossip: Gossip, out: Outbox) -> None:
        # Alg. 11, l. 5-8 and, if it came twice, l. 14-23.
        message = gossip.publication.id
        if link.owed.pop(message, -1) >= 0:
            prune(link, message, self.settings, out)
            if link.safe_out:
                self.peer_has(link, message, out)
            return
        self.announcements.unmark_grafted(link, message)
        self._make_eager(link, message, out)
        self.safe.accept(gossip.publication, gossip.hops, link, out)

    def _make_eager(self, link: TreeLink, message: MessageId, out: Outbox) -> None:
        if link.safe_out and not link.modes.is_eager(message):
            link.modes.make_eager(message)
            self._pump(link, out)

    def _on_i_have(self, link: TreeLink, i_have: IHave, out: Outbox) -> None:
        # Alg. 12, l. 6-11.
        message = i_have.message
        count = link.owed.pop(message, -1)
        if count >= 0:
            self._on_announced_known(link, message, count, out)
        else:
            self.announcements.note(link, message, i_have.hops, out)

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
        """It did not come: ask an announcer, and expect it from there (Alg. 12, l. 12-17)."""
        self.announcements.timed.pop(message, None)
        link = self.announcements.ran_out(message)
        if link is not None:
            self._graft(link, message, out)
            self.announcements.wait_again(message, out)

    def _graft(self, link: TreeLink, message: MessageId, out: Outbox) -> None:
        self.announcements.mark_grafted(link, message)
        self._make_eager(link, message, out)
        out.note("cptcast.grafted", message)
        out.send(link.peer, Graft(message), link.name)

    def _on_graft(self, link: TreeLink, message: MessageId, out: Outbox) -> None:
        # Alg. 13: the head of the queue leaves, and the queue goes on.
        link.modes.make_eager(message)
        if self._place(link, message) != 0:
            return  # only what heads the queue was announced
        self._send_waiting(link, link.queue.pop(0), out)
        self._pump(link, out)
