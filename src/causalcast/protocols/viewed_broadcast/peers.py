"""What is known of others: who is linked or suspected, and what each of them has told."""

from typing import final

from causalcast.core.ids import LinkId, NodeId
from causalcast.parts.vector_clock import VectorClock
from causalcast.protocols.viewed_broadcast.membership import Membership
from causalcast.protocols.viewed_broadcast.messages import Status


@final
class Peers:
    """All of it is forgotten in a crash, and told again."""

    def __init__(self, me: NodeId) -> None:
        self.me = me
        self.links: dict[NodeId, LinkId] = {}
        self.suspected: dict[NodeId, None] = {}
        self.told: dict[NodeId, VectorClock] = {}  # what each has delivered
        self.installed: dict[NodeId, int] = {}
        self.known: dict[NodeId, int] = {}  # views
        self.promised: dict[NodeId, int] = {}  # for which view
        self.sent: dict[NodeId, VectorClock] = {}  # what each was told of us on this link

    def link_up(self, peer: NodeId, link: LinkId) -> None:
        self.links[peer] = link
        self.sent[peer] = {}

    def link_lost(self, peer: NodeId, link: LinkId) -> bool:
        """Whether it was the current one."""
        if self.links.get(peer) != link:
            return False
        del self.links[peer]
        self.sent.pop(peer, None)
        return True

    def hear(self, peer: NodeId, status: Status) -> list[NodeId]:
        """Remember what a peer says of itself; the origins of which it has more than was known."""
        self.installed[peer] = max(self.installed.get(peer, 0), status.installed)
        self.known[peer] = max(self.known.get(peer, 0), status.known)
        self.promised[peer] = max(self.promised.get(peer, 0), status.promised)
        told = self.told.setdefault(peer, {})
        news = [node for node, count in status.counts.items() if count > told.get(node, 0)]
        for node in news:
            told[node] = status.counts[node]
        return news

    def told_by(self, peer: NodeId, origin: NodeId) -> int:
        """How many publications of `origin` a peer is known to have delivered."""
        told = self.told.get(peer)
        return 0 if told is None else told.get(origin, 0)

    def all_told(self, origin: NodeId, done: int, members: list[NodeId]) -> int:
        """How many publications of `origin` all these members have delivered, this node `done`."""
        for peer in members:
            if peer != self.me:
                done = min(done, self.told_by(peer, origin))
        return done

    def have_all_installed(self, membership: Membership) -> bool:
        """Whether all members have installed the newest view, this node too."""
        return self.installed_by_all(membership) >= max(membership.views, default=0)

    def installed_by_all(self, membership: Membership) -> int:
        """The view that all members of the newest one have installed."""
        others = [self.installed.get(peer, 0) for peer in membership.others()]
        return min([membership.installed, *others])

    def linked(self, nodes: list[NodeId]) -> list[NodeId]:
        """Those to whom there is a link."""
        return [node for node in nodes if node in self.links]

    def forget(self, gone: list[NodeId]) -> None:
        """Nothing that those who were removed have told matters any more."""
        for peer in gone:
            self.told.pop(peer, None)
            self.promised.pop(peer, None)
