"""Static graph: the links are given at the start and kept up.

Of two neighbours the one with the greater id dials, so dials do not cross. Whoever dials in is
taken as a neighbour too: a reborn node has a new id and knows its old place.
"""

from typing import Final

from causalcast.core import LinkId, Message, NodeId, Outbox, Overlay, OverlaySpec, Setup
from causalcast.core.duration import MILLISECOND
from causalcast.limits import Limit

REDIAL: Final = "standing_links.redial"  # as scenarios name it
# A tenth of a second is soon for people and rare for the network; a peer that stays away is asked
# less and less often, up to every five seconds.
FIRST_PAUSE: Final = Limit(
    "overlays.static_graph.first_pause",
    100 * MILLISECOND,
    least=1 * MILLISECOND,
    most=60_000 * MILLISECOND,
    unit="us",
    about="before a lost link is dialled again",
)
LONGEST_PAUSE: Final = Limit(
    "overlays.static_graph.longest_pause",
    5_000 * MILLISECOND,
    least=10 * MILLISECOND,
    most=60_000 * MILLISECOND,
    unit="us",
    about="the longest such pause",
)


class StaticGraph(Overlay):
    """My place in the graph: links to my neighbours in it, dialled again when lost."""

    def __init__(self, me: NodeId, peers: list[NodeId]) -> None:
        self._to_dial = {peer: FIRST_PAUSE.value for peer in peers if peer < me}
        self._up: dict[NodeId, LinkId] = {}

    def on_start(self, out: Outbox) -> None:
        for peer in self._to_dial:
            out.open_link(peer)

    def on_recover(self, records: list[Message], out: Outbox) -> None:
        self.on_start(out)

    def on_link_up(self, peer: NodeId, link: LinkId, dialled: bool, out: Outbox) -> None:
        """A link is there: its peer is a neighbour."""
        if peer in self._up:
            out.neighbour_down(peer, self._up[peer])
        self._up[peer] = link
        if peer in self._to_dial:
            self._to_dial[peer] = FIRST_PAUSE.value
            out.cancel_timer(REDIAL, peer)
        out.neighbour_up(peer, link, False)

    def on_link_lost(self, peer: NodeId, link: LinkId, reason: str, out: Outbox) -> None:
        """The link is gone, or a dial failed: try again after a pause."""
        if self._up.get(peer) == link:
            del self._up[peer]
            out.neighbour_down(peer, link)
        if peer in self._to_dial and peer not in self._up:
            pause = self._to_dial[peer]
            self._to_dial[peer] = min(2 * pause, LONGEST_PAUSE.value)
            out.start_timer(REDIAL, pause, peer)

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        """Dial again, unless the peer came back meanwhile."""
        assert name == REDIAL
        peer = NodeId(subject)
        if peer not in self._up:
            out.open_link(peer)

    def on_leave(self, out: Outbox) -> None:
        """Hang up on everybody and stay away."""
        for peer in self._to_dial:
            out.cancel_timer(REDIAL, peer)
        self._to_dial = {}
        for peer, link in self._up.items():
            out.neighbour_down(peer, link)
            out.close_link(peer)
        self._up = {}


def build(setup: Setup) -> StaticGraph:
    return StaticGraph(setup.me, setup.topology.within_reach())


SPEC = OverlaySpec(
    name="static_graph",
    summary="Links given at the start and kept up.",
    build=build,
    static=True,
)
