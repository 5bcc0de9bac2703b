"""Neighbours that are silent although their links stand.

A process that stands still keeps its links, and they fill up. It is to cost no more than a killed
one, which keeps none: links to silent neighbours are cut if publishers would wait for them.
"""

import asyncio
from typing import Final

from causalcast.core.effects import Belief
from causalcast.core.ids import NodeId
from causalcast.limits import Span
from causalcast.runtime.host.back_pressure import BackPressure
from causalcast.runtime.host.observed import Observed
from causalcast.runtime.host.running import Running
from causalcast.runtime.links.links import Links

LOOK_EVERY: Final = Span(
    "runtime.host.silent_neighbours.look_every",
    0.5,
    least=0.01,
    most=10.0,
    about="between looks whether publishers wait for the silent",
)
# Seconds for which a node must have listened before it may hold silence against somebody.
LISTEN_FIRST: Final = Span(
    "runtime.host.silent_neighbours.listen_first",
    1.0,
    least=0.01,
    most=60.0,
    about="a node must have listened so long before it holds silence against somebody",
)


class SilentNeighbours:
    """Whom the detector believes to be down, and what is done about their links."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        links: Links,
        observed: Observed,
        running: Running,
        may_cut: bool,  # a cut link may have lost something: not every protocol brings that again
    ) -> None:
        self.suspected: dict[NodeId, None] = {}
        self._loop = loop
        self._links = links
        self._observed = observed
        self._running = running
        self._may_cut = may_cut
        self._looks = False
        self._listens_since = loop.time()
        self._pressure: BackPressure | None = None

    def watch(self, pressure: BackPressure) -> None:
        """From here on links are cut if publishers wait for them."""
        self._pressure = pressure

    def believe(self, belief: Belief) -> None:
        """The detector changed its mind about a neighbour."""
        if belief.up:
            self.suspected.pop(belief.peer, None)
            return
        self.suspected[belief.peer] = None
        if self._links.current_link(belief.peer) is not None:
            meaning = "nothing comes from this neighbour although its link stands"
            self._observed.tell("neighbour_silent", belief.peer, meaning)
            if not self._looks:
                self._looks = True
                self._loop.call_soon(self._look)

    def linked(self) -> list[NodeId]:
        """Those whose links stand."""
        return [peer for peer in self.suspected if self._links.current_link(peer) is not None]

    def _look(self) -> None:
        self._looks = False
        silent = self.linked()
        if self._running.is_over or not silent:
            return
        waits = self._pressure is not None and self._pressure.links_do_not_keep_up()
        if self._has_listened() and self._may_cut and waits:
            for peer in silent:
                meaning = "the link to this silent neighbour was cut, so that nobody waits for it"
                self._observed.tell("neighbour_cut_off", peer, meaning)
                self._links.cut_silent(peer)
        self._looks = True
        self._loop.call_later(LOOK_EVERY.value, self._look)

    def _has_listened(self) -> bool:
        """Who read nothing for a while must not wonder about silence."""
        return self._links.reads and self._loop.time() - self._listens_since > LISTEN_FIRST.value

    def listens_anew(self) -> None:
        """The node stopped reading from its links, or begins to again."""
        self._listens_since = self._loop.time()
