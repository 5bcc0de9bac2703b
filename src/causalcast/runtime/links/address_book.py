"""Where a node can be reached."""

import errno
import ipaddress
import socket
from dataclasses import dataclass
from typing import Final

from causalcast.core.ids import NodeId
from causalcast.limits import Limit

MOST_ADDRESSES: Final = Limit(
    "runtime.links.address_book.most_addresses",
    100_000,
    least=2,
    most=1 << 24,
    unit="nodes",
    about="addresses of one kind that are remembered, the newest",
)


@dataclass(frozen=True)
class Address:
    """A host and a TCP port."""

    host: str
    port: int

    @staticmethod
    def parse(text: str) -> "Address":
        """`127.0.0.1:7401` or `[::1]:7401`; raises ValueError for anything else."""
        host, colon, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise ValueError("host:port, such as 127.0.0.1:7401")
        return Address(host, int(port))

    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def why_not_listening(address: Address, error: OSError, key: str) -> str:
    """What keeps a node from listening at `address`, and what to do; `key` says it in its TOML."""
    if error.errno == errno.EADDRINUSE:
        why = f"another process has it; is this node running already? Stop it, or change {key}"
    elif error.errno == errno.EADDRNOTAVAIL:
        why = (
            f"this machine has no such address; {key} is one of its own (0.0.0.0 for all), and "
            "[node] advertise is where others reach it"
        )
    elif isinstance(error, socket.gaierror):
        why = f"the name {address.host} is unknown here; correct {key}"
    elif error.errno == errno.EACCES:
        why = f"ports below 1024 need a right that this user has not; change {key}"
    else:
        why = error.strerror or str(error)
    return f"cannot listen at {address}: {why}"


class AddressBook:
    """Who can be reached where: what the configuration says is believed first, then what a node
    told of itself, then what others told of it."""

    def __init__(self, known: dict[NodeId, Address]) -> None:
        self._known = dict(known)
        self._met: dict[NodeId, Address] = {}
        self._hearsay: dict[NodeId, Address] = {}  # the oldest first
        self.changes = 0  # how often something new was told

    def find(self, node: NodeId) -> Address | None:
        """Where to dial `node`; None if nobody told."""
        return self._known.get(node) or self._met.get(node) or self._hearsay.get(node)

    def all(self) -> dict[NodeId, Address]:
        """Where everybody can be reached whom somebody told of."""
        return {**self._hearsay, **self._met, **self._known}

    def learn(self, node: NodeId, address: Address) -> None:
        """A node told where it listens."""
        if node not in self._known:
            self.changes += self.find(node) != address
            self._hearsay.pop(node, None)
            self._met.pop(node, None)
            self._met[node] = address
            _keep_newest(self._met)

    def hear(self, node: NodeId, address: Address) -> None:
        """Somebody told where another node listens."""
        if node not in self._known and node not in self._met:
            self.changes += self._hearsay.pop(node, None) != address
            self._hearsay[node] = address
            _keep_newest(self._hearsay)


def _keep_newest(addresses: dict[NodeId, Address]) -> None:
    if len(addresses) > MOST_ADDRESSES.value:
        del addresses[next(iter(addresses))]
