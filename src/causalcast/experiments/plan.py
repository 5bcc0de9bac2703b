"""What was asked for when an experiment was started: kept in its folder, read by everybody."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from causalcast.errors import ConfigError

FILE: Final = "experiment.json"


@dataclass
class Plan:
    """The parameters of a bootstrap, and which node runs where."""

    site: str
    processes_per_machine: int
    broadcasters: list[int]  # nodes that broadcast when they are told to
    protocol: str
    overlay: str
    machines: dict[str, list[int]]  # their nodes, by name

    @property
    def nodes(self) -> list[int]:
        """All nodes of all machines."""
        return [node for nodes in self.machines.values() for node in nodes]

    def nodes_on(self, machine: str) -> list[int]:
        """Those that run on one machine."""
        return self.machines[machine]

    def write(self, folder: Path) -> None:
        """Keep it in the experiment's folder; others may look there at any moment."""
        unfinished = folder / f"{FILE}.new"
        unfinished.write_text(json.dumps(asdict(self), indent=1) + "\n")
        unfinished.rename(folder / FILE)

    @staticmethod
    def read(folder: Path) -> "Plan":
        """The plan of the experiment in `folder`."""
        try:
            return Plan(**json.loads((folder / FILE).read_text()))
        except FileNotFoundError:
            raise ConfigError(f"{folder}: no experiment was started here") from None


def spread(nodes: list[int], count: int) -> list[int]:
    """So many of the nodes, at even distances: every machine has its share of broadcasters."""
    if not 1 <= count <= len(nodes):
        raise ConfigError(f"{count} broadcasters: expected 1 to {len(nodes)}, the number of nodes")
    return [nodes[place * len(nodes) // count] for place in range(count)]
