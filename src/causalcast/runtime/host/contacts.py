"""Contacts: the way into a cluster whose overlay changes, and back into it."""

import asyncio
import logging
from typing import Final

from causalcast.core.stack import Stack
from causalcast.errors import NodeError
from causalcast.limits import Span
from causalcast.runtime.host.running import Running
from causalcast.runtime.host.steps import Steps
from causalcast.runtime.links.address_book import AddressBook
from causalcast.runtime.links.introductions import who_is_at
from causalcast.runtime.links.links import DIAL_TIMEOUT, Links
from causalcast.runtime.node_config import NodeConfig

log = logging.getLogger(__name__)

CONTACT_AGAIN: Final = Span(
    "runtime.host.contacts.contact_again",
    1.0,
    least=0.05,
    most=60.0,
    about="between looks whether a contact is needed",
)


class Contacts:
    """Joins through a contact, as often as that is needed."""

    def __init__(
        self,
        config: NodeConfig,
        stack: Stack,
        steps: Steps,
        links: Links,
        book: AddressBook,
        running: Running,
    ) -> None:
        self._config = config
        self._stack = stack
        self._steps = steps
        self._links = links
        self._book = book
        self._running = running

    async def stay_linked(self) -> None:
        """Join through a contact; again whenever no link is left, or none that leads anywhere:
        two newcomers that have only one another never find their place."""
        while not self._running.is_over:
            if not self._links.current_peers() or not self._stack.multicast.takes_part():
                await self._join()
            await asyncio.sleep(CONTACT_AGAIN.value)

    async def _join(self) -> None:
        links = self._links
        for address in self._config.contacts:
            if address in (self._config.listen, self._config.advertise):
                continue
            try:
                context = links.client_context()
                contact = await who_is_at(
                    links.carrier, address, links.greeting, DIAL_TIMEOUT.value, context
                )
            except (OSError, TimeoutError) as error:
                log.warning("the contact at %s does not answer: %s", address, error)
            except NodeError as error:
                log.error("%s", error)
            else:
                self._book.learn(contact, address)
                if contact in links.current_peers():
                    return
                log.info("joining through node %s at %s", contact, address)
                self._steps.take(lambda: self._stack.join(contact, self._steps.out))  # noqa: B023 - at once
                return
