"""Where the node is that somebody means: in the folder of a cluster, in its own, or beside others.

DIR/node-3/            as `causalcast up` and `join` lay nodes out
DIR/                   the folder of the node itself: its node.toml and its control socket
DIR/berlin-1/          one folder per node, as the systemd unit has them
"""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from causalcast.errors import NodeError
from causalcast.runtime.operating.control_client import control_path

_FOLDER = re.compile(r"node-(\d+)")
_SOCKET = re.compile(r"control-(.+)\.sock")


@dataclass(frozen=True, order=True)
class FoundNode:
    """A node by the folder in which its control socket is, and the name of that."""

    folder: Path
    name: str  # its id, or "new" if that is new in every life

    def socket(self) -> Path:
        """Where it can be asked while it runs."""
        return control_path(self.folder, self.name)


def find_node(place: Path, wanted: str | None) -> FoundNode:
    """The node called `wanted` (an id, or the name of its folder) in `place`.

    Those that run come first. Without a name: the only one there is. NodeError if there is none, or
    more than one.
    """
    if not place.is_dir():
        raise NodeError(f"{place}: no such folder; --dir is the folder of the cluster or the node")
    found = [node for folder in _folders(place) for node in _nodes_in(folder)]
    if wanted is None:
        chosen = found
    else:
        chosen = [node for node in found if wanted == node.name]
        chosen = chosen or [node for node in found if wanted == node.folder.resolve().name]
    running = {node.socket().resolve(): node for node in chosen if node.socket().is_socket()}
    chosen = list(running.values()) or chosen
    if len(chosen) == 1:
        return chosen[0]
    known = ", ".join(sorted({node.name for node in found}))
    if chosen:
        places = ", ".join(str(node.folder) for node in chosen)
        raise NodeError(f"{place}: several nodes ({places}); say which with --node, or a --dir")
    there = f"there are: {known}" if known else "no node.toml and no control socket"
    raise NodeError(f"{place}: no node {wanted or ''} there ({there})")


def find_nodes(place: Path) -> list[FoundNode]:
    """All nodes in `place`, by name, each once; NodeError if it is no folder."""
    if not place.is_dir():
        raise NodeError(f"{place}: no such folder; expected that of a cluster or of a node")
    found: dict[str, FoundNode] = {}
    for folder in _folders(place):
        for node in _nodes_in(folder):
            if node.name not in found or node.socket().is_socket():
                found[node.name] = node
    return sorted(
        found.values(), key=lambda node: (not node.name.isdecimal(), len(node.name), node)
    )


def _folders(place: Path) -> list[Path]:
    try:
        return [place, *sorted(path for path in place.iterdir() if path.is_dir())]
    except OSError as error:
        raise NodeError(f"{place}: {error.strerror}") from None


def _nodes_in(folder: Path) -> list[FoundNode]:
    """Those that run there, and those that are described by a TOML file or the folder's name."""
    named = _FOLDER.fullmatch(folder.name)
    names: dict[str, None] = {} if named is None else {named[1]: None}
    try:
        for path in sorted(folder.iterdir()):
            match = _SOCKET.fullmatch(path.name)
            if match is not None and path.is_socket():
                names[match[1]] = None
            elif path.suffix == ".toml":
                names |= dict.fromkeys(_ids_in(path))
    except OSError:
        return []  # the folder of somebody else
    return [FoundNode(folder, name) for name in names]


def _ids_in(path: Path) -> list[str]:
    try:
        node = tomllib.loads(path.read_text()).get("node", {})
    except (OSError, ValueError):
        return []
    return [str(node["id"])] if isinstance(node, dict) and "id" in node else []
