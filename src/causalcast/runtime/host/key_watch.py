"""Keys that change while a node runs: new identities, and revocations that all must hear of."""

import asyncio
import contextlib
from typing import Final

from causalcast.core.ids import NodeId
from causalcast.errors import NodeError
from causalcast.limits import Span
from causalcast.runtime.host.running import Running
from causalcast.runtime.links.address_book import AddressBook
from causalcast.runtime.links.introductions import greeting_at
from causalcast.runtime.links.links import DIAL_TIMEOUT, Links
from causalcast.runtime.machine import Entropy
from causalcast.runtime.security.tls import Tls

LOOK_EVERY: Final = Span(
    "runtime.host.key_watch.look_every",
    1.0,
    least=0.05,
    most=60.0,
    about="between looks whether files of the identity changed",
)


class KeyWatch:
    """Looks at the files of the identity, and tells neighbours of revocations."""

    def __init__(self, links: Links, book: AddressBook, running: Running, entropy: Entropy) -> None:
        self._links = links
        self._book = book
        self._running = running
        self._entropy = entropy

    async def watch(self, tls: Tls) -> None:
        """Use a new identity as soon as it is there, and act on new revocations."""
        while not self._running.is_over:
            await asyncio.sleep(LOOK_EVERY.value)
            if tls.refresh():
                self._links.cut_off_revoked()
                self.spread()

    def spread(self) -> None:
        """Tell the neighbours of a newer list of revocations: each tells its own."""
        self._running.beside(self._tell_neighbours())

    async def _tell_neighbours(self) -> None:
        """One after the other, in any order; most have heard of it before their turn comes."""
        links = self._links
        for node in self._entropy.shuffled([*links.current_peers()]):
            peer = NodeId(node)
            address = self._book.find(peer)
            if address is None or peer in links.informed:
                continue
            with contextlib.suppress(OSError, TimeoutError, NodeError):
                context = links.client_context()
                await greeting_at(
                    links.carrier, address, links.greeting, DIAL_TIMEOUT.value, context
                )
