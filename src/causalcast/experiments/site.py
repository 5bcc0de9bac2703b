"""A site: the machines of an experiment. They share a folder, as those of a cluster mostly do.

[[machine]]                     # a TOML file; `local` stands for this machine alone
name = "paradoxe-1"
address = "10.0.0.1"            # where its nodes listen
run = ["ssh", "paradoxe-1"]     # put in front of a command that is to run there
python = "python3"              # there, with causalcast installed
"""

import ipaddress
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from causalcast.errors import ConfigError
from causalcast.runtime.operating.local_cluster import PORTS, free_addresses
from causalcast.toml_table import Table

LOCAL: Final = "local"


@dataclass(frozen=True)
class Machine:
    """One machine of a site, and how to run a command there."""

    name: str
    address: str = "127.0.0.1"
    run: list[str] = field(default_factory=list)
    python: str = sys.executable

    def command(self, arguments: Sequence[str]) -> list[str]:
        """What runs a module of this package there."""
        return [*self.run, self.python, "-m", *arguments]

    def addresses(self, count: int) -> list[str]:
        """Where so many nodes listen: ports that are free now where that can be tried."""
        if ipaddress.ip_address(self.address).is_loopback:
            return free_addresses(count, self.address)
        return [f"{self.address}:{port}" for port in PORTS[:count]]


def read_site(name: str) -> list[Machine]:
    """The machines of a site: `local`, or those that a TOML file lists."""
    if name == LOCAL:
        return [Machine(LOCAL)]
    path = Path(name)
    if not path.is_file():
        raise ConfigError(f"--site {name}: expected `{LOCAL}` or a TOML file that lists machines")
    table = Table.read(path)
    machines = [_machine(each) for each in table.tables("machine")]
    table.finish()
    names = [machine.name for machine in machines]
    if not machines or len(set(names)) < len(names):
        raise ConfigError(f"{path}: expected [[machine]] tables with different names")
    return machines


def _machine(table: Table) -> Machine:
    usual = Machine("")
    machine = Machine(
        table.text("name"),
        table.text("address", usual.address),
        [str(word) for word in table.items("run")] if table.has("run") else [],
        table.text("python", usual.python),
    )
    table.finish()
    try:
        ipaddress.ip_address(machine.address)
    except ValueError:
        raise table.wrong("address", machine.address, "an IP address") from None
    return machine
