"""What links tell a node: each thing becomes a step, or goes to the part that knows about it."""

import asyncio
from pathlib import Path
from typing import Final

from causalcast.core.ids import NUMBER_MASK, LinkId, NodeId, link_id
from causalcast.core.outbox import Outbox
from causalcast.runtime.host.acquaintances import Acquaintances
from causalcast.runtime.host.parts import Parts
from causalcast.runtime.host.rows import Rows
from causalcast.runtime.host.running import Running
from causalcast.runtime.links.enrolment import grant
from causalcast.runtime.links.greeting import Greeting
from causalcast.runtime.links.links import Connection
from causalcast.runtime.lives import Known
from causalcast.runtime.node_trace import DROP
from causalcast.runtime.security.identity import Passport
from causalcast.wire.framing import BESIDE

LINK_BITS_PER_LIFE: Final = 20  # a million dials before the numbers of the next life begin


class LinkListener:
    """Hears everything about links; from `listen` on the stack hears it, too."""

    def __init__(
        self,
        me: NodeId,
        starts: int,  # how often this node has started
        loop: asyncio.AbstractEventLoop,
        running: Running,
        rows: Rows,
        acquaintances: Acquaintances,
        authority: Path | None,
    ) -> None:
        self._me = me
        self._starts = starts
        self._loop = loop
        self._running = running
        self._rows = rows
        self._acquaintances = acquaintances
        self._authority = authority
        self._dials = 0
        self._parts: Parts
        self._out: Outbox

    def listen(self, parts: Parts, out: Outbox) -> None:
        """The node is put together: links may come up."""
        self._parts = parts
        self._out = out

    def next_link(self) -> LinkId:
        """A new link id."""
        self._dials += 1
        # Cut to the 32 bits of a link's number: it comes round after thousands of lives.
        number = self._starts << LINK_BITS_PER_LIFE | self._dials
        return link_id(self._me, number & NUMBER_MASK)

    def link_up(self, peer: NodeId, link: LinkId, dialled: bool) -> None:
        """There is a current link to `peer`."""
        if not self._running.has_gone:
            self._acquaintances.meet(peer, self._parts.links)
            stack = self._parts.stack
            self._parts.steps.take(lambda: stack.link_up(peer, link, dialled, self._out))

    def link_lost(self, peer: NodeId, link: LinkId, reason: str) -> None:
        """The current link is gone, or a dial failed."""
        if not self._running.has_gone:
            stack = self._parts.stack
            self._parts.steps.take(lambda: stack.lose_link(peer, link, reason, self._out))
            self._parts.direct.lost(peer)

    def heard(self, peer: NodeId) -> None:
        """Bytes came from `peer`, perhaps in the middle of a message that takes long."""
        if not self._running.has_gone:
            self._parts.steps.take(lambda: self._parts.stack.heard(peer, self._out))

    def frames_came(self, link: Connection, frames: list[memoryview]) -> None:
        """Frames came on a current link; raises WireError for one that is no message."""
        if self._running.has_gone:
            return
        beside = [frame for frame in frames if frame and frame[0] == BESIDE]
        if not beside:
            self._parts.arrivals.take(link, frames, self._loop.time())
            return
        copies = [bytes(frame[1:]) for frame in beside]
        others = [frame for frame in frames if not frame or frame[0] != BESIDE]
        if others:
            self._parts.arrivals.take(link, others, self._loop.time())
        for data in copies:
            if link.current:
                self._parts.direct.came(link.peer, data)

    def dropped(self, peer: NodeId, reason: str) -> None:
        """A frame for `peer` will not leave."""
        if not self._running.has_gone:  # nothing stands behind its last row
            self._rows.add_now(DROP, peer=peer, note=reason)

    def relieved(self) -> None:
        """A link that was congested has room again."""
        self._parts.pressure.relieve()

    def revoked(self) -> None:
        """A newer list of revocations came; links to those on it are closed already."""
        self._parts.key_watch.spread()

    def known_of(self, peer: NodeId) -> Known | None:
        """What is known of `peer` from earlier links."""
        return self._acquaintances.known_of(peer)

    def peer_went_back(self, peer: NodeId, reason: str) -> None:
        """The storage of `peer` is older than what is known of it; it gets no link."""
        self._acquaintances.peer_went_back(peer, reason)

    def went_back(self, peer: NodeId, reason: str) -> None:
        """`peer` knows more of this node than this node itself; there is no link to it."""
        self._acquaintances.went_back(peer, reason)

    def enrol(self, passport: Passport, greeting: Greeting) -> bytes:
        """Give somebody who came with a token an identity, where this node may."""
        return grant(self._authority, passport, greeting)
