"""An overlay that was built once, kept as a file: `[overlay] from = "overlay.parquet"` reads it."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from causalcast.core.graphs import Edge
from causalcast.errors import ConfigError
from causalcast.simulator.worlds.simulated_world import SimulatedWorld


def save_graph(world: SimulatedWorld, path: Path) -> int:
    """Write the links between nodes that are up, each once; how many there are comes back."""
    edges = [
        (node.me, peer)
        for node in world.nodes
        if node.up
        for peer in sorted(world.links_of(node.me))
        if node.me < peer and node.me in world.links_of(peer)
    ]
    columns = {"a": [a for a, _ in edges], "b": [b for _, b in edges]}
    pq.write_table(pa.table(columns, pa.schema([("a", pa.int32()), ("b", pa.int32())])), path)
    return len(edges)


def read_edges(path: Path, where: str) -> list[Edge]:
    """The links of a saved graph, or an error that names the scenario that wants them."""
    try:
        saved = pq.read_table(path, columns=["a", "b"])
    except (OSError, pa.ArrowException, KeyError) as error:
        first = str(error).splitlines()[0]
        raise ConfigError(f"{where}: overlay.from = {str(path)!r}: {first}") from None
    return list(zip(saved["a"].to_pylist(), saved["b"].to_pylist(), strict=True))
