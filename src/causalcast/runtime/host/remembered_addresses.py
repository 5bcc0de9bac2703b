"""Where others could be reached in an earlier life: a node that knows names must find them again.

A file beside the journal, replaced as a whole now and then. What it says is only hearsay, so losing
its last second costs a question to a contact; a file that cannot be read is left out, and told.
"""

import asyncio
import json
import logging
from pathlib import Path
from typing import Final

from causalcast.core.ids import NODE_LIMIT, NodeId
from causalcast.disk import Disk
from causalcast.limits import Span
from causalcast.runtime.host.running import Running
from causalcast.runtime.links.address_book import Address, AddressBook

log = logging.getLogger(__name__)

FILE: Final = "addresses"
WRITE_EVERY: Final = Span(
    "runtime.host.remembered_addresses.write_every",
    1.0,
    least=0.05,
    most=60.0,
    about="between looks whether addresses of others are new, and are written down",
)


class RememberedAddresses:
    """Reads them when a node starts, and keeps them up while it runs."""

    def __init__(self, disk: Disk, folder: Path, book: AddressBook, running: Running) -> None:
        self._disk = disk
        self._path = folder / FILE
        self._book = book
        self._running = running
        self._written = book.changes

    def read(self) -> None:
        """Hear of everybody again."""
        if not self._disk.exists(self._path):
            return
        try:
            addresses = _parse(self._disk.read(self._path))
        except (OSError, ValueError, RecursionError) as error:
            log.warning("%s: addresses of others cannot be read: %s", self._path, error)
            return
        for node, address in addresses.items():
            self._book.hear(node, address)
        self._written = self._book.changes

    async def keep_up(self) -> None:
        """Write down what is new, until the node stops."""
        while not self._running.is_over:
            await asyncio.sleep(WRITE_EVERY.value)
            if self._book.changes != self._written:
                self.write()

    def write(self) -> None:
        """All of them, in place of the old file."""
        self._written = self._book.changes
        named = {str(node): str(address) for node, address in self._book.all().items()}
        new = self._path.with_name(FILE + ".new")
        try:
            file = self._disk.open(new, new=True)
            try:
                file.write(0, json.dumps(named).encode())
                file.sync()  # in the loop: it happens when somebody new is met, and seldom else
            finally:
                file.close()
            self._disk.rename(new, self._path)
        except OSError as error:  # the node goes on without: its contacts know others, too
            log.warning("%s: addresses of others cannot be written: %s", self._path, error)


def _parse(data: bytes) -> dict[NodeId, Address]:
    given = json.loads(data)
    if not isinstance(given, dict):
        raise ValueError("no table of nodes and addresses")
    found = {}
    for name, text in given.items():
        if not name.isdecimal() or int(name) >= NODE_LIMIT or not isinstance(text, str):
            raise ValueError(f"{name!r} = {text!r}: expected a node's id and host:port")
        found[NodeId(int(name))] = Address.parse(text)
    return found
