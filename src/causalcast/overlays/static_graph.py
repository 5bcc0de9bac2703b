"""Static graph: the links are given at the start and kept up."""

from causalcast.core import LinkId, Message, NodeId, Outbox, Overlay, OverlaySpec, Setup
from causalcast.parts.standing_links import StandingLinks


class StaticGraph(Overlay):
    """My place in the graph: links to my neighbours in it, dialled again when lost."""

    def __init__(self, links: StandingLinks) -> None:
        self.links = links

    def on_start(self, out: Outbox) -> None:
        self.links.start(out)

    def on_recover(self, records: list[Message], out: Outbox) -> None:
        self.links.start(out)

    def on_link_up(self, peer: NodeId, link: LinkId, dialled: bool, out: Outbox) -> None:
        self.links.on_link_up(peer, link, out)

    def on_link_lost(self, peer: NodeId, link: LinkId, reason: str, out: Outbox) -> None:
        self.links.on_link_lost(peer, link, out)

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        self.links.on_timer(name, subject, out)

    def on_leave(self, out: Outbox) -> None:
        self.links.leave(out)


def build(setup: Setup) -> StaticGraph:
    return StaticGraph(StandingLinks(setup.me, setup.topology.within_reach()))


SPEC = OverlaySpec(
    name="static_graph",
    summary="Links given at the start and kept up.",
    build=build,
    static=True,
)
