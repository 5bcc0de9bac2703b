"""The joints that a node serves at, and its links to the other servers.

Servers that seem to be down are doubted: others do their part meanwhile.
"""

from typing import Final, final

from causalcast.core.ids import NodeId
from causalcast.core.message import Message
from causalcast.core.outbox import Outbox
from causalcast.parts.addressed.reliable_links import ReliableLinks
from causalcast.parts.vector_clock import VectorClock
from causalcast.protocols.causal_separators.crossing_messages import (
    Arrivals,
    Carry,
    Closing,
    Crossing,
    Opening,
)
from causalcast.protocols.causal_separators.zone_crossing import ZoneCrossing
from causalcast.protocols.causal_separators.zone_unit import unpacked

TELL: Final = "causal_separators.tell"
SETTLE: Final = "causal_separators.settle"


@final
class Channels:
    """Who of the other servers can be reached, and what they are told soon."""

    def __init__(
        self,
        crossings: list[ZoneCrossing],
        links: ReliableLinks,
        seen: VectorClock,
        tell_after: int,
        settle_after: int,
    ) -> None:
        """`seen`: per origin, the last unit that was delivered here; not kept up here."""
        self.crossings = crossings
        self.links = links
        self._seen = seen
        self._tell_after = tell_after
        self._settle_after = settle_after
        self._tells_soon = False  # what was delivered, to servers at the other side
        self._linked: dict[NodeId, None] = {}
        self._suspected: dict[NodeId, None] = {}

    # Whom to doubt

    def add_link(self, peer: NodeId, out: Outbox) -> None:
        """There is a link to a node, which may be another server."""
        self.links.on_neighbour_up(peer, out)
        self._linked[peer] = None
        self._doubt(peer, peer in self._suspected, out)

    def drop_link(self, peer: NodeId, out: Outbox) -> None:
        """There is none any more."""
        self.links.on_neighbour_down(peer, out)
        self._linked.pop(peer, None)
        self._doubt(peer, True, out)

    def suspect(self, peer: NodeId, out: Outbox) -> None:
        """A node seems to be down."""
        self._suspected[peer] = None
        self._doubt(peer, True, out)

    def trust(self, peer: NodeId, out: Outbox) -> None:
        """It seems to be up again."""
        self._suspected.pop(peer, None)
        if peer in self._linked:
            self._doubt(peer, False, out)

    def settle(self, out: Outbox) -> None:
        """Give other servers time to link before they are doubted: after a start nobody says which
        of them are down."""
        if self.crossings:
            out.start_timer(SETTLE, self._settle_after)

    def doubt_whom_no_link_leads_to(self, out: Outbox) -> None:
        """Doubt the servers that have no link to this one yet."""
        for peer in self.links.peers:
            if peer not in self._linked:
                self._doubt(peer, True, out)

    def _doubt(self, peer: NodeId, doubted: bool, out: Outbox) -> None:
        for crossing in self.crossings:
            if crossing.ends.doubt(peer, doubted):
                self.send(crossing, 0, out)

    # What is sent

    def send(self, crossing: ZoneCrossing, at_least: int, out: Outbox) -> None:
        """Send all that is due at a joint, of units from this place on."""
        crossing.outgoing.drop_carried(self._seen)
        while True:
            sending = crossing.next_sending(at_least)
            if sending is None:
                return
            if sending.instead:
                out.note("causal_separators.instead_of_another", sending.to)
            self.links.send([sending.to], sending.content, out)
            crossing.outgoing.mark_sent(sending.to, sending.content)

    def tell_soon(self, out: Outbox) -> None:
        """Tell the other side soon what was delivered here: it keeps what it is not told of. So the
        timer does not start anew with each further unit."""
        if not self._tells_soon and any(c.has_news(self._seen) for c in self.crossings):
            self._tells_soon = True
            out.start_timer(TELL, self._tell_after)

    def tell_arrivals(self, out: Outbox) -> None:
        """Tell the other servers what was delivered here."""
        self._tells_soon = False
        for crossing in self.crossings:
            if crossing.has_news(self._seen):
                self.links.send(
                    crossing.partners, Arrivals(crossing.incoming.news(self._seen)), out
                )

    def crossing_with(self, peer: NodeId, content: Message) -> ZoneCrossing | None:
        """The joint that content from this server belongs to; None if it makes no sense."""
        if isinstance(content, Crossing):
            try:
                unpacked(content.unit)
            except (IndexError, ValueError):
                return None
        for crossing in self.crossings:
            if isinstance(content, Carry):
                if peer in crossing.servers and content.to in crossing.partners:
                    return crossing
            elif peer in crossing.partners and isinstance(
                content, (Crossing, Arrivals, Opening, Closing)
            ):
                return crossing
        return None
