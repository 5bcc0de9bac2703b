"""Keeps links to a fixed set of peers: dials, and dials again after a loss (sub-automaton).

Of two neighbours the one with the greater id dials, so dials do not cross. Whoever dials in is
taken as a neighbour too: a reborn node has a new id and knows its old place.
"""

from typing import Final, final

from causalcast.core.duration import MILLISECOND
from causalcast.core.ids import LinkId, NodeId
from causalcast.core.outbox import Outbox

REDIAL: Final = "standing_links.redial"
# A tenth of a second is soon for people and rare for the network; a peer that stays away is asked
# less and less often, up to every five seconds.
FIRST_PAUSE: Final = 100 * MILLISECOND
LONGEST_PAUSE: Final = 5_000 * MILLISECOND


@final
class StandingLinks:
    """The peers to dial, and the links that are up."""

    def __init__(self, me: NodeId, peers: list[NodeId]) -> None:
        self._to_dial = {peer: FIRST_PAUSE for peer in peers if peer < me}
        self._up: dict[NodeId, LinkId] = {}

    def start(self, out: Outbox) -> None:
        """Dial everybody we are to dial."""
        for peer in self._to_dial:
            out.open_link(peer)

    def on_link_up(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        """A link is there: its peer is a neighbour."""
        if peer in self._up:
            out.neighbour_down(peer, self._up[peer])
        self._up[peer] = link
        if peer in self._to_dial:
            self._to_dial[peer] = FIRST_PAUSE
            out.cancel_timer(REDIAL, peer)
        out.neighbour_up(peer, link, False)

    def on_link_lost(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        """The link is gone, or a dial failed: try again after a pause."""
        if self._up.get(peer) == link:
            del self._up[peer]
            out.neighbour_down(peer, link)
        if peer in self._to_dial and peer not in self._up:
            pause = self._to_dial[peer]
            self._to_dial[peer] = min(2 * pause, LONGEST_PAUSE)
            out.start_timer(REDIAL, pause, peer)

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        """Dial again, unless the peer came back meanwhile."""
        assert name == REDIAL
        peer = NodeId(subject)
        if peer not in self._up:
            out.open_link(peer)

    def leave(self, out: Outbox) -> None:
        """Hang up on everybody and stay away."""
        for peer in self._to_dial:
            out.cancel_timer(REDIAL, peer)
        self._to_dial = {}
        for peer, link in self._up.items():
            out.neighbour_down(peer, link)
            out.close_link(peer)
        self._up = {}
