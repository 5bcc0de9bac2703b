"""Where a node can be reached."""

import ipaddress
from dataclasses import dataclass

from causalcast.core.ids import NodeId


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


class AddressBook:
    """The addresses of the configuration, and those that nodes told when they dialled in."""

    def __init__(self, known: dict[NodeId, Address]) -> None:
        self._known = dict(known)

    def find(self, node: NodeId) -> Address | None:
        """Where to dial `node`; None if nobody told."""
        return self._known.get(node)

    def learn(self, node: NodeId, address: Address) -> None:
        """A node told where it listens; what the configuration says is believed first."""
        self._known.setdefault(node, address)
