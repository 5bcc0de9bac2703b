"""Who the neighbours are, as far as this node has met them; written down with what comes next.

So a neighbour whose disk went back in time is noticed, and this node's own by the others (`lives`).
"""

import logging
from typing import final

from causalcast.core.ids import NodeId
from causalcast.errors import NodeError
from causalcast.runtime.host.observed import Observed
from causalcast.runtime.links.links import Links
from causalcast.runtime.lives import ADVICE, UNKNOWN, Known
from causalcast.runtime.storage import durable_entry
from causalcast.runtime.storage.durable_entry import Met
from causalcast.runtime.storage.journal import Journal

log = logging.getLogger(__name__)


@final
class Acquaintances:
    """What is known of neighbours, and who of them knows more of this node than itself."""

    def __init__(self, observed: Observed, met: dict[int, Known]) -> None:
        self.older_than: dict[NodeId, str] = {}  # who knows more of this node, and why
        self.journal: Journal | None = None
        self._observed = observed
        self._met = met
        self._last_of: dict[NodeId, int] = {}  # the last number that a neighbour brought of its own

    def known_of(self, peer: NodeId) -> Known | None:
        """What is known of `peer` from earlier links."""
        known = self._met.get(peer)
        number = self._last_of.get(peer, 0)
        if known is None or number <= known.published:
            return known
        return Known(known.incarnation, known.start, known.life, number)

    def all_known(self) -> dict[int, Known]:
        """What is known of everybody."""
        return {peer: known for peer in self._met if (known := self.known_of(NodeId(peer)))}

    def meet(self, peer: NodeId, links: Links) -> None:
        """There is a link to `peer`: write down who that is."""
        link = links.current_link(peer)
        if link is not None and link.greeted.done():
            life = link.greeted.result().life
            before = self.known_of(peer)
            published = 0 if before is None else before.published
            self._write_down(peer, Known(life.incarnation, life.start, life.life, published))

    def hear(self, peer: NodeId, number: int) -> None:
        """`peer` itself brought this publication of its own: write it down beside what came.

        Only what it brings itself is certain to be of the life that is known, or an earlier one.
        What others pass on may be of a life that this node has not met yet.
        """
        if number > self._last_of.get(peer, 0):
            self._last_of[peer] = number
            self._write_down(peer, self.known_of(peer))

    def _write_down(self, peer: NodeId, known: Known | None) -> None:
        """It goes to the disk with what comes next."""
        if self.journal is None or known is None or known.incarnation == UNKNOWN:
            return
        if known != self._met.get(peer):
            self._met[peer] = known
            self.journal.append(durable_entry.encode(Met(peer, known)))

    def peer_went_back(self, peer: NodeId, reason: str) -> None:
        """The storage of `peer` is older than what is known of it; it gets no link."""
        meaning = f"the storage of node {peer} is older than what is known of it: {reason}"
        log.error("%s", meaning)
        self._observed.tell_once("older_storage", peer, meaning)

    def went_back(self, peer: NodeId, reason: str) -> None:
        """`peer` knows more of this node than this node itself."""
        meaning = f"the storage of this node is older than node {peer} knows: {reason}"
        log.critical("%s", meaning)
        self._observed.tell_once("own_storage_is_older", peer, meaning)
        self.older_than[peer] = reason

    def refuse_to_publish(self) -> None:
        """Others have seen the numbers that would be given out now, on other publications."""
        peer, reason = next(iter(self.older_than.items()))
        raise NodeError(
            f"nothing can be published: node {peer} knows more of this node than its storage does "
            f"({reason}); {ADVICE}"
        )
