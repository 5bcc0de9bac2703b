"""Whom a detector suspects; tells each change of mind once."""

from typing import final

from causalcast.core.ids import NodeId
from causalcast.core.outbox import Outbox


@final
class Suspicions:
    """The peers that are believed to be down."""

    def __init__(self) -> None:
        self._suspected: dict[NodeId, None] = {}

    def doubt(self, peer: NodeId, out: Outbox) -> None:
        """Believe `peer` to be down from now on."""
        if peer not in self._suspected:
            self._suspected[peer] = None
            out.suspect(peer)

    def believe(self, peer: NodeId, out: Outbox) -> None:
        """Believe `peer` to be up."""
        if peer in self._suspected:
            del self._suspected[peer]
            out.trust(peer)
