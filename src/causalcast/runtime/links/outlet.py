"""What is to leave in this turn of the loop, link by link. Compiled: every message passes here."""

from collections.abc import Callable
from typing import final

from causalcast.core.ids import ANY_LINK, LinkId, NodeId


@final
class Outlet:
    """One link: messages that leave together at the end of the turn."""

    def __init__(self, link: LinkId, flush: Callable[[], None]) -> None:
        self.link = link
        self.flush = flush  # writes them to the socket
        self.messages: list[bytes] = []


@final
class Outlets:
    """All links on which messages may leave now, and which of them have some."""

    def __init__(self) -> None:
        self.of_peer: dict[NodeId, Outlet] = {}
        self.to_flush: list[Outlet] = []
        self.queued_bytes = 0  # in this turn, on all links

    def put(self, to: NodeId, data: bytes, link: LinkId) -> bool:
        """Let a message leave on the current link; False if there is none, or another one."""
        outlet = self.of_peer.get(to)
        if outlet is None or (link != ANY_LINK and link != outlet.link):
            return False
        if not outlet.messages:
            self.to_flush.append(outlet)
        outlet.messages.append(data)
        self.queued_bytes += len(data)
        return True
